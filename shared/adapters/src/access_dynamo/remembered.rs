//! One read of a key at a time, and its answer for a while.
//!
//! Whoever asks while a read is under way waits for that read. It began before they asked, by at most the time that an answer
//! is good for anyway. An answer's time counts from the beginning of its read, and a failure is nobody's answer but of those who
//! waited for it.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use redial_core::access::StoredKey;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::REMEMBERED;

/// How many keys are remembered, those included that do not exist.
pub(super) const MOST: usize = 4096;

type Answer = Result<Option<StoredKey>, PortError>;

/// What was asked of late, by key.
pub(super) struct Remembered<K>(Mutex<HashMap<K, Asked>>);

/// A read, under way or done.
struct Asked {
    at: Timestamp,
    answer: Shared<BoxFuture<'static, Answer>>,
}

impl<K> Default for Remembered<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone> Remembered<K> {
    /// What is remembered at `now`, or what `read` says.
    pub(super) async fn get<F>(&self, key: &K, now: Timestamp, read: impl FnOnce() -> F) -> Answer
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let answer = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match all.get(key).filter(|asked| asked.is_good(now)) {
                Some(asked) => asked.answer.clone(),
                None => {
                    make_room(&mut all, key, now);
                    let answer = read().boxed().shared();
                    all.insert(key.clone(), Asked { at: now, answer: answer.clone() });
                    answer
                }
            }
        };
        answer.await
    }
}

impl Asked {
    /// A clock that was set back makes nothing last longer.
    fn is_good(&self, now: Timestamp) -> bool {
        let is_new = self.at <= now && now < self.at.plus(REMEMBERED);
        is_new && !matches!(self.answer.peek(), Some(Err(_)))
    }

    fn is_of_none(&self) -> bool {
        matches!(self.answer.peek(), Some(Ok(None)))
    }
}

/// Forgets what is old, then keys that do not exist, then all.
fn make_room<K: Eq + Hash>(all: &mut HashMap<K, Asked>, key: &K, now: Timestamp) {
    if all.len() < MOST || all.contains_key(key) {
        return;
    }
    all.retain(|_, asked| asked.is_good(now));
    if all.len() >= MOST {
        all.retain(|_, asked| !asked.is_of_none());
    }
    if all.len() >= MOST {
        all.clear();
    }
}

/// What is remembered is nobody's business.
impl<K> fmt::Debug for Remembered<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remembered")
    }
}
