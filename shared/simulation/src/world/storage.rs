//! What becomes of subscriptions, keys and rows of tables.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rand::RngExt;
use redial_core::endpoint::{Endpoint, HashKeys, Origin};
use redial_core::identity::{
    Attempt, DeliveryId, DeliveryKey, Lineage, SubscriptionKey, Tenant, Turn, VapidKeyId,
};
use redial_core::ledger::Entry;
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::subscription::{Consent, Document, Renewal, SameEndpoint, State, Subscription};
use redial_core::webhook::Health;
use redial_engine::ports::{Erased, Found, SubscriptionBook};
use redial_memory::{Row, State as Stored};
use serde_json::Value;

use super::World;
use super::browsers::{AUTH, P256DH, subscription};
use crate::address::endpoint;
use crate::facts::Standing;
use crate::scenario::focus::Focus;
use crate::scenario::messages::Sending;
use crate::scenario::storage::Act;
use crate::situations::Situation;
use crate::watch::Memo;
use crate::worker::NEW_KEY;

/// What is made on the ports themselves, without a schedule, is made at once.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("a port without a schedule never waits"),
    }
}

impl World {
    pub(super) fn act(&mut self, at: usize) {
        if !matches!(self.stage.scenario.storage.acts[at].1, Act::ErasesPerson(..)) {
            self.planned -= 1;
        }
        let (_, act) = self.stage.scenario.storage.acts[at].clone();
        self.trace("user", format_args!("{act:?}"));
        match act {
            Act::Erases(tenant, receiver) => self.erases(tenant, receiver),
            Act::ErasesPerson(tenant, receiver) => self.erases_person(at, tenant, receiver),
            Act::Subscribes { tenant, receiver, is_new } => self.subscribes(tenant, receiver, is_new),
            Act::Disables(tenant, receiver) => {
                let key = subscription(tenant, receiver);
                if let Some(stored) = self.memory.state().subscriptions.get_mut(&key) {
                    stored.state = State::Disabled;
                }
                self.stage.watch.saw(Situation::Disabled);
                self.knows(&key);
            }
            Act::Enables(tenant, receiver) => {
                let key = subscription(tenant, receiver);
                if let Some(stored) = self.memory.state().subscriptions.get_mut(&key) {
                    (stored.state, stored.flagged_at, stored.health) =
                        (State::Active, None, Health::default());
                    let address = stored.recipient.endpoint().expose().as_str();
                    self.stage.watch.memo().facts.off_since.remove(address);
                }
                self.knows(&key);
            }
            Act::Confirms(tenant) => self.confirms(tenant),
            Act::Rotates(keys) => self.rotates(keys),
            Act::Expires(share) => self.expires(share),
            Act::Reuses => self.reuses(),
        }
    }

    /// `redial subscriptions prune`: the walk of the day removes what was confirmed.
    fn confirms(&mut self, tenant: &str) {
        let now = self.now();
        let is_one = |(key, stored): &(&SubscriptionKey, &Subscription)| {
            let number = key.id.as_str().strip_prefix('r').and_then(|number| number.parse::<usize>().ok());
            key.tenant.as_str() == tenant
                && stored.state == State::Quarantined
                && number.is_some_and(|number| number.is_multiple_of(2))
        };
        let keys: Vec<SubscriptionKey> =
            self.memory.state().subscriptions.iter().filter(is_one).map(|(key, _)| key.clone()).collect();
        for key in keys {
            if let Some(stored) = self.memory.state().subscriptions.get_mut(&key) {
                (stored.state, stored.gone_confirmed_at) = (State::Gone, Some(now));
            }
            self.stage.watch.saw(Situation::Confirmed);
            self.stage.watch.memo().facts.confirmed.insert(key.clone(), false);
            self.knows(&key);
        }
    }

    fn erases(&mut self, tenant: &str, receiver: usize) {
        let key = subscription(tenant, receiver);
        let (keys, now) = (self.hash_keys(), self.now());
        if at_once(self.memory.erase(&key, None, &keys, now)) == Ok(Erased::Yes) {
            self.stage.watch.saw(Situation::Erased);
            let found = at_once(SubscriptionBook::find(&self.memory, &key));
            if !matches!(found, Ok(Found::Deleted { .. })) {
                self.stage.watch.memo().violated(format!("{key} was erased, and has no tombstone"));
            }
        }
        self.knows(&key);
    }

    fn subscribes(&mut self, tenant: &'static str, receiver: usize, is_new: bool) {
        if is_new {
            self.incarnations[receiver] += 1;
        }
        let address = endpoint(receiver, false, self.incarnations[receiver], tenant);
        let is_of_new_key = self.stage.scenario.storage.of_new_key.contains(&receiver);
        let key = subscription(tenant, receiver);
        let renewal = Renewal {
            key: key.clone(),
            document: Document {
                target: PushTarget {
                    endpoint: Endpoint::parse(&address).expect("invariant: an HTTPS address"),
                    keys: PushKeys::parse(P256DH, AUTH).expect("invariant: a browser's keys"),
                    vapid_key_id: is_of_new_key
                        .then(|| VapidKeyId::parse(NEW_KEY).expect("invariant: an id")),
                },
                time_zone: None,
                tags: None,
                consent: Some(Consent {
                    at: self.now(),
                    prompt_version: "v1".to_owned(),
                    action: "granted".to_owned(),
                    origin: Origin::parse("https://shop.example").expect("invariant: an origin"),
                }),
                ends_at: None,
            },
            seen_at: Some(self.now()),
            permit: None,
        };
        let was_there = self.memory.state().subscriptions.contains_key(&key);
        at_once(self.memory.renew(renewal, SameEndpoint::Replace, self.now()))
            .expect("invariant: it is made at once");
        self.stage.watch.saw(Situation::SubscribedAgain);
        if is_new && let Some(has_returned) = self.stage.watch.memo().facts.confirmed.get_mut(&key) {
            *has_returned = true;
        }
        // The same endpoint of a subscription that is there stays what it was, switched off or not.
        if is_new || !was_there {
            self.stage.watch.memo().facts.off_since.remove(&address);
        }
        self.knows(&key);
    }

    /// All workers are restarted: those that are busy first finish their invocations.
    fn rotates(&mut self, keys: &'static str) {
        self.generation += 1;
        self.keys = Some(keys);
        if keys.starts_with("k2") {
            self.stage.watch.memo().facts.is_rotated = true;
            self.stage.watch.saw(Situation::Rotated);
        }
    }

    pub(super) fn hash_keys(&self) -> HashKeys {
        let keys = self.keys.unwrap_or("k1:0123456789abcdef");
        HashKeys::parse(keys).expect("invariant: keys")
    }

    fn expires(&mut self, share: f64) {
        let mut rows = self.memory.state().expired();
        rows.retain(|_| self.stage.rng().random_bool(share));
        for row in rows.into_iter().filter(|row| matches!(row, Row::Entry(_))) {
            self.trace("ttl", format_args!("deletes {row:?}"));
            self.stage.watch.saw(Situation::RowExpired);
            let mut state = self.memory.state();
            if let Row::Entry(key) = &row
                && let Some(entry) = state.ledger.get(key)
            {
                self.stage.watch.memo().forgotten.insert(key.clone(), entry.clone());
            }
            self.stage.watch.memo().loses_acks(&row, state.now);
            state.delete(&row);
        }
    }

    /// Sends other contents with ids that the ledger has forgotten. What is over with them is judged first.
    fn reuses(&mut self) {
        let known: Vec<(DeliveryKey, Sending)> =
            self.accepted.iter().filter_map(|(key, all)| Some((key.clone(), all.first()?.clone()))).collect();
        for (key, first) in known {
            let entry = self.memory.state().ledger.get(&key);
            let is_forgotten = |entry: &Entry| entry.state.is_terminal() && entry.expires_at <= self.now();
            if !entry.as_ref().is_none_or(is_forgotten) {
                continue;
            }
            self.stage.watch.saw(Situation::Reused);
            self.stage.watch.memo().forget(&key);
            self.events.retain(|event| event["id"] != key.id.as_str());
            self.memory.state().described.retain(|of, _| of.id != key.id.as_str());
            self.accepted.remove(&key);
            let at = self.stage.since_begin();
            self.produce(&Sending { at, content: first.content + 100, deliver_at: None, ttl: None, ..first });
        }
    }

    /// Takes what is stored of a subscription for what its user or an operator has just made of it.
    pub(super) fn knows(&mut self, key: &SubscriptionKey) {
        let standing = self.standing(key);
        let now = self.now();
        let mut memo = self.stage.watch.memo();
        // What was to be announced may be so no longer.
        memo.facts.to_announce.remove(key);
        memo.facts.know(key, standing, now);
    }

    fn standing(&self, key: &SubscriptionKey) -> Option<Standing> {
        let state = self.memory.state();
        let stored = state.subscriptions.get(key)?;
        Some(Standing::of(stored))
    }

    /// Looks at what workers have made of subscriptions.
    pub(super) fn observe(&mut self) {
        if !self.stage.scenario.storage.is_watched || std::mem::replace(&mut self.is_observed, true) {
            return;
        }
        let now = self.now();
        let state = self.memory.state();
        let mut memo = self.stage.watch.memo();
        let changed: Vec<SubscriptionKey> = {
            let known = &memo.facts.standing;
            let is_same = |key: &SubscriptionKey| match (state.subscriptions.get(key), known.get(key)) {
                (Some(stored), Some(known)) => Standing::of(stored) == *known,
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            let others = known.keys().filter(|key| !state.subscriptions.contains_key(key));
            let mut changed: Vec<_> =
                state.subscriptions.keys().chain(others).filter(|key| !is_same(key)).cloned().collect();
            changed.sort();
            changed
        };
        for key in changed {
            let standing = state.subscriptions.get(&key).map(Standing::of);
            memo.changes(&key, standing.as_ref(), now);
            memo.facts.know(&key, standing, now);
        }
    }

    /// Whether nothing is to come of users, keys and tables.
    pub(super) fn plan_storage(&mut self) {
        for (at, (after, _)) in self.stage.scenario.storage.acts.iter().enumerate() {
            self.stage.timeline.at(self.stage.begin.plus(*after), crate::timeline::Event::Act(at));
            self.planned += 1;
        }
        let keys: Vec<SubscriptionKey> = self.memory.state().subscriptions.keys().cloned().collect();
        keys.iter().for_each(|key| self.knows(key));
        if self.stage.scenario.focus == Some(Focus::Refused) {
            self.stage.watch.saw(Situation::RefusedTogether);
        }
        let mut memo = self.stage.watch.memo();
        memo.facts.refused_alone = self.stage.scenario.refused_alone();
        memo.facts.holds_suspects = self.stage.scenario.storage.holds_suspects;
    }
}

/// Notes what the quarantine has kept as it was. Its letter does not bear the delivery's id, because the release there could not read it.
pub(super) fn note_raw(state: &Stored, memo: &mut Memo) {
    for (of, body) in state.bodies.iter().filter(|(of, _)| of.letter.starts_with("poison-")) {
        if let Some((key, turn)) = turn_of(&body.body).filter(|(key, _)| key.id.as_str() != of.id) {
            memo.facts.kept_raw.entry(key).or_default().insert(turn);
        }
    }
}

/// Which delivery a body is about, and which turn of it, whatever else it says.
fn turn_of(body: &str) -> Option<(DeliveryKey, Turn)> {
    let value: Value = serde_json::from_str(&crate::release::read(body)).ok()?;
    let text = |name: &str| value[name].as_str();
    let number = |name: &str| value[name].as_u64().and_then(|it| u32::try_from(it).ok()).unwrap_or_default();
    let key = DeliveryKey { tenant: Tenant::parse(text("tenant")?)?, id: DeliveryId::parse(text("id")?)? };
    Some((key, Turn { lineage: Lineage(number("lineage")), attempt: Attempt(number("retry_count")) }))
}
