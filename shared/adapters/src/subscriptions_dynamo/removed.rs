//! Notes of subscriptions that another one with their endpoint has replaced, until cleanup has announced them: rows of `control`, written in
//! the transaction that replaces.
//!
//! | pk | sk | attributes |
//! |---|---|---|
//! | `replaced` | `<tenant>#<id>#<ms>` | `tenant`, `id`, `at` |

use aws_sdk_dynamodb::types::TransactWriteItem;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::time::Timestamp;
use redial_engine::ports::{PortError, Replaced, Replacements};

use super::DynamoSubscriptions;
use crate::table::attributes::{Item, Read as _, item, key, ms, s};
use crate::table::{Change, page};

pub(crate) const REPLACED: &str = "replaced";

/// How many are read at a time.
const AT_A_TIME: i32 = 100;

fn row_key(replaced: &SubscriptionKey, at: Timestamp) -> Item {
    key(REPLACED, format!("{replaced}#{:013}", at.as_ms()))
}

impl DynamoSubscriptions {
    pub(super) fn notes_replaced(&self, replaced: &SubscriptionKey, at: Timestamp) -> TransactWriteItem {
        let values = item([
            (":tenant", s(replaced.tenant.as_str())),
            (":id", s(replaced.id.as_str())),
            (":at", ms(at)),
        ]);
        let change =
            Change::Update(row_key(replaced, at), "SET #tenant = :tenant, #id = :id, #at = :at".to_owned());
        self.control.table.write(change, None, values)
    }
}

impl Replacements for DynamoSubscriptions {
    async fn replaced(&self) -> Result<Vec<Replaced>, PortError> {
        let query = self.control.table.query("pk = :pk", [(":pk", s(REPLACED))]).limit(AT_A_TIME);
        let read = |item: &Item| {
            let (tenant, id) =
                (Tenant::parse(item.text("tenant")?)?, SubscriptionId::parse(item.text("id")?)?);
            Some(Replaced { key: SubscriptionKey { tenant, id }, at: item.time("at")? })
        };
        Ok(page(query).await?.items().iter().filter_map(read).collect())
    }

    async fn announced(&self, replaced: &Replaced) -> Result<(), PortError> {
        self.control.table.delete(row_key(&replaced.key, replaced.at)).await.map(|_| ())
    }
}
