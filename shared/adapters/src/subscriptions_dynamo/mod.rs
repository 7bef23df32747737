//! Stored subscriptions on DynamoDB.
//!
//! One item a subscription, by `tenant#id`. Every change of health is conditional on the endpoint that it is about: the user
//! may have subscribed again in the meantime. How many a tenant has is counted beside them in `control`, and what its tags
//! gather is listed in `audiences`, both in the same transaction that adds or removes one.
//!
//! | file | concept |
//! |---|---|
//! | `item` | what an item holds, of either kind |
//! | `tombstone` | what is left of one that was deleted |
//! | `transaction` | how one is added, replaced or removed |
//! | `book` | what the front door keeps |
//! | `health` | what attempts tell of receivers, and what cleanup makes of it |
//! | `rotation` | a webhook's signing secrets, exchanged under way |

mod book;
mod health;
mod item;
mod rotation;
mod tombstone;
mod transaction;

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnConsumedCapacity};
use redial_core::identity::SubscriptionKey;
use redial_core::subscription::Subscription;
use redial_core::time::Timestamp;
use redial_engine::ports::{PortError, SubscriptionUpdate};

use self::transaction::After;
use crate::attributes::{Item, Read as _, ms, s};
use crate::control_dynamo::DynamoControl;
use crate::partiql::{self, Statement, Written};
use crate::retries::Patience;
use crate::webhook_keys::WebhookKeys;
use crate::write_units::WriteUnits;
use crate::{aws_error, batch_get};

/// The index of the webhooks that fail or are switched off: sparse, by tenant and by when their failing began.
const FAILING: &str = "failing_by_tenant";

/// The `subscriptions` table, and the `audiences` and `control` tables beside it.
#[derive(Clone, Debug)]
pub struct DynamoSubscriptions {
    client: Client,
    table: String,
    audiences: String,
    control: DynamoControl,
    /// None where receivers' secrets are neither needed nor to be had.
    keys: Option<WebhookKeys>,
    units: WriteUnits,
}

impl DynamoSubscriptions {
    /// On this table: partition key `pk` (string); index `failing_by_tenant` on `failing_tenant` (string) and
    /// `failing_since` (number). And on `audiences`: partition key `pk`, sort key `sk` (strings). Webhooks' secrets and
    /// headers are sealed with `keys`; without them, a webhook is read as one that has none, and cannot be stored.
    pub fn new(
        client: Client,
        table: String,
        audiences: String,
        control: DynamoControl,
        keys: impl Into<Option<WebhookKeys>>,
    ) -> Self {
        let keys = keys.into();
        Self { client, table, audiences, control, keys, units: WriteUnits::default() }
    }

    /// With this meter of write units.
    #[must_use]
    pub fn metered(mut self, units: WriteUnits) -> Self {
        self.units = units;
        self
    }

    /// Stores a subscription at `now`, in place of one of the same id; its receiver's health begins anew. Answers whether it
    /// is new. A retry policy of its own is kept as text: see [`Self::put_with_policy`].
    pub async fn put(&self, subscription: &Subscription, now: Timestamp) -> Result<bool, PortError> {
        self.put_item(&subscription.key, item::write(subscription, self.keys.as_ref(), now), now).await
    }

    /// The same, with a retry policy of its own: the JSON of one, or of the name of one of the package's, which the caller has
    /// checked.
    pub async fn put_with_policy(
        &self,
        subscription: &Subscription,
        policy: &str,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let mut item = item::write(subscription, self.keys.as_ref(), now);
        item.insert("policy".to_owned(), s(policy));
        self.put_item(&subscription.key, item, now).await
    }

    /// When it was first stored stays.
    async fn put_item(&self, key: &SubscriptionKey, item: Item, now: Timestamp) -> Result<bool, PortError> {
        self.change(key, |before| {
            let before = before.filter(|item| item::is_stored(item));
            let created_at = before.map_or(Some(now), |before| before.time("created_at"));
            let mut item = item.clone();
            item.extend(created_at.map(|at| ("created_at".to_owned(), ms(at))));
            Ok((Some(After::Whole(item)), before.is_none()))
        })
        .await
    }

    /// The items of these keys as they are stored, in no order.
    async fn items(&self, keys: &[SubscriptionKey]) -> Result<Vec<Item>, PortError> {
        batch_get::get(&self.client, &self.table, keys.iter().map(item_key).collect()).await
    }

    /// `UPDATE … SET … REMOVE … WHERE it still leads there`, one statement a subscription.
    async fn update_all(
        &self,
        updates: Vec<SubscriptionUpdate>,
        sets: impl Fn(&SubscriptionUpdate) -> Vec<(&'static str, AttributeValue)>,
        removes: &[&str],
        extra: &[(&'static str, AttributeValue)],
    ) -> Vec<Result<bool, PortError>> {
        let statements = updates
            .iter()
            .map(|update| {
                let mut conditions = vec![
                    ("pk", s(update.key.to_string())),
                    ("endpoint", s(update.endpoint.expose().as_str())),
                ];
                conditions.extend_from_slice(extra);
                Statement::update_and_remove(&self.table, sets(update), removes, conditions)
            })
            .collect();
        let written = partiql::execute(&self.client, &self.units, statements, Patience::brief()).await;
        written
            .into_iter()
            .map(|written| match written {
                Written::Yes => Ok(true),
                // It is gone, or leads elsewhere now: the news is not about it.
                Written::ConditionFailed => Ok(false),
                Written::Failed(error) => Err(error),
            })
            .collect()
    }

    async fn update_one(
        &self,
        update: SubscriptionUpdate,
        sets: impl Fn(&SubscriptionUpdate) -> Vec<(&'static str, AttributeValue)>,
        extra: &[(&'static str, AttributeValue)],
    ) -> Result<bool, PortError> {
        self.update_all(vec![update], sets, &[], extra).await.into_iter().next().unwrap_or(Ok(false))
    }

    /// An UpdateItem of this subscription; its condition and what it changes are the caller's to add.
    fn updating(&self, key: &SubscriptionKey) -> UpdateItemFluentBuilder {
        let update = self.client.update_item().table_name(&self.table).set_key(Some(item_key(key)));
        update.return_consumed_capacity(ReturnConsumedCapacity::Total)
    }

    /// Sends it, again where a transaction over the item is under way; `false` if its condition did not hold.
    async fn updated(&self, update: UpdateItemFluentBuilder) -> Result<bool, PortError> {
        let mut pauses = Patience::brief().pauses();
        loop {
            let error = match update.clone().send().await {
                Ok(answer) => {
                    self.units.add(answer.consumed_capacity());
                    return Ok(true);
                }
                Err(error) => error,
            };
            match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(_)) => return Ok(false),
                Some(UpdateItemError::TransactionConflictException(_)) => {
                    if !pauses.pause().await {
                        return Err(aws_error::of_code("UpdateItem", "ThrottlingException"));
                    }
                }
                _ => return Err(aws_error::of_call("UpdateItem", &error)),
            }
        }
    }
}

fn item_key(key: &SubscriptionKey) -> Item {
    HashMap::from([("pk".to_owned(), s(key.to_string()))])
}
