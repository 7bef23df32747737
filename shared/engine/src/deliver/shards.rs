//! What a worker knows of the buckets and lines that it parks in: into how many shards each is divided.
//!
//! A bucket begins with one shard and is divided as messages come, so that its release reads no more shards than its messages fill.
//! The number only grows. A worker that knows an old one puts its messages in fewer shards, all of which the release visits: that
//! is safe, and only uneven. So each worker relies on what it has read for a number of messages, and reports them
//! together with the next ones.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redial_core::line::Line;
use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;

/// A worker puts this number of messages in a bucket before it reports them: one write for some 64 items. A thousand workers that begin
/// together put some 9,000 messages of the 64,000 in the first shard.
const UNREPORTED: u64 = 64;

/// Of how many buckets a worker knows something; beyond it, it forgets all.
const MOST: usize = 4096;

/// Lives as long as the worker.
#[derive(Debug)]
pub struct KnownShards<K>(Mutex<BTreeMap<K, Known>>);

impl<K> Default for KnownShards<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// See [`KnownShards`].
pub type KnownBuckets = KnownShards<WaitBucket>;

/// See [`KnownShards`].
pub type KnownLines = KnownShards<Line>;

#[derive(Clone, Copy, Debug)]
struct Known {
    shards: u16,
    /// From then on it is not relied on.
    until: Timestamp,
    /// Messages that were put in it since the last report.
    unreported: u64,
}

/// What a worker does before it puts messages in a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    /// It puts them in these shards.
    Known(u16),
    /// It reports this number of messages, and so reads the number of shards.
    Report(u64),
}

impl<K: Ord> KnownShards<K> {
    /// Before `messages` are put in the bucket. The count of one that has `most` shards no longer matters.
    pub(super) fn ask(&self, bucket: &K, messages: u64, most: u16, now: Timestamp) -> Ask {
        let mut all = self.all();
        let Some(known) = all.get_mut(bucket).filter(|known| now < known.until) else {
            return Ask::Report(messages);
        };
        if known.shards >= most {
            return Ask::Known(known.shards);
        }
        known.unreported += messages;
        if known.unreported <= UNREPORTED { Ask::Known(known.shards) } else { Ask::Report(known.unreported) }
    }

    /// What was reported was counted, and the bucket has at least `shards` shards, which is relied on until `until`.
    pub(super) fn learn(&self, bucket: K, shards: u16, until: Timestamp, now: Timestamp) {
        let mut all = self.all();
        if !all.contains_key(&bucket) {
            all.retain(|_, known| known.until > now);
            if all.len() >= MOST {
                all.clear();
            }
        }
        all.insert(bucket, Known { shards, until, unreported: 0 });
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<K, Known>> {
        // No change under this lock can be left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use redial_core::lane::Lane;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_secs(1_800_000_000)
    }

    fn bucket(minute: u64) -> WaitBucket {
        let due = now().plus(std::time::Duration::from_secs(60 * minute));
        WaitBucket::of(Lane::Bulk, due, 60, now()).expect("ahead of now")
    }

    #[test]
    fn messages_are_reported_together_until_the_bucket_has_all_shards() {
        let known = KnownBuckets::default();
        assert_eq!(known.ask(&bucket(1), 10, 128, now()), Ask::Report(10));
        known.learn(bucket(1), 1, bucket(1).start(), now());
        for _ in 0..6 {
            assert_eq!(known.ask(&bucket(1), 10, 128, now()), Ask::Known(1));
        }
        assert_eq!(known.ask(&bucket(1), 10, 128, now()), Ask::Report(70));
        assert_eq!(known.ask(&bucket(1), 10, 128, now()), Ask::Report(80), "the report failed");
        known.learn(bucket(1), 128, bucket(1).start(), now());
        for _ in 0..1_000 {
            assert_eq!(known.ask(&bucket(1), 10, 128, now()), Ask::Known(128));
        }
        assert_eq!(known.ask(&bucket(2), 10, 128, now()), Ask::Report(10));
    }

    #[test]
    fn buckets_that_have_begun_are_forgotten() {
        let known = KnownBuckets::default();
        known.learn(bucket(1), 4, bucket(1).start(), now());
        known.learn(bucket(3), 8, bucket(3).start(), now());
        known.learn(bucket(4), 2, bucket(4).start(), bucket(2).start());
        assert_eq!(known.ask(&bucket(1), 1, 128, now()), Ask::Report(1));
        assert_eq!(known.ask(&bucket(3), 1, 128, now()), Ask::Known(8));
        assert_eq!(known.ask(&bucket(3), 1, 128, bucket(3).start()), Ask::Report(1));
    }
}
