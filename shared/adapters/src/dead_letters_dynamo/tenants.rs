//! Which tenants have dead letters on a day: an item for each, under the day, so that the dead letters of all tenants are found
//! without reading the table.
//!
//! It is written before the first dead letter of that tenant and day is described, once by every worker; writing it again changes
//! nothing. It outlives every description of its day. No tenant's name begins with `_`, so its key is no dead letter's.

use std::time::Duration;

use redial_core::dead_letter::Reference;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::DynamoDeadLetters;
use crate::table::attributes::{Read as _, expiry, key};

impl DynamoDeadLetters {
    /// How long there may be a dead letter of a day: a year, which is the longest that a policy keeps descriptions, and the 14 days
    /// that a reference may wait on its queue.
    pub const LONGEST_KEPT: Duration = Duration::from_secs((365 + 15) * 86_400);

    /// Records that the reference's tenant has a dead letter on the reference's day.
    pub(super) async fn note_tenant(&self, reference: &Reference, now: Timestamp) -> Result<(), PortError> {
        let noted = (reference.tenant.clone(), Timestamp::from_ms(reference.at).day());
        if self.noted.contains(&noted) {
            return Ok(());
        }
        let mut item = key(partition(&noted.1), &noted.0);
        item.insert("expires_at".to_owned(), expiry(now.plus(Self::LONGEST_KEPT)));
        self.table.put(item).await?;
        self.noted.insert(noted, (), |()| 0);
        Ok(())
    }

    /// The tenants that have, or had, dead letters on a UTC day, `2026-11-21`; `_unknown` may be one of them.
    pub async fn tenants_on(&self, day: &str) -> Result<Vec<String>, PortError> {
        let items = self.table.partition(partition(day)).await?;
        Ok(items.iter().filter_map(|item| item.text("sk").map(str::to_owned)).collect())
    }
}

fn partition(day: &str) -> String {
    format!("_tenants#{day}")
}
