//! What a worker remembers having done, so that it does not ask the same of AWS again and again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// How many things are remembered before all are forgotten: forgetting costs a call, and nothing else.
const MOST: usize = 4096;

/// A bounded set, shared by the clones of its owner.
#[derive(Clone, Debug)]
pub(crate) struct Remembered<T>(Arc<Mutex<BTreeSet<T>>>);

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Ord> Remembered<T> {
    pub(crate) fn has(&self, it: &T) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(it)
    }

    pub(crate) fn add(&self, it: T) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(it);
    }
}
