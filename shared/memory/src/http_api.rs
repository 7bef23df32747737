//! The ports of the HTTP API in memory.

use std::collections::BTreeMap;

use redial_core::access::{ApiKeyId, Credential, IamArn, StoredKey};
use redial_core::ack::AckEvent;
use redial_core::identity::DeliveryKey;
use redial_core::ledger::cancel::{self, Decision};
use redial_core::ledger::listing::Listing;
use redial_core::ledger::{self, Cancellation};
use redial_core::page::Position;
use redial_core::time::Timestamp;
use redial_engine::ports::{
    AccessKeys, Acknowledged, Acks, Deliveries, DeliveryRecord, HttpApi, Inserted, Listed, NewDelivery,
    OnPage, Pages, PortError, PublicKey, PublicKeys,
};

use super::effects::assert_distinct;
use super::{ByState, Memory, Row, State};

impl Deliveries for Memory {
    async fn insert(&self, deliveries: Vec<NewDelivery>, now: Timestamp) -> Vec<Result<Inserted, PortError>> {
        assert_distinct(deliveries.iter().map(|delivery| &delivery.key));
        self.effect_on_each("insert", deliveries, |state, delivery| insert(state, delivery, now)).await
    }

    async fn cancel(&self, key: &DeliveryKey, now: Timestamp) -> Result<Cancellation, PortError> {
        let at = || Some(key.to_string());
        loop {
            let read = |state: &mut State| (state.ledger.own(key).cloned(), state.ledger.get(key));
            let (own, mut resolved) = self.effect_at("cancel.read", at(), read).await?;
            let current = own.as_ref().filter(|own| !own.is_forgotten(now));
            if let Some(own) = current.filter(|own| cancel::to_close(own, now)) {
                let token = own.lease_token.clone();
                self.close([token.clone()].into(), now).await.remove(&token).expect("it is answered")?;
                // What the batch lists now is all that it ever lists.
                resolved = self.effect_at("cancel.read", at(), |state| state.ledger.get(key)).await?;
            }
            let entry =
                match resolved.filter(|entry| !entry.is_forgotten(now)).map(|it| cancel::decide(it, now)) {
                    None => cancel::unknown(key.clone(), now),
                    Some(Decision::Write(entry)) => *entry,
                    Some(Decision::Answer(answer)) => return Ok(answer),
                };
            let exchange = |state: &mut State| {
                let is_as_it_was = state.ledger.own(key) == own.as_ref();
                if is_as_it_was && current.is_none() {
                    state.delete(&Row::Entry(key.clone()));
                }
                if is_as_it_was {
                    state.ledger.insert(key.clone(), entry.clone());
                }
                is_as_it_was
            };
            if self.effect_at("cancel.write", at(), exchange).await? {
                return Ok(cancel::of(&entry));
            }
        }
    }

    async fn list(&self, listing: &Listing) -> Result<Listed, PortError> {
        let lag = self.index_lag();
        self.effect("list", |state| {
            let now = state.now;
            let index = state.by_state.take().filter(|index| now < index.as_of.plus(lag));
            let index = index.unwrap_or_else(|| ByState::of(state.ledger.own_entries(), now));
            let (keys, next) = index.page(listing);
            state.by_state = Some(index);
            let found = keys.iter().filter_map(|key| state.ledger.get(key));
            let is_wanted = |entry: &ledger::Entry| listing.finds(entry) && !entry.is_forgotten(state.now);
            let records = found.filter(is_wanted).map(|entry| record(state, entry)).collect();
            Listed { records, next }
        })
        .await
    }

    async fn find(&self, key: &DeliveryKey) -> Result<Option<DeliveryRecord>, PortError> {
        self.effect("find_delivery", |state| {
            let entry = state.ledger.get(key).filter(|entry| !entry.is_forgotten(state.now))?;
            Some(record(state, entry))
        })
        .await
    }
}

fn record(state: &State, entry: ledger::Entry) -> DeliveryRecord {
    let key = entry.key.clone();
    let acknowledged = |event| state.acknowledged.get(&(key.clone(), event)).map(|at| (event, *at));
    DeliveryRecord {
        channel: None,
        attempts: state.attempts.get(&key).cloned().unwrap_or_default(),
        acknowledged: AckEvent::ALL.into_iter().filter_map(acknowledged).collect(),
        entry,
    }
}

/// Whether it was the first of its kind.
fn note<K: Ord>(first: &mut BTreeMap<K, Timestamp>, event: K, now: Timestamp) -> bool {
    let mut is_first = false;
    first.entry(event).or_insert_with(|| {
        is_first = true;
        now
    });
    is_first
}

fn insert(state: &mut State, delivery: NewDelivery, now: Timestamp) -> Inserted {
    if let Some(stored) = state.ledger.get(&delivery.key).filter(|stored| !stored.is_forgotten(now)) {
        let awaits_its_message = stored.awaits_its_message();
        return Inserted::Duplicate {
            state: stored.state,
            fingerprint: stored.fingerprint,
            awaits_its_message,
        };
    }
    state.delete(&Row::Entry(delivery.key.clone()));
    let entry = delivery.entry(now);
    state.ledger.insert(delivery.key, entry);
    Inserted::New
}

impl AccessKeys for Memory {
    async fn find(&self, id: &ApiKeyId) -> Result<Option<StoredKey>, PortError> {
        self.effect("find_key", |state| state.access_keys.get(id).cloned()).await
    }

    async fn find_iam(&self, arn: &IamArn) -> Result<Option<StoredKey>, PortError> {
        self.effect("find_principal", |state| {
            let is_its = |key: &&StoredKey| match &key.credential {
                Credential::Key(_) => false,
                Credential::Iam(of) => of == arn,
            };
            // As in the table, the newest of several is the one that counts.
            state.access_keys.values().filter(is_its).max_by_key(|key| key.created_at).cloned()
        })
        .await
    }
}

impl Acks for Memory {
    async fn acknowledge(
        &self,
        key: &DeliveryKey,
        event: AckEvent,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Acknowledged, PortError> {
        self.effect("acknowledge", |state| {
            if state.erased_recipients.contains(key) {
                return Acknowledged::Unknown;
            }
            let is_first = if Position::of(key).is_some() {
                let (end, first) = state.acks_apart.entry(key.clone()).or_default();
                *end = until.max(*end);
                note(first, event, now)
            } else if state.ledger.get(key).is_some_and(|entry| !entry.is_forgotten(now)) {
                note(&mut state.acknowledged, (key.clone(), event), now)
            } else {
                return Acknowledged::Unknown;
            };
            if is_first { Acknowledged::First } else { Acknowledged::Again }
        })
        .await
    }

    async fn acknowledged(
        &self,
        key: &DeliveryKey,
        now: Timestamp,
    ) -> Result<Option<Vec<(AckEvent, Timestamp)>>, PortError> {
        self.effect("acknowledged", |state| {
            let kept = state.acks_apart.get(key).filter(|(until, _)| now < *until);
            let kept = kept.map(|(_, first)| first.iter().map(|(event, at)| (*event, *at)).collect());
            (!state.erased_recipients.contains(key)).then(|| kept.unwrap_or_default())
        })
        .await
    }
}

impl Pages for Memory {
    async fn on_page(&self, position: &Position, now: Timestamp) -> Result<Option<OnPage>, PortError> {
        self.effect("pages.find", |state| state.on_page(position, now)).await
    }
}

impl PublicKeys for Memory {
    async fn all(&self, _now: Timestamp) -> Result<Vec<PublicKey>, PortError> {
        self.effect("public_keys", |state| state.public_keys.clone()).await
    }
}

impl HttpApi for Memory {
    type Clock = Self;
    type Randomness = Self;
    type AccessKeys = Self;
    type Protection = Self;
    type Ledger = Self;
    type Outbox = Self;
    type Subscriptions = Self;
    type ErasureRequests = Self;
    type PublicKeys = Self;
    type Quotas = Self;
    type Acks = Self;
    type Pages = Self;
    type Telemetry = Self;

    fn clock(&self) -> &Self {
        self
    }
    fn randomness(&self) -> &Self {
        self
    }
    fn access_keys(&self) -> &Self {
        self
    }
    fn protection(&self) -> &Self {
        self
    }
    fn ledger(&self) -> &Self {
        self
    }
    fn outbox(&self) -> &Self {
        self
    }
    fn subscriptions(&self) -> &Self {
        self
    }
    fn erasure_requests(&self) -> &Self {
        self
    }
    fn public_keys(&self) -> &Self {
        self
    }
    fn quotas(&self) -> &Self {
        self
    }
    fn acks(&self) -> &Self {
        self
    }
    fn pages(&self) -> &Self {
        self
    }
    fn telemetry(&self) -> &Self {
        self
    }
}
