//! The message that ends a wait: `{"release": "w60-transactional-20261121T100500Z"}`.
//!
//! The state machine sends it for the whole bucket; dispatch answers by sending one with a `shard` for each partition.

use super::bucket::{MAX_SHARDS, Shard, WaitBucket};
use crate::shape::{Object, integer, text};

/// Which waiting messages may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    Bucket(WaitBucket),
    Shard(Shard),
}

impl Release {
    /// Takes the release's fields out of a body; `None` if it has no `release`.
    pub(crate) fn take(object: &mut Object<'_>) -> Option<Self> {
        object.raw("release")?;
        let a_bucket = "the name of a bucket of waits";
        let bucket = object.required("release", a_bucket, text(WaitBucket::parse))?;
        let last = u64::from(MAX_SHARDS) - 1;
        let number = object.optional("shard", "an integer from 0 to 999", integer(0..=last));
        Some(match number {
            Some(number) => Self::Shard(Shard { bucket, number }),
            None => Self::Bucket(bucket),
        })
    }

    pub fn bucket(&self) -> WaitBucket {
        match self {
            Self::Bucket(bucket) => *bucket,
            Self::Shard(shard) => shard.bucket,
        }
    }

    pub fn to_body(&self) -> String {
        match self {
            Self::Bucket(bucket) => serde_json::json!({ "release": bucket.name() }).to_string(),
            Self::Shard(shard) => {
                serde_json::json!({ "release": shard.bucket.name(), "shard": shard.number }).to_string()
            }
        }
    }
}
