//! Stored subscriptions on DynamoDB.
//!
//! One item for each subscription, by `tenant#id`. Every change of health is conditional on the endpoint that it is about: the user may
//! have subscribed again in the meantime. A tenant's subscriptions are counted in `control`, and those with a tag are listed in
//! `audiences`, which also has who has an endpoint, all in the transaction that adds or removes one.
//!
//! | file | concept |
//! |---|---|
//! | `item` | the attributes of a browser's and of a webhook's item, and of a deleted one's |
//! | `transaction` | how one is added, replaced or removed |
//! | `holder` | who has an endpoint |
//! | `walk` | the walk over all of them |
//! | `book` | storing, looking up and erasing; a webhook's signing secrets |
//! | `erasures` | marks of what was erased |
//! | `health` | the outcomes of attempts, and how cleanup acts on them |
//! | `listing` | a tenant's subscriptions, for operators |
//! | `replaced` | notes of those that another one replaced, until they are announced |
//! | `replica` | taking over what another stack has |

mod book;
mod erasures;
mod health;
mod holder;
mod item;
mod listing;
mod removed;
mod replica;
mod transaction;
mod walk;

pub(crate) use self::holder::HOLDER;
pub(crate) use self::removed::REMOVED;

pub use self::book::{Deleted, Stored};
pub use self::listing::{Page, Scope};
pub use self::replica::Taken;
pub use self::walk::WALKED_AT_A_TIME;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::identity::SubscriptionKey;
use redial_engine::ports::{PortError, SubscriptionUpdate};

use crate::control_dynamo::DynamoControl;
use crate::retries::Patience;
use crate::table::attributes::{self, Item, ms, s};
use crate::table::{Statement, Table};
use crate::webhook_keys::WebhookKeys;
use crate::write_units::MeteredClient;

/// The index of the webhooks that fail or are switched off: sparse, by tenant and by the time of the first failure.
const FAILING: &str = "failing_by_tenant";

/// The `subscriptions` table, and the `audiences` and `control` tables beside it.
#[derive(Clone, Debug)]
pub struct DynamoSubscriptions {
    table: Table,
    audiences: Table,
    control: DynamoControl,
    /// `None` where receivers' secrets are neither needed nor available.
    keys: Option<WebhookKeys>,
}

impl DynamoSubscriptions {
    /// On this table: partition key `pk` (string); index `failing_by_tenant` on `failing_tenant` (string) and
    /// `failing_since` (number). And on `audiences`: partition key `pk`, sort key `sk` (strings). Webhooks' secrets and
    /// headers are sealed with `keys`; without them, a webhook is read as one that has none, and cannot be stored.
    pub fn new(
        client: impl Into<MeteredClient>,
        table: String,
        audiences: String,
        control: DynamoControl,
        keys: impl Into<Option<WebhookKeys>>,
    ) -> Self {
        let client = client.into();
        let audiences = Table::new(client.clone(), audiences);
        Self { table: Table::new(client, table), audiences, control, keys: keys.into() }
    }

    /// One statement for each subscription, on the condition that its endpoint is unchanged: `false` if it is gone, or has another
    /// one now, so that the update does not apply to it. `updated_at` is set as well.
    async fn update_all(
        &self,
        updates: Vec<SubscriptionUpdate>,
        sets: impl Fn(&SubscriptionUpdate) -> Vec<(&'static str, AttributeValue)> + Sync,
        removes: &[&str],
        extra: &[(&'static str, AttributeValue)],
    ) -> Vec<Result<bool, PortError>> {
        let statement = |at: usize| {
            let update = &updates[at];
            let endpoint = s(update.endpoint.expose().as_str());
            let mut conditions = vec![("pk", s(update.key.to_string())), ("endpoint", endpoint)];
            conditions.extend_from_slice(extra);
            let mut sets = sets(update);
            sets.push(("updated_at", ms(update.at)));
            Statement::update(self.table.name(), sets, removes, conditions)
        };
        self.table.execute(updates.len(), &statement, Patience::brief()).await
    }

    async fn update_one(
        &self,
        update: SubscriptionUpdate,
        sets: impl Fn(&SubscriptionUpdate) -> Vec<(&'static str, AttributeValue)> + Sync,
        extra: &[(&'static str, AttributeValue)],
    ) -> Result<bool, PortError> {
        self.update_all(vec![update], sets, &[], extra).await.into_iter().next().unwrap_or(Ok(false))
    }
}

fn item_key(key: &SubscriptionKey) -> Item {
    attributes::item([("pk", s(key.to_string()))])
}
