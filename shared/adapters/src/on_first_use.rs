//! What is made when it is first used, because most starts of a function never use it.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

type Make<T> = Box<dyn FnOnce() -> T + Send>;

/// Clones share what is made.
pub struct OnFirstUse<T>(Arc<LazyLock<T, Make<T>>>);

impl<T> OnFirstUse<T> {
    pub fn new(make: impl FnOnce() -> T + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl<T: Send + 'static> From<T> for OnFirstUse<T> {
    fn from(made: T) -> Self {
        Self::new(|| made)
    }
}

impl<T> Deref for OnFirstUse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for OnFirstUse<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for OnFirstUse<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnFirstUse")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn it_is_made_once_and_not_before_its_first_use() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let lazy = OnFirstUse::new(move || counter.fetch_add(1, Ordering::Relaxed));
        let other = lazy.clone();
        assert_eq!(made.load(Ordering::Relaxed), 0);
        assert_eq!((*lazy, *other), (0, 0));
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }
}
