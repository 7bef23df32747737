//! What must hold of subscriptions, keys and what receivers ask for.

use std::time::Duration;

use redial_core::endpoint::HashKeys;
use redial_core::identity::{DeliveryKey, SubscriptionKey};
use redial_core::ledger;
use redial_core::reason::Reason;
use redial_core::subscription::{NOT_FOUND_CONFIRMED_AFTER, State};
use redial_core::time::Timestamp;
use redial_engine::ports::Claim;
use redial_memory::State as Stored;

use super::confirmations;
use super::posts::TOLERANCE;
use super::remains::Remains;
use crate::address;
use crate::facts::{Facts, Standing};
use crate::scenario::storage::Wave;
use crate::situations::Situation;
use crate::watch::Memo;

/// How long after a success, or the lack of one, workers may still act on what was before.
pub(super) const UNDER_WAY: Duration = Duration::from_secs(300);

/// A webhook's receiver that fails for this time is switched off: infra/docs/webhooks.md, and not what the code says.
const SWITCHED_OFF_AFTER: Duration = Duration::from_secs(5 * 86_400);

/// From this number of endpoints on that are gone together, the guard keeps all.
const MANY: usize = 10;

impl Facts {
    /// Notes how a subscription stands. Only users and operators switch an address on again.
    pub(crate) fn know(&mut self, key: &SubscriptionKey, standing: Option<Standing>, now: Timestamp) {
        if let Some(before) = self.standing.get(key) {
            let stays =
                standing.as_ref().is_some_and(|it| it.address == before.address && it.state == State::Active);
            if !stays {
                self.off_since.entry(before.address.clone()).or_insert(now);
            }
        }
        if standing.is_some() {
            self.stored_at.insert(key.clone(), now);
        }
        if standing.as_ref().is_some_and(|it| it.is_suspect) {
            self.suspect_since.entry(key.clone()).or_insert(now);
        } else {
            self.suspect_since.remove(key);
        }
        match standing {
            Some(standing) => self.standing.insert(key.clone(), standing),
            None => self.standing.remove(key),
        };
    }
}

impl Memo {
    /// Forgets a delivery whose id is used again.
    pub(crate) fn forget(&mut self, key: &DeliveryKey) {
        self.promises.remove(key);
        self.posts.remove(key);
        self.waits.retain(|(of, _), _| of != key);
        self.ended.retain(|(of, _)| of != key);
        self.operators.replayed.remove(key);
        self.operators.refreshed.remove(key);
        self.shaken.remove(key);
        self.punctual.forget(key);
        self.forgotten.remove(key);
        self.api.forget(key);
        self.acks.answered.retain(|(of, _)| of != key);
        self.acks.first.retain(|(of, _)| of != key);
        self.facts.asked.remove(key);
        self.facts.accepted.remove(key);
    }

    /// A POST in the moment that it leaves: whose address is it, was it switched off, and was the wait over?
    pub(crate) fn posts_to(
        &mut self,
        now: Timestamp,
        key: &DeliveryKey,
        address: &str,
        token: &str,
        state: &Stored,
    ) {
        if !address::is_of(address, key.tenant.as_str()) {
            self.violated(format!("{key} was posted to another tenant's address {address}"));
        }
        let subscription = state.known(key).and_then(|entry| entry.subscription.clone());
        if subscription.is_some_and(|of| address.split('/').nth(3) != Some(of.as_str())) {
            self.violated(format!("{key} was posted to {address}, which is another subscription's"));
        }
        let is_by_subscription = state.known(key).is_some_and(|entry| entry.subscription.is_some());
        let off = self.facts.off_since.get(address).filter(|_| is_by_subscription);
        let began = self.facts.began.get(token);
        if off.zip(began).is_some_and(|(off, began)| off < began) {
            self.violated(format!("{key} was posted to {address}, which had been switched off or erased"));
        }
        self.posts_to_a_suspect(key, token, state);
        // Of a message to the endpoint itself of a person that was erased, nothing is kept: no wait either.
        if let Some((until, by)) = self.facts.asked.get(key)
            && now.plus(TOLERANCE) < *until
            && !self.erased.contains(key)
            && !self.unrecorded.contains(&(key.clone(), by.clone()))
        {
            self.violated(format!("{key} was posted while its receiver had asked to wait until {until:?}"));
        }
    }

    /// A delivery that ends because its subscription is unknown.
    pub(crate) fn finds_nothing(&mut self, claim: &Claim, state: &Stored) {
        let is_unknown = claim.settlement.is_some_and(|end| end.reason == Some(Reason::SubscriptionUnknown));
        let Some(id) = claim.subscription.clone().filter(|_| is_unknown) else { return };
        let Claim { ask, .. } = claim;
        let key = SubscriptionKey { tenant: ask.key.tenant.clone(), id };
        let began = self.facts.began.get(&ask.lease_token).copied().unwrap_or_default();
        let was_there = self.facts.stored_at.get(&key).is_some_and(|at| *at < began);
        if was_there && state.subscriptions.contains_key(&key) {
            self.violated(format!("{} ends because {key} is unknown, and it is there", ask.key));
        }
    }

    /// What a worker made of a subscription.
    pub(crate) fn changes(&mut self, key: &SubscriptionKey, after: Option<&Standing>, now: Timestamp) {
        let Some(before) = self.facts.standing.get(key).cloned() else {
            return self.violated(format!("{key} came back, and its user had erased it"));
        };
        let answers = self.facts.answers.get(&before.address).cloned().unwrap_or_default();
        let apart = NOT_FOUND_CONFIRMED_AFTER - TOLERANCE;
        let is_gone = answers.is_gone || answers.is_confirmed(apart);
        let recent = answers.succeeded_at.is_none_or(|at| now.since(at) > UNDER_WAY);
        let since = answers.failing_since.map_or(Duration::ZERO, |since| now.since(since));
        let is_dead = since.saturating_add(TOLERANCE) >= SWITCHED_OFF_AFTER || !recent;
        if after.is_some_and(|after| after.address != before.address) {
            return self.violated(format!("{key} leads to an address that its user did not choose"));
        }
        let to = after.map(|after| after.state);
        if let Some(after) = after.filter(|after| after.state == before.state) {
            return self.changes_its_doubts(key, &before, after, &answers);
        }
        let announced = match to {
            Some(State::Disabled) => Some("disabled"),
            Some(State::Quarantined) => Some("quarantined"),
            None => Some("pruned"),
            Some(State::Active | State::Suspect | State::Gone | State::Expired | State::Stale) => None,
        };
        if let Some(announced) = announced {
            self.facts.to_announce.insert(key.clone(), announced);
        }
        let is_right = match (before.state, to) {
            (State::Active, Some(State::Gone)) => is_gone,
            (State::Active, Some(State::Disabled)) => answers.is_gone || is_dead,
            (State::Gone, Some(State::Quarantined) | None) => true,
            _ => false,
        };
        self.situations.saw(match to {
            Some(State::Disabled) if !answers.is_gone => Situation::GivenUp,
            Some(State::Quarantined) => Situation::Quarantined,
            _ => Situation::TurnedOff,
        });
        if !is_right {
            let to = to.map_or("nothing", State::label);
            self.violated(format!(
                "{key} went from {} to {to}, and its receiver is alive",
                before.state.label()
            ));
        }
    }
}

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    letters(remains, memo);
    successes(remains, memo);
    if remains.storage.is_watched {
        gone(remains, memo);
        dead(remains, memo);
        announced(remains, memo);
    }
    if let Some(wave) = remains.storage.wave {
        guarded(remains, wave, memo);
    }
}

/// Every message of a scenario is one, and each key that is used exists.
fn letters(remains: &Remains<'_>, memo: &mut Memo) {
    for (key, reference) in &remains.state.described {
        let reason = reference.reason();
        if reason == Some(Reason::UnknownVapidKey) {
            memo.violated(format!("{} of {} is {}", key.letter, key.id, reference.reason));
        }
        let (tenant, id) = (&key.tenant, &key.id);
        let sent =
            remains.accepted.iter().find(|(of, _)| of.tenant.as_str() == tenant && of.id.as_str() == id);
        // An address is part of the content, and moves.
        let has_one = sent.is_some_and(|(of, all)| {
            let unanswered = memo.api.unanswered.get(of).into_iter().flatten().copied();
            let mut contents = all.iter().map(|it| (it.content, it.by_address)).chain(unanswered);
            contents.all(|it| it == (all[0].content, false))
        });
        if reason == Some(Reason::IdConflict) && has_one {
            memo.violated(format!("{id} has one content, and a dead letter says that it has two"));
        }
    }
}

fn successes(remains: &Remains<'_>, memo: &mut Memo) {
    for (key, entry) in remains.state.ledger.iter().filter(|(_, entry)| entry.state == ledger::State::Sent) {
        if remains.accepted.contains_key(key) && !memo.facts.accepted.contains(key) {
            memo.violated(format!("{key} counts as sent, and no receiver accepted it ({:?})", entry.status));
        }
    }
}

/// What is gone, and is recorded as such, does not stay, but where an older release kept its message unread.
fn gone(remains: &Remains<'_>, memo: &mut Memo) {
    let keys = HashKeys::parse("k2:fedcba9876543210,k1:0123456789abcdef").expect("invariant: keys");
    for (key, stored) in &remains.state.subscriptions {
        let is_of = |entry: &ledger::Entry| {
            entry.key.tenant == key.tenant
                && entry.subscription.as_ref() == Some(&key.id)
                && entry.state == ledger::State::Gone
                && entry.reason == Some(Reason::Gone)
                && stored.created_at.is_none_or(|begun| begun < entry.updated_at)
                && entry
                    .endpoint_hash
                    .as_ref()
                    .is_some_and(|hash| keys.is_of(hash, stored.recipient.endpoint()) == Some(true))
        };
        let is_kept_raw = |entry: &ledger::Entry| memo.facts.kept_raw.contains_key(&entry.key);
        let is_gone = remains.state.ledger.values().any(|entry| is_of(&entry) && !is_kept_raw(&entry));
        if stored.state == State::Gone || (is_gone && stored.state == State::Active) {
            memo.violated(format!("{key} is gone, and was neither removed nor put in quarantine"));
        }
    }
}

/// A receiver that has failed for days is switched off with the next message that fails for good.
fn dead(remains: &Remains<'_>, memo: &mut Memo) {
    let mut violations = Vec::new();
    for (key, stored) in remains.state.subscriptions.iter().filter(|(_, it)| it.state == State::Active) {
        let address = stored.recipient.endpoint().expose().as_str();
        let since = memo.facts.answers.get(address).and_then(|answers| answers.failing_since);
        let Some(since) = since.filter(|since| *since > remains.calm_from) else { continue };
        let is_late = |entry: &ledger::Entry| {
            entry.key.tenant == key.tenant
                && entry.subscription.as_ref() == Some(&key.id)
                && entry.state == ledger::State::Failed
                && entry.status.is_some()
                && entry.updated_at > since.plus(SWITCHED_OFF_AFTER + UNDER_WAY)
        };
        if let Some(entry) = remains.state.ledger.values().find(is_late) {
            violations.push(format!("{key} has failed since {since:?}, {} too, and is still on", entry.key));
        }
    }
    violations.into_iter().for_each(|violation| memo.violated(violation));
}

/// Producers learn of each subscription that is switched off, kept in quarantine or removed.
fn announced(remains: &Remains<'_>, memo: &mut Memo) {
    let unannounced = memo.facts.to_announce.iter();
    let unannounced = unannounced.filter(|(key, state)| remains.events_of(key, state).next().is_none());
    let unannounced: Vec<String> =
        unannounced.map(|(key, state)| format!("{key} is {state}, and no event says so")).collect();
    unannounced.into_iter().for_each(|violation| memo.violated(violation));
}

/// Without faults, the guard's decision depends on the size of a wave alone.
fn guarded(remains: &Remains<'_>, wave: Wave, memo: &mut Memo) {
    let count = wave.until - wave.from;
    for receiver in wave.from..wave.until {
        let is_it = |key: &SubscriptionKey| {
            key.tenant.as_str() == wave.tenant && key.id.as_str() == format!("r{receiver}")
        };
        let stored = remains.state.subscriptions.iter().find(|(key, _)| is_it(key));
        let stored = stored.map(|(_, stored)| stored.state);
        let expected = match memo.facts.confirmed.iter().find(|(key, _)| is_it(key)) {
            Some((_, true)) => Some(State::Active),
            Some((_, false)) => None,
            None => (count >= MANY).then_some(State::Quarantined),
        };
        if stored != expected {
            memo.violated(format!(
                "r{receiver} turned gone with {count} others: {stored:?}, not {expected:?}"
            ));
        }
    }
    confirmations::judge(remains, memo);
    memo.situations.saw(if count >= MANY { Situation::GreatWave } else { Situation::SmallWave });
}
