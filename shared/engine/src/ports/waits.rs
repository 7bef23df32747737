//! The ports to long waits: where messages lie, which buckets there are, and what ends their waits.

use std::fmt;

use super::{Answer, Answers};
use redial_core::identity::{DeliveryKey, Tenant, Turn};
use redial_core::time::Timestamp;
use redial_core::wait::{Shard, WaitBucket};

/// What a waiting message is known by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ParkedKey {
    pub shard: Shard,
    /// `tenant#id#lineage#r`, and `#` with the MessageId in whose place it waits, if it was deferred.
    pub sort: String,
}

impl ParkedKey {
    /// The key of a message of this delivery that waits for this turn. Two copies that were deferred are two messages, because
    /// only the one that the ledger names may repeat a hand-off.
    pub fn new(shard: Shard, key: &DeliveryKey, turn: Turn, deferred_from: Option<&str>) -> Self {
        let mut sort = format!("{key}#{}#{}", turn.lineage.0, turn.attempt.0);
        if let Some(message_id) = deferred_from {
            sort.push('#');
            sort.push_str(message_id);
        }
        Self { shard, sort }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct ParkedItem {
    pub key: ParkedKey,
    pub tenant: Tenant,
    pub not_before: Timestamp,
    /// The travelling body. Never log it.
    pub body: String,
}

impl fmt::Debug for ParkedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParkedItem").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Holds waiting messages. Only a release removes them.
pub trait Parking: Send + Sync {
    /// Puts these in their places; putting one again changes nothing.
    fn put(&self, items: Vec<ParkedItem>) -> impl Answers<()>;

    /// Up to `limit` messages of a shard, those first that were not deleted yet. Their keys are the ones to delete.
    fn page(&self, shard: Shard, limit: u16) -> impl Answer<Vec<ParkedItem>>;

    fn delete(&self, keys: Vec<ParkedKey>) -> impl Answer<()>;
}

/// A bucket that messages were parked in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisteredBucket {
    pub bucket: WaitBucket,
    /// Over how many shards its messages may lie.
    pub shards: u16,
    /// About how many messages were put in it: some twice, some not reported yet, and 0 if an earlier release registered it.
    pub messages: u64,
}

/// Knows which buckets hold messages, so that none is forgotten when an execution fails.
pub trait WaitRegistry: Send + Sync {
    /// Notes a bucket, if it is new with one shard, and adds these messages to its number; returns how it stands then.
    fn register(&self, bucket: WaitBucket, messages: u64) -> impl Answer<RegisteredBucket>;

    /// Divides a bucket into at least so many shards, before messages are put in them.
    fn divide(&self, bucket: WaitBucket, shards: u16) -> impl Answer<()>;

    /// A bucket's number of shards; `None` if it is not registered.
    fn shards_of(&self, bucket: WaitBucket) -> impl Answer<Option<u16>>;

    /// The registered buckets that began before `time`, the oldest first.
    fn begun_before(&self, time: Timestamp) -> impl Answer<Vec<RegisteredBucket>>;

    /// Forgets a bucket that was found empty, unless it has changed since it was read.
    fn forget(&self, bucket: RegisteredBucket) -> impl Answer<()>;
}

/// Ends waits in time.
pub trait WaitExecutions: Send + Sync {
    /// Makes sure that an execution will release the bucket when it begins.
    fn ensure_running(&self, bucket: WaitBucket) -> impl Answer<()>;
}
