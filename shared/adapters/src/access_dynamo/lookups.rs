//! One read of a key at a time, remembered for a while.
//!
//! A request that arrives while a read is under way waits for that read. The time of a result counts from the beginning of its read.
//! A failure is returned to the requests that waited for it, and not remembered. A key that does not exist is remembered as well,
//! and forgotten first: invented keys cost one read each, and displace no tenant's.

use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use redial_core::access::StoredKey;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use crate::cache::Cache;

/// How long a worker relies on what it has read.
pub const REMEMBERED: Duration = Duration::from_secs(30);

type Found = Result<Option<StoredKey>, PortError>;

#[derive(Clone, Debug)]
pub(super) struct Lookups<K>(Cache<K, Lookup>);

/// A read, under way or done.
struct Lookup {
    at: Timestamp,
    found: Shared<BoxFuture<'static, Found>>,
}

impl<K> Default for Lookups<K> {
    fn default() -> Self {
        Self(Cache::default())
    }
}

impl<K: Eq + Hash + Clone> Lookups<K> {
    /// What is remembered at `now`, or what `read` returns.
    pub(super) async fn get<F>(&self, key: &K, now: Timestamp, read: impl FnOnce() -> F) -> Found
    where
        F: Future<Output = Found> + Send + 'static,
    {
        let found = {
            let mut all = self.0.lock();
            match all.get(key).filter(|lookup| lookup.is_fresh(now)) {
                Some(lookup) => lookup.found.clone(),
                None => {
                    let found = read().boxed().shared();
                    let lookup = Lookup { at: now, found: found.clone() };
                    let worth = |lookup: &Lookup| match lookup.found.peek() {
                        _ if !lookup.is_fresh(now) => 0,
                        Some(Ok(None)) => 1,
                        _ => 2,
                    };
                    Cache::<K, Lookup>::insert_into(&mut all, key.clone(), lookup, worth);
                    found
                }
            }
        };
        found.await
    }
}

impl Lookup {
    /// A clock that was set back makes nothing last longer.
    fn is_fresh(&self, now: Timestamp) -> bool {
        let is_new = self.at <= now && now < self.at.plus(REMEMBERED);
        is_new && !matches!(self.found.peek(), Some(Err(_)))
    }
}
