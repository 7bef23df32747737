//! What is remembered of messages to a tag: who bore the tag when, which runs were opened, and how far their parts went.

use std::collections::{BTreeMap, BTreeSet};

use redial_core::audience::{Audience, Progress, RunKey, shard_of};
use redial_core::identity::{DeliveryId, DeliveryKey, SubscriptionId, SubscriptionKey};
use redial_core::time::Timestamp;

/// A message to a tag, as a producer sent it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    pub at: Timestamp,
    pub content: u32,
    /// Not before this.
    pub from: Timestamp,
    /// Not after this.
    pub until: Timestamp,
    /// How many attempts each recipient's delivery may have.
    pub attempts: u32,
}

/// A part of a run, as it moved last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    pub progress: Progress,
    pub moved_at: Timestamp,
    /// The recipients of the last page, as it was sent last.
    pub page: u64,
    /// The same as its first worker recorded it, if those are more.
    pub recorded: u64,
    /// When as many recipients as its page has had first been sent a message.
    pub sent_at: Option<Timestamp>,
}

/// A run that was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Walk {
    pub message: DeliveryKey,
    /// The time of the claim that it follows from.
    pub opened_at: Timestamp,
    /// When it was stored: later, where workers failed in between.
    pub stored_at: Timestamp,
    pub audience: Audience,
    pub cancelled_at: Option<Timestamp>,
    pub parts: BTreeMap<u8, Part>,
    /// The parts whose first message was sent.
    pub begun: BTreeSet<u8>,
    /// Whom a message was sent to.
    pub handed_on: BTreeMap<SubscriptionId, HandedOn>,
}

/// A recipient that a message was sent to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandedOn {
    /// The recipient's delivery.
    pub delivery: DeliveryId,
    pub first: Timestamp,
    pub times: u32,
}

impl Walk {
    /// When a message was first sent to each of a part, of those after the one and up to the other.
    pub fn handed_on_between(
        &self,
        shard: u8,
        after: Option<&SubscriptionId>,
        to: Option<&SubscriptionId>,
    ) -> Vec<Timestamp> {
        let is_between = |id: &&SubscriptionId| {
            shard_of(id) == shard && after.is_none_or(|after| *id > after) && to.is_none_or(|to| *id <= to)
        };
        self.handed_on.iter().filter(|(id, _)| is_between(id)).map(|(_, it)| it.first).collect()
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Audiences {
    /// When each subscription got the tag or lost it.
    bearing: BTreeMap<SubscriptionKey, Vec<(Timestamp, bool)>>,
    pub sent: BTreeMap<DeliveryKey, Vec<Sent>>,
    pub walks: BTreeMap<RunKey, Walk>,
    /// How many subscriptions there were at the last look.
    pub subscriptions: usize,
}

impl Audiences {
    /// Notes whether a subscription bears the tag from now on. Answers whether that is a change.
    pub fn bears(&mut self, key: &SubscriptionKey, now: Timestamp, bears: bool) -> bool {
        let past = self.bearing.entry(key.clone()).or_default();
        let is_change = past.last().map_or(bears, |(_, before)| *before != bears);
        if is_change {
            past.push((now, bears));
        }
        is_change
    }

    fn past(&self, key: &SubscriptionKey) -> &[(Timestamp, bool)] {
        self.bearing.get(key).map_or(&[], Vec::as_slice)
    }

    pub fn bore_at(&self, key: &SubscriptionKey, at: Timestamp) -> bool {
        self.past(key).iter().rev().find(|(from, _)| *from <= at).is_some_and(|(_, bears)| *bears)
    }

    pub fn bore_throughout(&self, key: &SubscriptionKey, from: Timestamp, until: Timestamp) -> bool {
        let loses = |(at, bears): &(Timestamp, bool)| !bears && from < *at && *at <= until;
        self.bore_at(key, from) && !self.past(key).iter().any(loses)
    }

    pub fn bore_some_time(&self, key: &SubscriptionKey, from: Timestamp, until: Timestamp) -> bool {
        let gets = |(at, bears): &(Timestamp, bool)| *bears && from < *at && *at <= until;
        self.bore_at(key, from) || self.past(key).iter().any(gets)
    }

    /// Those that ever bore the tag.
    pub fn bearers(&self) -> impl Iterator<Item = &SubscriptionKey> {
        self.bearing.keys()
    }
}
