//! Receivers' health: the outcomes of attempts, and how cleanup and operators act on them.
//!
//! A webhook that fails, or was switched off, has `failing_since` and `failing_tenant`. They are the index's key, so they are removed and
//! never set to NULL, which an index refuses. Failures are added one item a call, because only UpdateItem adds to a number and keeps the
//! first of two times.

use std::time::Duration;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::future::join_all;
use redial_core::endpoint::EndpointHash;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::reason::Reason;
use redial_core::subscription::suspicion::Probe;
use redial_core::subscription::{Doubts, State, Subscription};
use redial_core::time::Timestamp;
use redial_core::webhook::Health;
use redial_engine::ports::{
    Clock as _, OpenWindow, PortError, PruneCandidate, SubscriptionHealth, SubscriptionUpdate, Subscriptions,
};

use super::item::{DOUBTS, doubts};
use super::transaction::{After, Met};
use super::{DynamoSubscriptions, FAILING, item_key};
use crate::retries::Patience;
use crate::system::System;
use crate::table::all;
use crate::table::attributes::{Item, Read, expiry, item, key, ms, n, s};

/// The attributes that a success, or an operator, removes.
const OF_FAILING: [&str; 10] = {
    let [doubts, since, at, suspect, probe, probed] = DOUBTS;
    let failing = ["flagged_at", "failures", "failing_since", "failing_tenant"];
    let [flagged, failures, failing_since, tenant] = failing;
    [flagged, failures, failing_since, tenant, doubts, since, at, suspect, probe, probed]
};

/// The partition of the windows that are open, in `control`.
const WINDOWS: &str = "prune-windows";

/// How long a decided window is kept for operators.
const WINDOW_KEPT: Duration = Duration::from_secs(7 * 86_400);

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

    /// Sends to a subscription again, whatever it was switched off for; its receiver's health starts over, and what was answered until now
    /// does not switch it off again. `false` if there is none of that key.
    pub async fn enable(&self, key: &SubscriptionKey, now: Timestamp) -> Result<bool, PortError> {
        let removes = OF_FAILING.join(", ");
        let expression = format!(
            "SET #state = :active, updated_at = :at, enabled_at = :at REMOVE gone_at, gone_confirmed_at, {removes}"
        );
        let values = [(":active", s(State::Active.label())), (":at", ms(now))];
        self.table.update_if(item_key(key), &expression, "attribute_exists(endpoint)", values).await
    }

    /// Confirms of one in quarantine that it is gone: the next walk removes it. Answers whether it was the one meant. Once confirmed, nothing
    /// changes it but another endpoint, or an operator who enables it.
    pub async fn confirm_gone(&self, update: &SubscriptionUpdate) -> Result<bool, PortError> {
        let expression = "SET #state = :gone, gone_at = :at, gone_confirmed_at = :at, updated_at = :at";
        let condition = "endpoint = :endpoint AND #state = :quarantined";
        let values = [
            (":gone", s(State::Gone.label())),
            (":quarantined", s(State::Quarantined.label())),
            (":endpoint", s(update.endpoint.expose().as_str())),
            (":at", ms(update.at)),
        ];
        self.table.update_if(item_key(&update.key), expression, condition, values).await
    }

    async fn let_probe_through(
        &self,
        update: &SubscriptionUpdate,
        probe: &Probe,
        before: Timestamp,
    ) -> Result<bool, PortError> {
        let expression = "SET probe_id = :id, probed_at = :at, updated_at = :at";
        let condition = "endpoint = :endpoint AND #state = :active AND attribute_exists(suspect_at) \
                         AND (attribute_not_exists(probed_at) OR probed_at <= :before OR probe_id = :id)";
        let values = [
            (":id", s(probe.delivery.as_str())),
            (":at", ms(probe.at)),
            (":before", ms(before)),
            (":active", s(State::Active.label())),
            (":endpoint", s(update.endpoint.expose().as_str())),
        ];
        self.table.update_if(item_key(&update.key), expression, condition, values).await
    }

    async fn forget_probe(&self, update: &SubscriptionUpdate, probe: &Probe) -> Result<(), PortError> {
        let expression = "SET updated_at = :at REMOVE probe_id, probed_at";
        let condition = "endpoint = :endpoint AND probe_id = :id AND probed_at = :probed";
        let values = [
            (":id", s(probe.delivery.as_str())),
            (":probed", ms(probe.at)),
            (":at", ms(update.at)),
            (":endpoint", s(update.endpoint.expose().as_str())),
        ];
        self.table.update_if(item_key(&update.key), expression, condition, values).await.map(|_| ())
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
    async fn switch_off_webhook(&self, update: &SubscriptionUpdate) -> Result<bool, PortError> {
        let expression = format!("SET #state = :disabled, updated_at = :at, {BEGINS_TO_FAIL}");
        let values = [(":active", s(State::Active.label())), (":disabled", s(State::Disabled.label()))];
        let update = self
            .update_if_same_endpoint(update, expression, values)
            .condition_expression("endpoint = :endpoint AND #state = :active");
        Ok(self.table.send(update).await?.is_done())
    }

    async fn write_candidate(&self, window: i64, candidate: &PruneCandidate) -> Result<(), PortError> {
        let mut row = item([
            ("pk", s(format!("prune#{window}"))),
            ("sk", s(candidate.key.to_string())),
            ("tenant", s(candidate.key.tenant.as_str())),
            ("id", s(candidate.key.id.as_str())),
            ("endpoint_hash", s(candidate.endpoint_hash.as_str())),
            ("at", ms(candidate.at)),
            ("decided", AttributeValue::Bool(candidate.decided)),
        ]);
        // One that is not decided yet stays until it is.
        if candidate.decided {
            row.insert("expires_at".to_owned(), expiry(System.now().plus(WINDOW_KEPT)));
        }
        self.control.table.put(row).await
    }
}

fn turned_off(update: &SubscriptionUpdate) -> Vec<(&'static str, AttributeValue)> {
    vec![state(State::Gone), ("gone_at", ms(update.at))]
}

/// To be set, or a condition.
fn state(state: State) -> (&'static str, AttributeValue) {
    ("state", s(state.label()))
}

impl Subscriptions for DynamoSubscriptions {
    async fn load(&self, keys: Vec<SubscriptionKey>) -> Vec<Result<Option<Subscription>, PortError>> {
        let found = self.table.get_each(keys.iter().map(item_key).collect(), Patience::brief()).await;
        found.into_iter().map(|item| self.read(item?.as_ref())).collect()
    }

    async fn switch_off(&self, updates: Vec<(SubscriptionUpdate, State)>) -> Vec<Result<bool, PortError>> {
        let is_disabled = |(_, state): &&(SubscriptionUpdate, State)| *state == State::Disabled;
        let gone = updates.iter().filter(|update| !is_disabled(update)).map(|(update, _)| update.clone());
        let if_active = [state(State::Active)];
        let disabled = updates.iter().filter(is_disabled).map(|(update, _)| self.switch_off_webhook(update));
        let (gone, disabled) = futures_util::join!(
            self.update_all(gone.collect(), turned_off, &[], &if_active),
            join_all(disabled),
        );
        let (mut gone, mut disabled) = (gone.into_iter(), disabled.into_iter());
        let answer = |(_, state): &(SubscriptionUpdate, State)| match state {
            State::Disabled => disabled.next(),
            State::Active
            | State::Suspect
            | State::Gone
            | State::Quarantined
            | State::Expired
            | State::Stale => gone.next(),
        };
        updates.iter().map(answer).map(|done| done.expect("every update was made")).collect()
    }

    async fn probe(
        &self,
        probes: Vec<(SubscriptionUpdate, Probe, Timestamp)>,
    ) -> Vec<Result<bool, PortError>> {
        join_all(probes.iter().map(|(update, probe, before)| self.let_probe_through(update, probe, *before)))
            .await
    }

    async fn forget_probes(&self, probes: Vec<(SubscriptionUpdate, Probe)>) -> Vec<Result<(), PortError>> {
        join_all(probes.iter().map(|(update, probe)| self.forget_probe(update, probe))).await
    }

    async fn recovered(&self, updates: Vec<SubscriptionUpdate>) -> Vec<Result<(), PortError>> {
        let done = self.update_all(updates, |_| Vec::new(), &OF_FAILING, &[state(State::Active)]).await;
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
        self.update_one(update, |update| vec![("flagged_at", ms(update.at))], &[]).await.map(|_| ())
    }

    async fn doubt(
        &self,
        update: SubscriptionUpdate,
        before: &Doubts,
        after: &Doubts,
    ) -> Result<bool, PortError> {
        let mut values = item([
            (":at", ms(update.at)),
            (":active", s(State::Active.label())),
            (":endpoint", s(update.endpoint.expose().as_str())),
        ]);
        let mut expression = "SET updated_at = :at".to_owned();
        for (name, value) in doubts(after) {
            expression.push_str(&format!(", {name} = :{name}"));
            values.insert(format!(":{name}"), value);
        }
        let mut condition = "endpoint = :endpoint AND #state = :active AND ".to_owned();
        match before.last_at {
            Some(last_at) => {
                values.insert(":before".to_owned(), ms(last_at));
                condition.push_str("doubted_at = :before");
            }
            None => condition.push_str("attribute_not_exists(doubted_at)"),
        }
        let update = self.table.update(item_key(&update.key), expression, []);
        let update = update.condition_expression(condition).set_expression_attribute_values(Some(values));
        Ok(self.table.send(update).await?.is_done())
    }

    async fn count_suspect(&self, tenant: &Tenant, at: Timestamp) -> Result<u64, PortError> {
        self.control.count_suspect(tenant, at).await
    }

    async fn disable(&self, update: SubscriptionUpdate, health: Health) -> Result<bool, PortError> {
        let Some(since) = health.failing_since else { return Ok(false) };
        let conditions = [state(State::Active), ("failing_since", ms(since))];
        self.update_one(update, |_| vec![state(State::Disabled)], &conditions).await
    }

    async fn mark_gone(&self, update: SubscriptionUpdate) -> Result<(), PortError> {
        self.update_one(update, turned_off, &[state(State::Active)]).await.map(|_| ())
    }

    async fn quarantine(&self, update: SubscriptionUpdate) -> Result<bool, PortError> {
        self.update_one(update, |_| vec![state(State::Quarantined)], &[state(State::Gone)]).await
    }

    async fn end(&self, found: &Subscription, to: State, at: Timestamp) -> Result<bool, PortError> {
        let mut values = item([
            (":to", s(to.label())),
            (":at", ms(at)),
            (":active", s(State::Active.label())),
            (":endpoint", s(found.recipient.endpoint().expose().as_str())),
        ]);
        let mut condition = "endpoint = :endpoint AND #state = :active".to_owned();
        for (name, time) in [("last_seen_at", found.last_seen_at), ("ends_at", found.ends_at)] {
            match time {
                Some(time) => {
                    values.insert(format!(":{name}"), ms(time));
                    condition.push_str(&format!(" AND {name} = :{name}"));
                }
                None => condition.push_str(&format!(" AND attribute_not_exists({name})")),
            }
        }
        let update = self.table.update(item_key(&found.key), "SET #state = :to, updated_at = :at", []);
        let update = update.condition_expression(condition).set_expression_attribute_values(Some(values));
        Ok(self.table.send(update).await?.is_done())
    }

    async fn remove(&self, update: SubscriptionUpdate, reason: Reason) -> Result<bool, PortError> {
        let SubscriptionUpdate { key, endpoint, at } = &update;
        self.change(key, None, *at, |Met { before, .. }| {
            let over = [State::Gone, State::Expired, State::Stale].map(State::label);
            let is_same = |item: &&Item| {
                item.text("endpoint") == Some(endpoint.expose().as_str())
                    && item.text("state").is_some_and(|state| over.contains(&state))
            };
            let removed = before.filter(is_same).map(|_| After::Nothing(reason));
            let is_removed = removed.is_some();
            Ok((removed, is_removed))
        })
        .await
    }

    async fn count(&self, tenant: &Tenant) -> Result<u64, PortError> {
        self.control.subscriptions_of(tenant).await
    }

    async fn add_candidate(&self, window: i64, candidate: PruneCandidate, now: i64) -> Result<(), PortError> {
        let mut open = key(WINDOWS, window_key(window));
        open.insert("added_in".to_owned(), n(now));
        self.control.table.put(open).await?;
        self.write_candidate(window, &candidate).await
    }

    async fn candidates(&self, window: i64) -> Result<Vec<PruneCandidate>, PortError> {
        // Above every tenant: their names are lower-case ASCII.
        let items = self.control.below(format!("prune#{window}"), "\u{7f}").await?;
        Ok(items.iter().filter_map(candidate).collect())
    }

    async fn decide_candidate(&self, window: i64, candidate: &PruneCandidate) -> Result<(), PortError> {
        self.write_candidate(window, &PruneCandidate { decided: true, ..candidate.clone() }).await
    }

    async fn open_windows(&self, before: i64) -> Result<Vec<OpenWindow>, PortError> {
        let items = self.control.below(WINDOWS, &window_key(before)).await?;
        let open = items.iter().filter_map(open_window);
        Ok(open.filter(|open| open.added_in < before).collect())
    }

    async fn close_window(&self, window: OpenWindow) -> Result<(), PortError> {
        let OpenWindow { number, added_in } = window;
        // Earlier releases did not write it.
        let unchanged = "added_in = :added_in OR attribute_not_exists(added_in)";
        let values = [(":added_in", n(added_in))];
        self.control.table.delete_if(key(WINDOWS, window_key(number)), unchanged, values).await.map(|_| ())
    }
}

/// Twelve digits, so that text order is the order of numbers.
fn window_key(window: i64) -> String {
    format!("{:012}", window.max(0))
}

/// Earlier releases wrote only the number, of the window that it was then.
fn open_window(item: &Item) -> Option<OpenWindow> {
    let number = item.text("sk")?.parse().ok()?;
    Some(OpenWindow { number, added_in: item.number("added_in").unwrap_or(number) })
}

fn candidate(item: &Item) -> Option<PruneCandidate> {
    Some(PruneCandidate {
        key: SubscriptionKey {
            tenant: Tenant::parse(item.text("tenant")?)?,
            id: SubscriptionId::parse(item.text("id")?)?,
        },
        endpoint_hash: EndpointHash::parse(item.text("endpoint_hash")?)?,
        at: item.time("at")?,
        decided: item.truth("decided"),
    })
}
