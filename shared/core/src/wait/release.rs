//! The message that ends a wait: `{"release": "w60-transactional-20261121T100500Z"}`.
//!
//! The state machine sends it for the whole bucket; dispatch answers by sending one with a `shard` for each partition.

use super::bucket::{Bucket, MAX_SHARDS, Shard};
use crate::shape::{self, Object};

/// Which waiting messages may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    Bucket(Bucket),
    Shard(Shard),
}

impl Release {
    /// Takes the release's fields out of a body; `None` if it has no `release`.
    pub(crate) fn take(object: &mut Object<'_>) -> Option<Self> {
        object.raw("release")?;
        let bucket = object.required("release", "the name of a bucket of waits", |raw| {
            Bucket::parse(&shape::string(raw)?)
        })?;
        let number = object.optional("shard", "an integer from 0 to 999", |raw| {
            shape::unsigned(raw).and_then(|n| u16::try_from(n).ok()).filter(|n| *n < MAX_SHARDS)
        });
        Some(match number {
            Some(number) => Self::Shard(Shard { bucket, number }),
            None => Self::Bucket(bucket),
        })
    }

    pub fn bucket(&self) -> Bucket {
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
