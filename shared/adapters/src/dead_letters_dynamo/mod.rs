//! The dead-letter store on DynamoDB.
//!
//! Under `tenant#id` are a dead letter's description (`<letter>`) and its body (`<letter>#body.000` and on: an SQS message may be longer
//! than a DynamoDB item). Descriptions are listed through the index `by_day`, whose partitions are tenant, day and shard; the tenants
//! with dead letters on a day are under `_tenants#<day>`. So nothing is found by reading the whole table.
//!
//! | file | concept |
//! |---|---|
//! | `described` | a description as it is stored |
//! | `bodies` | bodies in parts, and the sweep of expired ones |
//! | `tenants` | which tenants have dead letters on a day |
//! | `walk` | descriptions in the order of time, newest first, page by page |
//! | `letters` | the dead letters of one id: listed, marked as replayed, removed |

mod bodies;
mod described;
mod letters;
mod tenants;
#[cfg(test)]
mod tests;
mod walk;

use redial_core::dead_letter::Reference;
use redial_core::time::Timestamp;
use redial_engine::ports::{DeadLetterStore, PortError};

pub use bodies::StoredBody;
pub use described::Described;
pub use letters::Letter;
pub use walk::{Position, Scope, Walk};

use crate::cache::Cache;
use crate::table::{Table, on_a_table};

/// The `dead_letters` table: partition key `pk`, sort key `sk`; index `by_day` on `gsi_pk`, `gsi_sk`; index `bodies_by_hour` on
/// `body_pk`, `body_sk` (all strings); TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoDeadLetters {
    table: Table,
    /// Tenants and days that are in the table.
    noted: Cache<(String, String), ()>,
}

on_a_table!(DynamoDeadLetters, noted);

impl DeadLetterStore for DynamoDeadLetters {
    /// The tenant is noted before its dead letter is described: without the note, no list would find the dead letter.
    async fn describe(&self, reference: &Reference, now: Timestamp) -> Result<(), PortError> {
        self.note_tenant(reference, now).await?;
        self.table.put(described::item(reference, now)).await
    }

    async fn delete_absent_bodies(&self, now: Timestamp, limit: u32) -> Result<u32, PortError> {
        self.sweep_bodies(now, limit).await
    }
}
