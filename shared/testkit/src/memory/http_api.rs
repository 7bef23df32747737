//! The ports of the HTTP API in memory.

use std::collections::btree_map::Entry;

use redial_core::ack::AckEvent;
use redial_core::identity::DeliveryKey;
use redial_core::ledger::{self, State as Standing, expires_at};
use redial_core::time::Timestamp;
use redial_engine::ports::{
    Acknowledged, Acks, Deliveries, Entered, Entrance, HttpApi, Intake, Known, PortError, PublicKey,
    PublicKeys,
};

use super::{Memory, State};

impl Intake for Memory {
    async fn enter(&self, entrances: Vec<Entrance>, now: Timestamp) -> Vec<Result<Entered, PortError>> {
        let mut keys: Vec<_> = entrances.iter().map(|entrance| entrance.key.clone()).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), entrances.len(), "two entrances of one delivery in a batch");
        self.effect_on_each("enter", entrances, |state, entrance| enter(state, entrance, now)).await
    }
}

fn enter(state: &mut State, entrance: Entrance, now: Timestamp) -> Entered {
    if let Some(stored) = state.ledger.get(&entrance.key).filter(|stored| !stored.is_forgotten(now)) {
        return Entered::Known { state: stored.state, fingerprint: stored.fingerprint.clone() };
    }
    let entry = ledger::Entry {
        key: entrance.key.clone(),
        state: Standing::Queued,
        turn: Default::default(),
        fingerprint: entrance.fingerprint,
        lease_token: "http-api".to_owned(),
        lease_until: Timestamp::default(),
        source_message: String::new(),
        endpoint_hash: entrance.endpoint_hash,
        subscription: entrance.subscription,
        status: None,
        reason: None,
        not_sent: None,
        provider_word: None,
        not_before: entrance.not_before,
        in_doubt: false,
        created_at: now,
        updated_at: now,
        expires_at: expires_at(now, entrance.not_before),
    };
    state.ledger.insert(entrance.key, entry);
    Entered::Fresh
}

impl Deliveries for Memory {
    async fn find(&self, key: &DeliveryKey) -> Result<Option<Known>, PortError> {
        self.effect("find_delivery", |state| {
            let acknowledged = |event| state.acknowledged.get(&(key.clone(), event)).map(|at| (event, *at));
            Some(Known {
                entry: state.ledger.get(key).filter(|entry| !entry.is_forgotten(state.now))?.clone(),
                channel: None,
                attempts: state.attempts.get(key).cloned().unwrap_or_default(),
                acknowledged: AckEvent::ALL.into_iter().filter_map(acknowledged).collect(),
            })
        })
        .await
    }
}

impl Acks for Memory {
    async fn acknowledge(
        &self,
        key: &DeliveryKey,
        event: AckEvent,
        now: Timestamp,
    ) -> Result<Acknowledged, PortError> {
        self.effect("acknowledge", |state| {
            if state.ledger.get(key).is_none_or(|entry| entry.is_forgotten(now)) {
                return Acknowledged::Unknown;
            }
            match state.acknowledged.entry((key.clone(), event)) {
                Entry::Occupied(_) => Acknowledged::Again,
                Entry::Vacant(vacant) => {
                    vacant.insert(now);
                    Acknowledged::First
                }
            }
        })
        .await
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
    type PublicKeys = Self;
    type Acks = Self;
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
    fn public_keys(&self) -> &Self {
        self
    }
    fn acks(&self) -> &Self {
        self
    }
    fn telemetry(&self) -> &Self {
        self
    }
}
