//! Notes of subscriptions that were removed, until cleanup has announced them: rows of `control`, written in the transaction that removes.
//!
//! | pk | sk | attributes |
//! |---|---|---|
//! | `removed` | `<tenant>#<id>#<ms>` | `tenant`, `id`, `at`, `reason` |

use aws_sdk_dynamodb::types::TransactWriteItem;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::reason::Reason;
use redial_core::time::Timestamp;
use redial_engine::ports::{PortError, Removals, Removed};

use super::DynamoSubscriptions;
use crate::table::attributes::{Item, Read as _, item, key, ms, s};
use crate::table::{Change, page};

pub(crate) const REMOVED: &str = "removed";

/// How many are read at a time.
const AT_A_TIME: i32 = 100;

fn row_key(removed: &SubscriptionKey, at: Timestamp) -> Item {
    key(REMOVED, format!("{removed}#{:013}", at.as_ms()))
}

fn removed(row: &Item) -> Option<Removed> {
    let (tenant, id) = (Tenant::parse(row.text("tenant")?)?, SubscriptionId::parse(row.text("id")?)?);
    let reason = Reason::from_label(row.text("reason")?)?;
    Some(Removed { key: SubscriptionKey { tenant, id }, at: row.time("at")?, reason })
}

impl DynamoSubscriptions {
    pub(super) fn notes_removed(
        &self,
        removed: &SubscriptionKey,
        reason: Reason,
        at: Timestamp,
    ) -> TransactWriteItem {
        let values = item([
            (":tenant", s(removed.tenant.as_str())),
            (":id", s(removed.id.as_str())),
            (":at", ms(at)),
            (":reason", s(reason.label())),
        ]);
        let expression = "SET #tenant = :tenant, #id = :id, #at = :at, #reason = :reason";
        self.control.table.write(Change::Update(row_key(removed, at), expression.to_owned()), None, values)
    }
}

impl Removals for DynamoSubscriptions {
    async fn removed(&self) -> Result<Vec<Removed>, PortError> {
        let query = self.control.table.query("pk = :pk", [(":pk", s(REMOVED))]).limit(AT_A_TIME);
        Ok(page(query).await?.items().iter().filter_map(removed).collect())
    }

    async fn announced(&self, removed: &Removed) -> Result<(), PortError> {
        self.control.table.delete(row_key(&removed.key, removed.at)).await.map(|_| ())
    }
}
