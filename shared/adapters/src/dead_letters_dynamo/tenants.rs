//! Which tenants have letters on a day: an item for each, under the day, so that letters of all tenants are found without
//! reading the table.
//!
//! It is written before the first letter of that tenant and day is described, by every worker once, and writing it again
//! changes nothing. It outlives every description of its day. No tenant's name begins with `_`, so its key is no letter's.

use std::collections::HashMap;
use std::time::Duration;

use redial_core::dead_letter::Reference;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::DynamoDeadLetters;
use crate::attributes::{Read as _, expiry, s};
use crate::aws_error;
use crate::query;

/// A year, which is the longest that a policy keeps descriptions, and the 14 days that a reference may wait on its queue.
const KEPT: Duration = Duration::from_secs((365 + 15) * 86_400);

impl DynamoDeadLetters {
    /// For so long may there be a letter of a day.
    pub const LONGEST_KEPT: Duration = KEPT;

    /// Notes that the reference's tenant has a letter on the reference's day.
    pub(super) async fn note_tenant(&self, reference: &Reference, now: Timestamp) -> Result<(), PortError> {
        let day = Timestamp::from_ms(reference.at).day();
        let noted = (reference.tenant.clone(), day);
        if self.noted.has(&noted) {
            return Ok(());
        }
        let item = HashMap::from([
            ("pk".to_owned(), s(partition(&noted.1))),
            ("sk".to_owned(), s(&noted.0)),
            ("expires_at".to_owned(), expiry(now.plus(KEPT))),
        ]);
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item)).send().await;
        put.map_err(|error| aws_error::of_call("PutItem", &error))?;
        self.noted.add(noted);
        Ok(())
    }

    /// The tenants that have, or had, letters on a UTC day, `2026-11-21`; `_unknown` may be one of them.
    pub async fn tenants_on(&self, day: &str) -> Result<Vec<String>, PortError> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("pk = :day")
            .expression_attribute_values(":day", s(partition(day)))
            .consistent_read(true);
        let items = query::all(query).await?;
        Ok(items.iter().filter_map(|item| item.text("sk").map(str::to_owned)).collect())
    }
}

fn partition(day: &str) -> String {
    format!("_tenants#{day}")
}
