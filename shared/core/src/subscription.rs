//! Stored subscriptions: their states, their health, and the guard against a provider's bad day.
//!
//! One 410 switches a subscription off at once; a 404 only flags it, and a second one at least an hour later, with no
//! success between, confirms it. A subscription that is off is deleted only after a window in which the tenant's other
//! endpoints are watched: where an unusual share of them turned gone, all are put in quarantine instead. One bad day at a
//! provider must not delete an audience.

use std::sync::Arc;
use std::time::Duration;

use crate::identity::SubscriptionKey;
use crate::message::EventType;
use crate::policy::Policy;
use crate::rate::Rate;
use crate::recipient::Recipient;
use crate::time::Timestamp;
use crate::webhook::{Health, Permitted};

/// How far apart two 404s must lie to confirm each other.
pub const NOT_FOUND_CONFIRMED_AFTER: Duration = Duration::from_secs(3600);

/// A subscription's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum State {
    /// Messages are sent to it.
    Active,
    /// Its endpoint is gone: nothing is sent, and it is about to be removed.
    Gone,
    /// Its endpoint went with an unusual number of others: nothing is sent, and an operator decides.
    Quarantined,
    /// A webhook's receiver that answered 410, or failed for days without one success: nothing is sent until it is
    /// enabled again.
    Disabled,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Active, Self::Gone, Self::Quarantined, Self::Disabled];

    /// Its name in the table and on the command line.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Gone => "gone",
            Self::Quarantined => "quarantined",
            Self::Disabled => "disabled",
        }
    }

    /// The state of that name.
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.label() == label)
    }
}

/// A stored subscription.
#[derive(Clone, PartialEq, Debug)]
pub struct Subscription {
    /// Whose, and which.
    pub key: SubscriptionKey,
    /// Whom it leads to.
    pub recipient: Recipient,
    /// Whether it is sent to.
    pub state: State,
    /// When a 404 flagged it, if no success came since; of web push.
    pub flagged_at: Option<Timestamp>,
    /// How its receiver has answered of late; of webhooks.
    pub health: Health,
    /// What was agreed with its receiver; of webhooks.
    pub terms: Terms,
}

/// What was agreed with a webhook's receiver.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Terms {
    /// The event type that it is for: chooses the tenant's policy for messages that name none.
    pub topic: Option<EventType>,
    /// A retry policy of its own.
    pub policy: Option<Arc<Policy>>,
    /// Headers that its messages may set beside the free ones.
    pub permitted: Permitted,
    /// No more attempts than this.
    pub rate: Option<Rate>,
}

impl Subscription {
    /// An active one that leads there, and of which nothing else is known.
    pub fn new(key: SubscriptionKey, recipient: Recipient) -> Self {
        Self {
            key,
            recipient,
            state: State::Active,
            flagged_at: None,
            health: Health::default(),
            terms: Terms::default(),
        }
    }
}

/// What a 404 does to a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotFound {
    /// The first: flag it.
    Flag,
    /// One more, too soon to tell.
    Wait,
    /// Confirmed: it is gone.
    Confirmed,
}

impl Subscription {
    /// Judges a 404 that was seen at `seen`.
    pub fn not_found(&self, seen: Timestamp) -> NotFound {
        match self.flagged_at {
            None => NotFound::Flag,
            Some(first) if seen.since(first) >= NOT_FOUND_CONFIRMED_AFTER => NotFound::Confirmed,
            Some(_) => NotFound::Wait,
        }
    }
}

/// The guard that keeps a provider's bad day from deleting an audience.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SpikeGuard {
    /// The time in which endpoints that turn gone are counted together.
    pub window: Duration,
    /// So many are never unusual.
    pub at_least: u32,
    /// The share of a tenant's subscriptions, 0 to 1, that is unusual.
    pub share: f64,
}

impl Default for SpikeGuard {
    /// Five minutes; more than 5 % and at least 10. A push service loses about 0.1 % of its endpoints a day.
    fn default() -> Self {
        Self { window: Duration::from_secs(300), at_least: 10, share: 0.05 }
    }
}

impl SpikeGuard {
    /// Whether `gone` of a tenant's `all` subscriptions within a window are so many that nothing may be deleted.
    /// `all` counts those that are gone, too.
    pub fn is_unusual(&self, gone: u32, all: u64) -> bool {
        gone >= self.at_least && f64::from(gone) > self.share * all as f64
    }

    /// The number of the window that `at` lies in.
    pub fn window_of(&self, at: Timestamp) -> i64 {
        at.as_secs() / i64::try_from(self.window.as_secs().max(1)).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push_target::PushTarget;

    #[test]
    fn thirty_of_a_hundred_are_unusual_and_three_of_a_thousand_are_not() {
        let guard = SpikeGuard::default();
        assert!(guard.is_unusual(30, 100));
        assert!(!guard.is_unusual(3, 1000));
        assert!(!guard.is_unusual(3, 3), "a handful is never unusual");
        assert!(!guard.is_unusual(50, 1000), "5 % is the most that is usual");
        assert!(guard.is_unusual(51, 1000));
    }

    #[test]
    fn a_404_is_confirmed_by_another_an_hour_later() {
        let key = SubscriptionKey {
            tenant: crate::identity::Tenant::parse("acme").expect("valid"),
            id: crate::identity::SubscriptionId::parse("s1").expect("valid"),
        };
        let target = PushTarget {
            endpoint: crate::endpoint::Endpoint::parse("https://push.example/x").expect("valid"),
            keys: crate::push_target::PushKeys::parse(
                "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
                "BTBZMqHH6r4Tts7J_aSIgg",
            )
            .expect("valid"),
            vapid_key_id: None,
        };
        let mut subscription = Subscription::new(key, Recipient::WebPush(target));
        let first = Timestamp::from_secs(1_000_000);
        assert_eq!(subscription.not_found(first), NotFound::Flag);
        subscription.flagged_at = Some(first);
        assert_eq!(subscription.not_found(first.plus(Duration::from_secs(3599))), NotFound::Wait);
        assert_eq!(subscription.not_found(first.plus(Duration::from_secs(3600))), NotFound::Confirmed);
    }
}
