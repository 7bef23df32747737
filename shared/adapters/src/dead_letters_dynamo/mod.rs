//! The dead-letter store on DynamoDB.
//!
//! Under `tenant#id` lie a letter's description (`<letter>`) and its body (`<letter>#body.000` and on: an SQS message may
//! be longer than a DynamoDB item). Descriptions are listed through the index `by_day`, whose partitions are tenant, day and
//! shard; which tenants have letters on a day stands under `_tenants#<day>`. So nothing is found by reading the whole table.
//!
//! | file | concept |
//! |---|---|
//! | `described` | a description as it lies in the table, and back |
//! | `bodies` | bodies in parts, and those whose time is over |
//! | `tenants` | which tenants have letters on a day |
//! | `walk` | descriptions in the order of time, newest first, page by page |
//! | `letters` | the letters of one id, and what an operator does with a letter: mark it, remove it |

mod bodies;
mod described;
mod letters;
mod tenants;
mod walk;

use aws_sdk_dynamodb::Client;
use redial_core::dead_letter::{DeadLetterKey, Reference};
use redial_core::time::Timestamp;
use redial_engine::ports::{DeadLetterStore, PortError};

pub use bodies::StoredBody;
pub use described::Described;
pub use letters::Letter;
pub use walk::{Position, Scope, Walk};

use crate::aws_error;
use crate::remembered::Remembered;
use crate::write_units::WriteUnits;

/// The `dead_letters` table.
#[derive(Clone, Debug)]
pub struct DynamoDeadLetters {
    client: Client,
    table: String,
    units: WriteUnits,
    /// Tenants and days that are known to stand in the table.
    noted: Remembered<(String, String)>,
}

impl DynamoDeadLetters {
    /// On this table: partition key `pk`, sort key `sk`; index `by_day` on `gsi_pk`, `gsi_sk`; index `bodies_by_hour` on
    /// `body_pk`, `body_sk` (all strings); TTL attribute `expires_at`.
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table, units: WriteUnits::default(), noted: Remembered::default() }
    }

    /// With this meter of write units.
    #[must_use]
    pub fn metered(mut self, units: WriteUnits) -> Self {
        self.units = units;
        self
    }
}

impl DeadLetterStore for DynamoDeadLetters {
    /// The tenant is noted before its letter is described: a letter whose tenant nobody finds is one that nobody lists.
    async fn describe(&self, reference: &Reference, now: Timestamp) -> Result<(), PortError> {
        self.note_tenant(reference, now).await?;
        let item = described::item(reference, now);
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item)).send().await;
        put.map(|_| ()).map_err(|error| aws_error::of_call("PutItem", &error))
    }

    async fn delete_absent_bodies(&self, now: Timestamp, limit: u32) -> Result<u32, PortError> {
        self.sweep_bodies(now, limit).await
    }
}

/// Thirteen digits of milliseconds, so that text order is the order of time.
fn moment(at: Timestamp) -> String {
    format!("{:013}", at.as_ms())
}

fn shard(key: &DeadLetterKey, shards: u32) -> u32 {
    let text = format!("{}#{}", key.partition(), key.letter);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    u32::from(digest.as_ref()[0]) % shards
}
