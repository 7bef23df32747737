//! Stored subscriptions on DynamoDB.
//!
//! One item a subscription, by `tenant#id`. Every change of health is conditional on the endpoint that it is about: the user
//! may have subscribed again in the meantime. How many a tenant has is counted beside them in `control`, in the same
//! transaction that adds or removes one.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem, Update};
use redial_core::endpoint::Endpoint;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant, VapidKeyId};
use redial_core::ports::{PortError, PruneCandidate, SubscriptionHealth, SubscriptionUpdate, Subscriptions};
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::subscription::{State, Subscription};
use redial_core::time::Timestamp;

use crate::attributes::{Item, Read, ms, n, s};
use crate::control_dynamo::DynamoControl;
use crate::partiql::{self, Statement, Written};
use crate::write_units::WriteUnits;
use crate::{aws_error, batch_get};

/// The `subscriptions` table, and the `control` table beside it.
#[derive(Clone, Debug)]
pub struct DynamoSubscriptions {
    client: Client,
    table: String,
    control: DynamoControl,
    units: WriteUnits,
}

impl DynamoSubscriptions {
    /// On this table: partition key `pk` (string).
    pub fn new(client: Client, table: String, control: DynamoControl) -> Self {
        Self { client, table, control, units: WriteUnits::default() }
    }

    /// With this meter of write units.
    #[must_use]
    pub fn metered(mut self, units: WriteUnits) -> Self {
        self.units = units;
        self
    }

    /// Stores a subscription at `now`, in place of one of the same id. Answers whether it is new.
    pub async fn put(&self, subscription: &Subscription, now: Timestamp) -> Result<bool, PortError> {
        let item = item(subscription, now);
        let put = Put::builder()
            .table_name(&self.table)
            .set_item(Some(item.clone()))
            .condition_expression("attribute_not_exists(pk)")
            .build()
            .expect("a put has its table and its item");
        let is_new = self.with_count(&subscription.key.tenant, 1, |it| it.put(put)).await?;
        if !is_new {
            let put = self.client.put_item().table_name(&self.table).set_item(Some(item)).send().await;
            put.map_err(|error| aws_error::of_call("PutItem", &error))?;
        }
        Ok(is_new)
    }

    /// A write and its count in one transaction; `false` if the write's condition did not hold.
    async fn with_count(
        &self,
        tenant: &Tenant,
        step: i8,
        write: impl FnOnce(
            aws_sdk_dynamodb::types::builders::TransactWriteItemBuilder,
        ) -> aws_sdk_dynamodb::types::builders::TransactWriteItemBuilder,
    ) -> Result<bool, PortError> {
        let count: Update = self.control.counting(tenant, step);
        let done = self
            .client
            .transact_write_items()
            .transact_items(write(TransactWriteItem::builder()).build())
            .transact_items(TransactWriteItem::builder().update(count).build())
            .send()
            .await;
        match done {
            Ok(_) => Ok(true),
            Err(error) => {
                let cancelled = error.as_service_error().is_some_and(|error| {
                    use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
                    let TransactWriteItemsError::TransactionCanceledException(cancelled) = error else {
                        return false;
                    };
                    let first = cancelled.cancellation_reasons().first();
                    first.is_some_and(|reason| reason.code() == Some("ConditionalCheckFailed"))
                });
                if cancelled { Ok(false) } else { Err(aws_error::of_call("TransactWriteItems", &error)) }
            }
        }
    }

    /// `UPDATE … SET … WHERE it still leads there`, one statement a subscription.
    async fn update_all(
        &self,
        updates: Vec<SubscriptionUpdate>,
        sets: impl Fn(&SubscriptionUpdate) -> Vec<(&'static str, AttributeValue)>,
        extra: &[(&'static str, AttributeValue)],
    ) -> Vec<Result<bool, PortError>> {
        let statements = updates
            .iter()
            .map(|update| {
                let sets = sets(update);
                let mut conditions = vec![
                    ("pk", s(update.key.to_string())),
                    ("endpoint", s(update.endpoint.expose().as_str())),
                ];
                conditions.extend_from_slice(extra);
                Statement::update(&self.table, sets, conditions)
            })
            .collect();
        let written = partiql::execute(&self.client, &self.units, statements).await;
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
        self.update_all(vec![update], sets, extra).await.into_iter().next().unwrap_or(Ok(false))
    }
}

fn turned_off(update: &SubscriptionUpdate) -> Vec<(&'static str, AttributeValue)> {
    vec![("state", s(State::Gone.label())), ("gone_at", ms(update.at)), ("updated_at", ms(update.at))]
}

impl Subscriptions for DynamoSubscriptions {
    async fn load(&self, keys: Vec<SubscriptionKey>) -> Vec<Result<Option<Subscription>, PortError>> {
        let wanted = keys.iter().map(|key| HashMap::from([("pk".to_owned(), s(key.to_string()))])).collect();
        match batch_get::get(&self.client, &self.table, wanted).await {
            Ok(items) => {
                let mut found: HashMap<SubscriptionKey, Subscription> =
                    items.iter().filter_map(subscription).map(|it| (it.key.clone(), it)).collect();
                keys.iter().map(|key| Ok(found.remove(key))).collect()
            }
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn switch_off(&self, updates: Vec<SubscriptionUpdate>) -> Vec<Result<(), PortError>> {
        let active = [("state", s(State::Active.label()))];
        let done = self.update_all(updates, turned_off, &active).await;
        done.into_iter().map(|done| done.map(|_| ())).collect()
    }

    async fn clear_flag(&self, updates: Vec<SubscriptionUpdate>) -> Vec<Result<(), PortError>> {
        let sets = |update: &SubscriptionUpdate| {
            vec![("flagged_at", AttributeValue::Null(true)), ("updated_at", ms(update.at))]
        };
        self.update_all(updates, sets, &[]).await.into_iter().map(|done| done.map(|_| ())).collect()
    }
}

impl SubscriptionHealth for DynamoSubscriptions {
    async fn get(&self, key: &SubscriptionKey) -> Result<Option<Subscription>, PortError> {
        self.load(vec![key.clone()]).await.into_iter().next().unwrap_or(Ok(None))
    }

    async fn flag(&self, update: SubscriptionUpdate) -> Result<(), PortError> {
        let sets =
            |update: &SubscriptionUpdate| vec![("flagged_at", ms(update.at)), ("updated_at", ms(update.at))];
        self.update_one(update, sets, &[]).await.map(|_| ())
    }

    async fn mark_gone(&self, update: SubscriptionUpdate) -> Result<(), PortError> {
        let active = [("state", s(State::Active.label()))];
        self.update_one(update, turned_off, &active).await.map(|_| ())
    }

    async fn quarantine(&self, update: SubscriptionUpdate) -> Result<bool, PortError> {
        let sets = |update: &SubscriptionUpdate| {
            vec![("state", s(State::Quarantined.label())), ("updated_at", ms(update.at))]
        };
        self.update_one(update, sets, &[("state", s(State::Gone.label()))]).await
    }

    async fn remove(&self, update: SubscriptionUpdate) -> Result<bool, PortError> {
        let delete = Delete::builder()
            .table_name(&self.table)
            .key("pk", s(update.key.to_string()))
            .condition_expression("#endpoint = :endpoint AND #state = :gone")
            .expression_attribute_names("#endpoint", "endpoint")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":endpoint", s(update.endpoint.expose().as_str()))
            .expression_attribute_values(":gone", s(State::Gone.label()))
            .build()
            .expect("a delete has its table and its key");
        self.with_count(&update.key.tenant, -1, |it| it.delete(delete)).await
    }

    async fn count(&self, tenant: &Tenant) -> Result<u64, PortError> {
        self.control.subscriptions_of(tenant).await
    }

    async fn add_candidate(&self, window: i64, candidate: PruneCandidate) -> Result<(), PortError> {
        self.control.add_candidate(window, candidate).await
    }

    async fn candidates(&self, window: i64) -> Result<Vec<PruneCandidate>, PortError> {
        self.control.candidates(window).await
    }

    async fn decide_candidate(&self, window: i64, candidate: &PruneCandidate) -> Result<(), PortError> {
        self.control.decide_candidate(window, candidate).await
    }

    async fn open_windows(&self, before: i64) -> Result<Vec<i64>, PortError> {
        self.control.open_windows(before).await
    }

    async fn close_window(&self, window: i64) -> Result<(), PortError> {
        self.control.close_window(window).await
    }
}

fn item(subscription: &Subscription, now: Timestamp) -> Item {
    let PushTarget { endpoint, keys, vapid_key_id } = &subscription.target;
    let (p256dh, auth) = keys.expose_base64url();
    let mut item = HashMap::from([
        ("pk".to_owned(), s(subscription.key.to_string())),
        ("tenant".to_owned(), s(subscription.key.tenant.as_str())),
        ("id".to_owned(), s(subscription.key.id.as_str())),
        ("kind".to_owned(), s("web_push")),
        ("endpoint".to_owned(), s(endpoint.expose().as_str())),
        ("p256dh".to_owned(), s(p256dh)),
        ("auth".to_owned(), s(auth)),
        ("state".to_owned(), s(subscription.state.label())),
        ("updated_at".to_owned(), n(now.as_ms())),
    ]);
    if let Some(id) = vapid_key_id {
        item.insert("vapid_key_id".to_owned(), s(id.as_str()));
    }
    if let Some(at) = subscription.flagged_at {
        item.insert("flagged_at".to_owned(), ms(at));
    }
    item
}

fn subscription(item: &Item) -> Option<Subscription> {
    Some(Subscription {
        key: SubscriptionKey {
            tenant: Tenant::parse(item.text("tenant")?)?,
            id: SubscriptionId::parse(item.text("id")?)?,
        },
        target: PushTarget {
            endpoint: Endpoint::parse(item.text("endpoint")?).ok()?,
            keys: PushKeys::parse(item.text("p256dh")?, item.text("auth")?).ok()?,
            vapid_key_id: item.text("vapid_key_id").and_then(VapidKeyId::parse),
        },
        state: State::from_label(item.text("state")?)?,
        flagged_at: item.time("flagged_at"),
    })
}
