//! What a worker remembers, bounded.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many entries a cache holds unless it says otherwise.
pub(crate) const MOST: usize = 4096;

/// A bounded map, shared by its clones. A full one drops the entries of least worth: a lookup that has to be made again costs a call
/// and nothing else, and no order of use has to be kept.
pub(crate) struct Cache<K, V, const N: usize = MOST>(Arc<Mutex<HashMap<K, V>>>);

impl<K: Eq + Hash, V, const N: usize> Cache<K, V, N> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<K, V>> {
        // No change under this lock can be left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.lock().contains_key(key)
    }

    /// Inserts an entry. Where there is no room for it, all entries of the least worth that any has are dropped first.
    pub(crate) fn insert(&self, key: K, value: V, worth: impl Fn(&V) -> u8) {
        Self::insert_into(&mut self.lock(), key, value, worth);
    }

    /// The same, for a caller that holds the lock.
    pub(crate) fn insert_into(all: &mut HashMap<K, V>, key: K, value: V, worth: impl Fn(&V) -> u8) {
        if all.len() >= N && !all.contains_key(&key) {
            let least = all.values().map(&worth).min();
            all.retain(|_, value| Some(worth(value)) != least);
        }
        all.insert(key, value);
    }
}

impl<K, V, const N: usize> Clone for Cache<K, V, N> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, V, const N: usize> Default for Cache<K, V, N> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// Entries may be secret.
impl<K, V, const N: usize> fmt::Debug for Cache<K, V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cache")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_drops_the_entries_of_least_worth() {
        let cache: Cache<u8, u8, 3> = Cache::default();
        let insert = |key, value| {
            cache.clone().insert(key, value, |value| *value);
            let mut keys: Vec<u8> = cache.lock().keys().copied().collect();
            keys.sort_unstable();
            keys
        };
        assert_eq!(insert(1, 1), [1]);
        assert_eq!(insert(2, 0), [1, 2]);
        assert_eq!(insert(3, 0), [1, 2, 3]);
        assert_eq!(insert(3, 1), [1, 2, 3], "an entry that is replaced needs no room");
        assert_eq!(insert(4, 1), [1, 3, 4]);
        assert_eq!(insert(5, 1), [5], "all were worth the same");
        assert!(cache.contains(&5) && !cache.contains(&1));
    }
}
