//! The ports to long waits: where messages lie, which buckets and lines there are, and what ends their waits.

use std::fmt;

use super::{Answer, Answers};
use redial_core::identity::{DeliveryKey, Tenant, Turn};
use redial_core::lane::Lane;
use redial_core::line::{Line, LineShard};
use redial_core::time::Timestamp;
use redial_core::wait::{Shard, WaitBucket};

/// Messages that lie together and leave together. Its text is their partition key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Partition {
    Bucket(Shard),
    Line(LineShard),
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(shard) => shard.fmt(f),
            Self::Line(shard) => shard.fmt(f),
        }
    }
}

impl From<Shard> for Partition {
    fn from(shard: Shard) -> Self {
        Self::Bucket(shard)
    }
}

impl From<LineShard> for Partition {
    fn from(shard: LineShard) -> Self {
        Self::Line(shard)
    }
}

impl Partition {
    /// The lane of what waits there.
    pub fn lane(&self) -> Lane {
        match self {
            Self::Bucket(shard) => shard.bucket.lane(),
            Self::Line(shard) => shard.line.lane,
        }
    }
}

/// Stands before the MessageId of what waits in a line: no MessageId has it.
const OWN: char = '/';

/// What a waiting message is known by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ParkedKey {
    pub partition: Partition,
    /// `tenant#id#lineage#r`, and `#` with the MessageId in whose place it waits, if it was deferred. In a line, the moment until which it
    /// waits at most stands before it (epoch ms, thirteen digits), and `/` with its own MessageId behind it. Earlier releases wrote its own
    /// MessageId alone.
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
        Self { partition: shard.into(), sort }
    }

    /// The key of one that waits in a line, until that moment at most, in the place of an SQS message.
    pub fn in_line(
        shard: LineShard,
        until: Timestamp,
        key: &DeliveryKey,
        turn: Turn,
        (in_place_of, message_id): (&str, &str),
    ) -> Self {
        let Turn { lineage, attempt } = turn;
        let until = until.as_ms();
        let sort = format!("{until:013}#{key}#{}#{}#{in_place_of}{OWN}{message_id}", lineage.0, attempt.0);
        Self { partition: shard.into(), sort }
    }

    /// What copies in a line have in common, which wait in one place: they are alike, but for the moment until which they wait. None: it is
    /// not known.
    pub fn place(&self) -> Option<&str> {
        let (_, of) = match self.partition {
            Partition::Bucket(_) => return None,
            Partition::Line(_) => self.sort.split_once('#')?,
        };
        let last = of.rfind('#')?;
        let own = of[last..].find(OWN)?;
        Some(&of[..last + own])
    }

    /// When its wait ends, if it is in a line.
    pub fn until(&self) -> Option<Timestamp> {
        match self.partition {
            Partition::Bucket(_) => None,
            Partition::Line(_) => self.sort.split('#').next()?.parse().ok().map(Timestamp::from_ms),
        }
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

    /// Whether anything lies in a partition: a message, one that cannot be read, or what a worker left of one when it died.
    fn holds_any(&self, partition: Partition) -> impl Answer<bool>;

    /// Up to `limit` messages of a partition, in the order of their keys. Their keys are the ones to delete. One that cannot be read is an
    /// error once nothing else lies there.
    fn page(&self, partition: Partition, limit: u16) -> impl Answer<Vec<ParkedItem>>;

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

    /// Divides a bucket into at least `shards` shards, before messages are put in them.
    fn divide(&self, bucket: WaitBucket, shards: u16) -> impl Answer<()>;

    /// A bucket's number of shards; `None` if it is not registered.
    fn shards_of(&self, bucket: WaitBucket) -> impl Answer<Option<u16>>;

    /// The registered buckets that began before `time`, the oldest first.
    fn begun_before(&self, time: Timestamp) -> impl Answer<Vec<RegisteredBucket>>;

    /// Forgets a bucket that was found empty, unless it has changed since it was read.
    fn forget(&self, bucket: RegisteredBucket) -> impl Answer<()>;
}

/// A line that messages were put in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisteredLine {
    pub line: Line,
    /// Over how many shards its messages may lie.
    pub shards: u16,
    /// About how many messages were ever put in it.
    pub messages: u64,
    /// When it was registered last.
    pub at: Timestamp,
}

/// Knows which lines hold messages.
pub trait LineRegistry: Send + Sync {
    /// Notes a line, if it is new with one shard, and adds these messages to its number; returns how it stands then.
    fn register_line(&self, line: Line, messages: u64, now: Timestamp) -> impl Answer<RegisteredLine>;

    /// Divides a line into at least `shards` shards, before messages are put in them.
    fn divide_line(&self, line: Line, shards: u16) -> impl Answer<()>;

    /// How a line stands; `None` if it is not registered.
    fn line(&self, line: Line) -> impl Answer<Option<RegisteredLine>>;

    fn lines(&self) -> impl Answer<Vec<RegisteredLine>>;

    /// Forgets a line that was found empty, unless it has changed since it was read.
    fn forget_line(&self, line: RegisteredLine) -> impl Answer<()>;
}

/// Ends waits in time.
pub trait WaitExecutions: Send + Sync {
    /// Makes sure that an execution will release the bucket when it begins.
    fn ensure_running(&self, bucket: WaitBucket) -> impl Answer<()>;
}
