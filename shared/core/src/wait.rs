//! Waits that are longer than a queue can delay: all messages of a lane that are due in the same minute wait in one execution, a
//! bucket, and a release ends its wait.
//!
//! One execution per message would cost about 75 USD a million and stop at StartExecution's rate limit just when a
//! provider answers everyone `Retry-After: 1800`. So a message joins the bucket that begins at its due time rounded down.
//! The bucket's name says everything about it, and is a valid execution name.

use std::fmt;
use std::time::Duration;

use crate::identity::DeliveryKey;
use crate::lane::Lane;
use crate::line::LineRelease;
use crate::shape::{Object, integer, text};
use crate::time::Timestamp;

/// The longest wait: Step Functions ends an execution after a year.
pub const MAX_WAIT: Duration = Duration::from_secs(360 * 86_400);

/// The most shards that a bucket can have: three digits name them.
pub const MAX_SHARDS: u16 = 1000;

/// All messages of one lane that are due within one span of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct WaitBucket {
    lane: Lane,
    start_secs: i64,
    size_secs: u32,
}

impl WaitBucket {
    /// The bucket of a message due at `due`; `None` if that bucket has begun, or is too far away to wait for.
    pub fn of(lane: Lane, due: Timestamp, size_secs: u32, now: Timestamp) -> Option<Self> {
        let size = i64::from(size_secs.max(1));
        let start_secs = due.as_secs().div_euclid(size).saturating_mul(size);
        let bucket = Self { lane, start_secs, size_secs: size_secs.max(1) };
        (bucket.start() > now && bucket.start() <= now.plus(MAX_WAIT)).then_some(bucket)
    }

    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix('w')?.splitn(3, '-');
        let size_secs: u32 = parts.next()?.parse().ok().filter(|size| *size > 0)?;
        let lane = Lane::from_label(parts.next()?)?;
        let start_secs = Timestamp::parse_compact(parts.next()?)?.as_secs();
        let bucket = Self { lane, start_secs, size_secs };
        (bucket.name() == name).then_some(bucket)
    }

    /// `w60-transactional-20261121T100500Z`: size in seconds, lane, begin. Execution names allow no `:` and no `#`.
    pub fn name(&self) -> String {
        format!("w{}-{}-{}", self.size_secs, self.lane.label(), self.start().to_compact())
    }

    /// The name of its n-th execution: the first has the bucket's name, later ones a number.
    pub fn execution_name(&self, n: u32) -> String {
        if n <= 1 { self.name() } else { format!("{}-{n}", self.name()) }
    }

    pub fn lane(&self) -> Lane {
        self.lane
    }

    pub fn start(&self) -> Timestamp {
        Timestamp::from_secs(self.start_secs)
    }

    pub fn shard_of(&self, key: &DeliveryKey, shards: u16) -> Shard {
        let digest = ring::digest::digest(&ring::digest::SHA256, key.to_string().as_bytes());
        let bytes = digest.as_ref();
        let number = u16::from_be_bytes([bytes[0], bytes[1]]) % shards.clamp(1, MAX_SHARDS);
        Shard { bucket: *self, number }
    }

    pub fn shards(&self, shards: u16) -> impl Iterator<Item = Shard> {
        let bucket = *self;
        (0..shards.clamp(1, MAX_SHARDS)).map(move |number| Shard { bucket, number })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Shard {
    pub bucket: WaitBucket,
    pub number: u16,
}

impl fmt::Display for Shard {
    /// The partition key: `<bucket name>.NNN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.bucket.name(), self.number)
    }
}

/// The message that ends a wait: `{"release": "w60-transactional-20261121T100500Z"}`. The state machine sends it for the whole
/// bucket; dispatch answers by sending one with a `shard` for each partition. What waits for an origin is released in the same way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Release {
    Bucket(WaitBucket),
    Shard(Shard),
    Line(LineRelease),
}

impl Release {
    /// Takes the release's fields out of a body; `None` if it has no `release`.
    pub(crate) fn take(object: &mut Object<'_>) -> Option<Self> {
        if let Some(line) = LineRelease::take(object) {
            return Some(Self::Line(line));
        }
        object.raw("release")?;
        let a_bucket = "the name of a bucket of waits";
        let bucket = object.required("release", a_bucket, text(WaitBucket::parse))?;
        let last = u64::from(MAX_SHARDS) - 1;
        let number = object.optional("shard", "an integer from 0 to 999", integer(0..=last));
        Some(number.map_or(Self::Bucket(bucket), |number| Self::Shard(Shard { bucket, number })))
    }

    pub fn lane(&self) -> Lane {
        match self {
            Self::Bucket(bucket) => bucket.lane(),
            Self::Shard(shard) => shard.bucket.lane(),
            Self::Line(release) => release.line.lane,
        }
    }

    pub fn to_body(&self) -> String {
        let body = match self {
            Self::Bucket(bucket) => serde_json::json!({ "release": bucket.name() }),
            Self::Shard(Shard { bucket, number }) => {
                serde_json::json!({ "release": bucket.name(), "shard": number })
            }
            Self::Line(release) => return release.to_body(),
        };
        body.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::{delivery, time as at};

    #[test]
    fn a_bucket_begins_at_the_due_time_rounded_down() {
        let now = at("2026-11-21T09:00:00Z");
        let bucket = WaitBucket::of(Lane::Transactional, at("2026-11-21T10:05:37Z"), 60, now).expect("ahead");
        assert_eq!(bucket.name(), "w60-transactional-20261121T100500Z");
        let names = [1, 2].map(|n| bucket.execution_name(n));
        assert_eq!(names, [bucket.name(), "w60-transactional-20261121T100500Z-2".to_owned()]);
        assert_eq!(WaitBucket::parse(&bucket.name()), Some(bucket));
        for name in
            ["", "w60", "w0-bulk-20261121T100500Z", "w060-bulk-20261121T100500Z", "w60-x-20261121T100500Z"]
        {
            assert_eq!(WaitBucket::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_bucket_that_has_begun_accepts_no_message() {
        let due = at("2026-11-21T10:05:37Z");
        assert_eq!(WaitBucket::of(Lane::Bulk, due, 60, at("2026-11-21T10:05:00Z")), None);
        assert!(WaitBucket::of(Lane::Bulk, due, 60, at("2026-11-21T10:04:59Z")).is_some());
        assert_eq!(WaitBucket::of(Lane::Bulk, due.plus(MAX_WAIT).plus(MAX_WAIT), 60, due), None);
    }

    proptest! {
        #[test]
        fn names_are_valid_execution_names_and_a_bucket_never_begins_after_its_messages_are_due(
            due in 0i64..253_402_300_799, size in 1u32..100_000, bulk: bool, n in 1u32..100, id in "[A-Za-z0-9_-]{1,64}",
        ) {
            let lane = if bulk { Lane::Bulk } else { Lane::Transactional };
            let due = Timestamp::from_secs(due);
            let now = due.minus(Duration::from_secs(u64::from(size) + 5));
            if let Some(bucket) = WaitBucket::of(lane, due, size, now) {
                prop_assert!(bucket.start() <= due && due.since(bucket.start()) < Duration::from_secs(u64::from(size)));
                let name = bucket.execution_name(n);
                prop_assert!(name.len() <= 80);
                prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
                prop_assert_eq!(WaitBucket::parse(&bucket.name()), Some(bucket));
                let key = delivery(&id);
                prop_assert!(bucket.shards(128).any(|shard| shard == bucket.shard_of(&key, 128)));
            }
        }
    }
}
