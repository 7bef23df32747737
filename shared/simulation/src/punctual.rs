//! When attempts are due, as far as what workers send on, park and return says so.

use std::collections::BTreeMap;
use std::time::Duration;

use redial_core::identity::{DeliveryKey, Turn};
use redial_core::message::{Message, Travel};
use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;

/// When an attempt is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    pub at: Timestamp,
    /// When that was decided.
    pub since: Timestamp,
    /// When something was first parked in its bucket, if it was parked.
    pub bucket_since: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub struct Punctual {
    due: BTreeMap<(DeliveryKey, Turn), Due>,
    buckets: BTreeMap<WaitBucket, Timestamp>,
    /// When something waited last for a worker, because none was free, or none that could read it.
    pub starved_at: Timestamp,
    /// From then on nothing fails, and nothing is hidden in a queue by a worker that died before.
    pub calm_from: Timestamp,
    /// The time between two sweeps.
    pub sweep_every: Duration,
}

impl Punctual {
    /// Something waits for a worker until then at least.
    pub fn waits_until(&mut self, at: Timestamp) {
        self.starved_at = self.starved_at.max(at);
    }

    /// An attempt is due then, or later if another message of it is.
    pub fn is_due(&mut self, key: DeliveryKey, turn: Turn, at: Timestamp, now: Timestamp) {
        let due = self.due.entry((key, turn)).or_insert(Due { at, since: now, bucket_since: None });
        (due.at, due.since) = (due.at.max(at), due.since.max(now));
    }

    /// A message that a worker sends on. How long an error of our own delays it does not stand in it; and a hand-off that is repeated
    /// may come after the end of its wait.
    pub fn goes_on(&mut self, message: &Message, travel: &Travel, now: Timestamp) {
        let at = travel.not_before.filter(|_| travel.receives == 0);
        let at = at.map_or(Timestamp::from_ms(i64::MAX), |at| at.max(now));
        // What was parked is sent on by its release, which decides nothing.
        let is_released =
            |due: Due| due.bucket_since.is_some() && travel.not_before.is_some_and(|it| it <= due.at);
        if self.due(&message.key(), travel.turn).is_some_and(is_released) {
            return;
        }
        self.is_due(message.key(), travel.turn, at, now);
        if let Some(due) = self.due.get_mut(&(message.key(), travel.turn)) {
            due.bucket_since = None;
        }
    }

    pub fn is_parked(&mut self, message: &Message, travel: &Travel, bucket: WaitBucket, now: Timestamp) {
        let at = travel.not_before.map_or(now, |at| at.max(now));
        self.is_due(message.key(), travel.turn, at, now);
        let since = *self.buckets.entry(bucket).or_insert(now);
        if let Some(due) = self.due.get_mut(&(message.key(), travel.turn)) {
            due.bucket_since = Some(due.bucket_since.map_or(since, |other| other.min(since)));
        }
    }

    pub fn due(&self, key: &DeliveryKey, turn: Turn) -> Option<Due> {
        self.due.get(&(key.clone(), turn)).copied()
    }

    /// Forgets a delivery whose id is used again.
    pub fn forget(&mut self, key: &DeliveryKey) {
        self.due.retain(|(of, _), _| of != key);
    }
}
