//! What is true of addresses and receivers, independent of what Redial has stored of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redial_core::identity::{DeliveryKey, SubscriptionKey, Turn};
use redial_core::subscription::suspicion::Probe;
use redial_core::subscription::{State, Subscription};
use redial_core::time::Timestamp;

/// How long after its attempt a dead letter may be counted although its recipient has accepted a message since.
const COUNTED_LATE: Duration = Duration::from_secs(300);

/// What an address has answered so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answers {
    pub is_gone: bool,
    /// When it answered 404, since its last success.
    pub not_found: Vec<Timestamp>,
    /// The first failure since the last success.
    pub failing_since: Option<Timestamp>,
    pub succeeded_at: Option<Timestamp>,
    /// When it accepted a message that was sent to it as a subscription, and not by its address.
    pub verified_at: Option<Timestamp>,
    /// When it failed in a way that counts against its subscription, since its last success. A dead letter may be counted a little later.
    pub refused: Vec<Timestamp>,
}

/// A stored subscription, as far as it matters to what may be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    pub state: State,
    pub is_suspect: bool,
    /// The message that was let through last while it was suspect and held.
    pub probe: Option<Probe>,
    pub address: String,
}

impl Standing {
    pub fn of(stored: &Subscription) -> Self {
        Self {
            state: stored.state,
            is_suspect: stored.doubts.suspect_at.is_some(),
            probe: stored.doubts.probe.clone(),
            address: stored.recipient.endpoint().expose().as_str().to_owned(),
        }
    }
}

/// What receivers answered, and what users did.
#[derive(Debug, Default)]
pub struct Facts {
    pub answers: BTreeMap<String, Answers>,
    /// From when nothing may be posted to an address: it was left, erased or switched off.
    pub off_since: BTreeMap<String, Timestamp>,
    /// When invocations began, by their lease tokens.
    pub began: BTreeMap<String, Timestamp>,
    /// Subscriptions as they were last seen.
    pub standing: BTreeMap<SubscriptionKey, Standing>,
    /// Since when they are suspect.
    pub suspect_since: BTreeMap<SubscriptionKey, Timestamp>,
    /// When they were stored or changed last.
    pub stored_at: BTreeMap<SubscriptionKey, Timestamp>,
    /// Subscriptions of which an operator confirmed that they are gone, and whether their users have subscribed again since.
    pub confirmed: BTreeMap<SubscriptionKey, bool>,
    /// What workers made of subscriptions last, which producers are to learn: the state of its event.
    pub to_announce: BTreeMap<SubscriptionKey, &'static str>,
    /// Deliveries that a receiver answered with a success.
    pub accepted: BTreeSet<DeliveryKey>,
    /// The end of the wait that a receiver asked for, and the invocation that it asked.
    pub asked: BTreeMap<DeliveryKey, (Timestamp, String)>,
    /// Deliveries with a message in the quarantine's dead letters as it was, because the release that took it out could not read it; and
    /// the turns of those messages.
    pub kept_raw: BTreeMap<DeliveryKey, BTreeSet<Turn>>,
    /// The only receiver that is refused alone, where nothing else fails but all receivers together.
    pub refused_alone: Option<String>,
    /// Whether messages to suspect subscriptions are held.
    pub holds_suspects: bool,
    /// How many of a key's contents were used while hashes under two keys were in use: they cannot be compared.
    pub is_rotated: bool,
}

impl Answers {
    pub fn add(&mut self, status: Option<u16>, now: Timestamp) {
        match status {
            Some(200..=299) => {
                self.succeeded_at = Some(now);
                self.failing_since = None;
                self.not_found.clear();
                self.refused.retain(|at| now.since(*at) < COUNTED_LATE);
            }
            Some(404) => self.not_found.push(now),
            Some(410) => self.is_gone = true,
            Some(429) => {}
            Some(_) | None => self.refused.push(now),
        }
        if !matches!(status, Some(200..=299)) {
            self.failing_since.get_or_insert(now);
        }
    }

    /// How often it was refused, each time at least `apart` after the last.
    pub fn refused_apart(&self, apart: Duration) -> usize {
        let mut last: Option<Timestamp> = None;
        let is_apart = |at: &&Timestamp| {
            let is_apart = last.is_none_or(|last| at.since(last) >= apart);
            last = if is_apart { Some(**at) } else { last };
            is_apart
        };
        self.refused.iter().filter(is_apart).count()
    }

    /// Whether two 404s were so far apart.
    pub fn is_confirmed(&self, apart: Duration) -> bool {
        let ends = self.not_found.first().zip(self.not_found.last());
        ends.is_some_and(|(first, last)| last.since(*first) >= apart)
    }
}
