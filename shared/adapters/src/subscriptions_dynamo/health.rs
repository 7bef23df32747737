//! Receivers' health: the outcomes of attempts, and how cleanup and operators act on them.
//!
//! A webhook that fails, or was switched off, has `failing_since` and `failing_tenant`. They are the index's key, so they are removed and
//! never set to NULL, which an index refuses. Failures are added one item a call, because only UpdateItem adds to a number and keeps the
//! first of two times.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::future::join_all;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::subscription::{State, Subscription};
use redial_core::time::Timestamp;
use redial_core::webhook::Health;
use redial_engine::ports::{
    PortError, PruneCandidate, SubscriptionHealth, SubscriptionUpdate, Subscriptions,
};

use super::transaction::After;
use super::{DynamoSubscriptions, FAILING, item, item_key};
use crate::table::all;
use crate::table::attributes::{Item, Read, ms, n, s};

/// The attributes that a success, or an operator, removes.
const OF_FAILING: [&str; 4] = ["flagged_at", "failures", "failing_since", "failing_tenant"];

/// `SET` of a failing webhook: the time of the first failure stays.
const BEGINS_TO_FAIL: &str = "failing_since = if_not_exists(failing_since, :at), failing_tenant = :tenant";

impl DynamoSubscriptions {
    /// A tenant's webhooks that fail or are switched off, those that have failed longest first.
    pub async fn failing(&self, tenant: &Tenant) -> Result<Vec<Subscription>, PortError> {
        let values = [(":tenant", s(tenant.as_str()))];
        let listed = all(self.table.query_index(FAILING, "failing_tenant = :tenant", values)).await?;
        let key = |item: &Item| {
            let (_, id) = item.text("pk")?.split_once('#')?;
            Some(SubscriptionKey { tenant: tenant.clone(), id: SubscriptionId::parse(id)? })
        };
        let keys = listed.iter().filter_map(key).collect();
        let found = self.load(keys).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        // The index is a moment behind: a webhook that recovered meanwhile is left out.
        let is_failing = |found: &Subscription| found.health.failing_since.is_some();
        Ok(found.into_iter().flatten().filter(is_failing).collect())
    }

    /// Sends to a subscription again, whatever it was switched off for; its receiver's health starts over. `false` if there is
    /// none of that key.
    pub async fn enable(&self, key: &SubscriptionKey, now: Timestamp) -> Result<bool, PortError> {
        let removes = OF_FAILING.join(", ");
        let expression = format!("SET #state = :active, updated_at = :at REMOVE gone_at, {removes}");
        let values = [(":active", s(State::Active.label())), (":at", ms(now))];
        let update = self.table.update(item_key(key), expression, values);
        let update = update.condition_expression("attribute_exists(endpoint)");
        Ok(self.table.send(update).await?.is_done())
    }

    /// An update on the condition that the endpoint is unchanged.
    fn update_if_same_endpoint<const N: usize>(
        &self,
        update: &SubscriptionUpdate,
        expression: String,
        values: [(&str, AttributeValue); N],
    ) -> UpdateItemFluentBuilder {
        self.table
            .update(item_key(&update.key), expression, values)
            .condition_expression("endpoint = :endpoint")
            .expression_attribute_values(":endpoint", s(update.endpoint.expose().as_str()))
            .expression_attribute_values(":at", ms(update.at))
            .expression_attribute_values(":tenant", s(update.key.tenant.as_str()))
    }

    async fn add_failures(&self, update: &SubscriptionUpdate, failures: u64) -> Result<(), PortError> {
        let expression = format!("ADD failures :failures SET updated_at = :at, {BEGINS_TO_FAIL}");
        let update = self.update_if_same_endpoint(update, expression, [(":failures", n(failures))]);
        self.table.send(update).await.map(|_| ())
    }

    /// It is listed with the failing ones until it is enabled: since its first failure if there was one, else since now.
    async fn switch_off_webhook(&self, update: &SubscriptionUpdate) -> Result<(), PortError> {
        let expression = format!("SET #state = :disabled, updated_at = :at, {BEGINS_TO_FAIL}");
        let values = [(":active", s(State::Active.label())), (":disabled", s(State::Disabled.label()))];
        let update = self
            .update_if_same_endpoint(update, expression, values)
            .condition_expression("endpoint = :endpoint AND #state = :active");
        self.table.send(update).await.map(|_| ())
    }
}

fn turned_off(update: &SubscriptionUpdate) -> Vec<(&'static str, AttributeValue)> {
    vec![("state", s(State::Gone.label())), ("gone_at", ms(update.at)), ("updated_at", ms(update.at))]
}

fn active() -> [(&'static str, AttributeValue); 1] {
    [("state", s(State::Active.label()))]
}

impl Subscriptions for DynamoSubscriptions {
    async fn load(&self, keys: Vec<SubscriptionKey>) -> Vec<Result<Option<Subscription>, PortError>> {
        match self.items(&keys).await {
            Ok(items) => {
                let mut found: HashMap<SubscriptionKey, Result<Subscription, PortError>> = items
                    .iter()
                    .filter_map(|item| Some((item::key(item)?, item::read(item, self.keys.as_ref())?)))
                    .collect();
                keys.iter().map(|key| found.remove(key).transpose()).collect()
            }
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn switch_off(&self, updates: Vec<(SubscriptionUpdate, State)>) -> Vec<Result<(), PortError>> {
        let gone: Vec<SubscriptionUpdate> = updates
            .iter()
            .filter(|(_, state)| *state != State::Disabled)
            .map(|(update, _)| update.clone())
            .collect();
        let disabled = updates.iter().filter(|(_, state)| *state == State::Disabled);
        let if_active = active();
        let (gone, disabled) = futures_util::join!(
            self.update_all(gone, turned_off, &[], &if_active),
            join_all(disabled.map(|(update, _)| self.switch_off_webhook(update))),
        );
        let (mut gone, mut disabled) = (gone.into_iter(), disabled.into_iter());
        let answer = |(_, state): &(SubscriptionUpdate, State)| match state {
            State::Disabled => disabled.next(),
            State::Active | State::Gone | State::Quarantined => gone.next().map(|done| done.map(|_| ())),
        };
        updates.iter().map(answer).map(|done| done.expect("every update was made")).collect()
    }

    async fn recovered(&self, updates: Vec<SubscriptionUpdate>) -> Vec<Result<(), PortError>> {
        let sets = |update: &SubscriptionUpdate| vec![("updated_at", ms(update.at))];
        let done = self.update_all(updates, sets, &OF_FAILING, &active()).await;
        done.into_iter().map(|done| done.map(|_| ())).collect()
    }

    async fn failed(&self, updates: Vec<(SubscriptionUpdate, u64)>) -> Vec<Result<(), PortError>> {
        join_all(updates.iter().map(|(update, failures)| self.add_failures(update, *failures))).await
    }

    async fn give_up(&self, updates: Vec<(SubscriptionUpdate, Health)>) -> Vec<Result<bool, PortError>> {
        join_all(updates.into_iter().map(|(update, health)| self.disable(update, health))).await
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

    async fn disable(&self, update: SubscriptionUpdate, health: Health) -> Result<bool, PortError> {
        let Some(since) = health.failing_since else { return Ok(false) };
        let sets = |update: &SubscriptionUpdate| {
            vec![("state", s(State::Disabled.label())), ("updated_at", ms(update.at))]
        };
        let [active] = active();
        self.update_one(update, sets, &[active, ("failing_since", ms(since))]).await
    }

    async fn mark_gone(&self, update: SubscriptionUpdate) -> Result<(), PortError> {
        self.update_one(update, turned_off, &active()).await.map(|_| ())
    }

    async fn quarantine(&self, update: SubscriptionUpdate) -> Result<bool, PortError> {
        let sets = |update: &SubscriptionUpdate| {
            vec![("state", s(State::Quarantined.label())), ("updated_at", ms(update.at))]
        };
        self.update_one(update, sets, &[("state", s(State::Gone.label()))]).await
    }

    async fn remove(&self, update: SubscriptionUpdate) -> Result<bool, PortError> {
        let SubscriptionUpdate { key, endpoint, at: _ } = &update;
        self.change(key, |before| {
            let is_same = |item: &&Item| {
                item.text("endpoint") == Some(endpoint.expose().as_str())
                    && item.text("state") == Some(State::Gone.label())
            };
            let removed = before.filter(is_same).map(|_| After::Nothing);
            let is_removed = removed.is_some();
            Ok((removed, is_removed))
        })
        .await
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
