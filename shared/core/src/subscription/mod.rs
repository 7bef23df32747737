//! Stored subscriptions: their state and health, consent and tags, and the guard against a provider's outage.
//!
//! One 410 switches a subscription off at once; a 404 only flags it, and a second one at least an hour later, with no success between,
//! confirms it. A subscription that is off is deleted only after a window in which the tenant's other endpoints are watched: where an
//! unusual share of them turned gone, all are put in quarantine instead. An error at a provider must not delete an audience.

pub mod consent;
pub mod document;
mod permit;
mod renewal;

use std::sync::Arc;
use std::time::Duration;

use crate::delivery_options::EventType;
use crate::identity::SubscriptionKey;
use crate::label::labels;
use crate::policy::Policy;
use crate::rate::Rate;
use crate::reason::Reason;
use crate::recipient::Recipient;
use crate::tag::Tags;
use crate::time::Timestamp;
use crate::webhook::{CustomHeaders, Health, Permitted};

pub use self::consent::Consent;
pub use self::document::Document;
pub use self::permit::Permit;
pub use self::renewal::{Decision, Renewal};

pub const NOT_FOUND_CONFIRMED_AFTER: Duration = Duration::from_secs(3600);

labels! {
    pub enum State {
        Active = "active",
        /// Its endpoint is gone: nothing is sent, and it will be removed.
        Gone = "gone",
        /// Its endpoint went with an unusual number of others: nothing is sent, and an operator decides.
        Quarantined = "quarantined",
        /// A webhook's receiver that answered 410, or failed for days without one success: nothing is sent until it is enabled again.
        Disabled = "disabled",
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Subscription {
    pub key: SubscriptionKey,
    pub recipient: Recipient,
    pub state: State,
    /// When a 404 flagged it, if no success came since; of web push.
    pub flagged_at: Option<Timestamp>,
    pub health: Health,
    pub terms: Terms,
    /// Of web push, where it is known.
    pub consent: Option<Consent>,
    /// Of web push.
    pub tags: Tags,
    /// When the browser itself last submitted it; of web push.
    pub last_seen_at: Option<Timestamp>,
    /// When it was first stored; `None` where an earlier release stored it.
    pub created_at: Option<Timestamp>,
    /// When a browser or a server last submitted another endpoint for it; of web push.
    pub moved_at: Option<Timestamp>,
    /// When a sender last decided on it: when it set tags, or made the token with which the subscription began or got its tags. `None`
    /// where an earlier release stored it; of web push.
    pub authorized_at: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Terms {
    /// Its event type: chooses the tenant's policy for messages that have none.
    pub topic: Option<EventType>,
    pub policy: Option<Arc<Policy>>,
    pub permitted: Permitted,
    pub rate: Option<Rate>,
}

impl Subscription {
    pub fn new(key: SubscriptionKey, recipient: Recipient) -> Self {
        Self {
            key,
            recipient,
            state: State::Active,
            flagged_at: None,
            health: Health::default(),
            terms: Terms::default(),
            consent: None,
            tags: Tags::default(),
            last_seen_at: None,
            created_at: None,
            moved_at: None,
            authorized_at: None,
        }
    }

    /// Where a message with these headers of its own goes, or why it cannot be sent there.
    pub fn destination(&self, headers: &CustomHeaders) -> Result<&Recipient, Reason> {
        match self.state {
            State::Active if !headers.are_permitted(&self.terms.permitted) => Err(Reason::HeaderNotPermitted),
            State::Active => Ok(&self.recipient),
            State::Gone | State::Quarantined => Err(Reason::SubscriptionOff),
            State::Disabled => Err(Reason::EndpointDisabled),
        }
    }

    /// Since when it has the endpoint that it has now; `None` where an earlier release stored it.
    pub fn endpoint_since(&self) -> Option<Timestamp> {
        self.moved_at.max(self.created_at)
    }

    pub fn not_found(&self, seen: Timestamp) -> NotFound {
        match self.flagged_at {
            None => NotFound::Flag,
            Some(first) if seen.since(first) >= NOT_FOUND_CONFIRMED_AFTER => NotFound::Confirmed,
            Some(_) => NotFound::Wait,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotFound {
    Flag,
    Wait,
    Confirmed,
}

/// Keeps an error at a provider from deleting an audience.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SpikeGuard {
    /// The time in which endpoints that turn gone are counted together.
    pub window: Duration,
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
    /// Whether `gone` of a tenant's `all` subscriptions (with those that are gone) within a window are too many to delete any.
    pub fn is_unusual(&self, gone: u32, all: u64) -> bool {
        gone >= self.at_least && f64::from(gone) > self.share * all as f64
    }

    pub fn window_of(&self, at: Timestamp) -> i64 {
        at.as_secs() / i64::try_from(self.window.as_secs().max(1)).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{browser, subscription};

    #[test]
    fn a_404_is_confirmed_by_another_an_hour_later() {
        let recipient = Recipient::WebPush(browser("https://push.example/x"));
        let mut subscription = Subscription::new(subscription("s1"), recipient);
        let first = Timestamp::from_secs(1_000_000);
        assert_eq!(subscription.not_found(first), NotFound::Flag);
        subscription.flagged_at = Some(first);
        for (secs, expected) in [(3599, NotFound::Wait), (3600, NotFound::Confirmed)] {
            assert_eq!(subscription.not_found(first.plus(Duration::from_secs(secs))), expected);
        }
    }

    #[test]
    fn thirty_of_a_hundred_are_unusual_and_three_of_a_thousand_are_not() {
        let guard = SpikeGuard::default();
        for (gone, all, is_unusual) in
            [(30, 100, true), (3, 1000, false), (3, 3, false), (50, 1000, false), (51, 1000, true)]
        {
            assert_eq!(guard.is_unusual(gone, all), is_unusual, "{gone} of {all}");
        }
    }
}
