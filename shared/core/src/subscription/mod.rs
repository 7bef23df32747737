//! Stored subscriptions: their state and health, consent and tags, and the guard against a provider's outage.
//!
//! One 410 switches a subscription off at once; a 404 only flags it, and a second one at least an hour later, with no success between,
//! confirms it. A subscription that is off is deleted only after a window in which the tenant's other endpoints are watched: where an
//! unusual share of them turned gone, all are put in quarantine instead. An error at a provider must not delete an audience.

pub mod consent;
pub mod document;
mod permit;
mod renewal;
pub mod replica;
pub mod same_endpoint;
pub mod suspicion;

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
use crate::zone::Zone;

pub use self::consent::Consent;
pub use self::document::Document;
pub use self::permit::Permit;
pub use self::renewal::{Decision, Renewal};
pub use self::same_endpoint::{Rival, SameEndpoint};
pub use self::suspicion::{Doubts, Suspects};

pub const NOT_FOUND_CONFIRMED_AFTER: Duration = Duration::from_secs(3600);

labels! {
    pub enum State {
        Active = "active",
        /// Its dead letters say that its endpoint does not work: verified by the next success. It is stored as active, and derived.
        Suspect = "suspect",
        /// Its endpoint is gone: nothing is sent, and it will be removed.
        Gone = "gone",
        /// Its endpoint went with an unusual number of others: nothing is sent, and an operator decides.
        Quarantined = "quarantined",
        /// A webhook's receiver that answered 410, or failed for days without one success: nothing is sent until it is enabled again.
        Disabled = "disabled",
        /// The browser said until when it holds, and that time is over: nothing is sent, and it will be removed.
        Expired = "expired",
        /// Its browser was not seen for too long: nothing is sent, and it will be removed.
        Stale = "stale",
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Subscription {
    pub key: SubscriptionKey,
    pub recipient: Recipient,
    pub state: State,
    /// When a 404 flagged it, if no success came since; of web push.
    pub flagged_at: Option<Timestamp>,
    /// What its dead letters say against it; of web push.
    pub doubts: Doubts,
    pub health: Health,
    pub terms: Terms,
    /// Of web push, where it is known.
    pub consent: Option<Consent>,
    /// Of web push.
    pub tags: Tags,
    /// Where its user is, if that is known: whose clock the hours of a message follow.
    pub time_zone: Option<Zone>,
    /// When the browser itself last submitted it; of web push.
    pub last_seen_at: Option<Timestamp>,
    /// When it was first stored; `None` where an earlier release stored it.
    pub created_at: Option<Timestamp>,
    /// When a browser or a server last submitted another endpoint for it; of web push.
    pub moved_at: Option<Timestamp>,
    /// When a sender last decided on it: when it set tags, or made the token with which the subscription began or got its tags. `None`
    /// where an earlier release stored it; of web push.
    pub authorized_at: Option<Timestamp>,
    /// From when on its browser does not hold it any more; of web push.
    pub ends_at: Option<Timestamp>,
    /// When it last got an endpoint that another subscription of the tenant had; of web push.
    pub took_over_at: Option<Timestamp>,
    /// When an operator confirmed of one in quarantine that it is gone; of web push.
    pub gone_confirmed_at: Option<Timestamp>,
    /// When an operator last enabled it with the endpoint that it has; `None` also where an earlier release did.
    pub enabled_at: Option<Timestamp>,
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
            doubts: Doubts::default(),
            health: Health::default(),
            terms: Terms::default(),
            consent: None,
            tags: Tags::default(),
            time_zone: None,
            last_seen_at: None,
            created_at: None,
            moved_at: None,
            authorized_at: None,
            ends_at: None,
            took_over_at: None,
            gone_confirmed_at: None,
            enabled_at: None,
        }
    }

    /// Its state, which time alone may have changed, or its dead letters.
    pub fn state_at(&self, now: Timestamp) -> State {
        if self.state != State::Active {
            self.state
        } else if self.ends_at.is_some_and(|ends_at| ends_at <= now) {
            State::Expired
        } else if self.doubts.suspect_at.is_some() {
            State::Suspect
        } else {
            State::Active
        }
    }

    /// Where a message with these headers of its own goes, or why it cannot be sent there.
    pub fn destination(&self, headers: &CustomHeaders, now: Timestamp) -> Result<&Recipient, Reason> {
        match self.state_at(now) {
            State::Active | State::Suspect if !headers.are_permitted(&self.terms.permitted) => {
                Err(Reason::HeaderNotPermitted)
            }
            // Whether a suspect one is held is the stack's to say.
            State::Active | State::Suspect => Ok(&self.recipient),
            State::Gone | State::Quarantined => Err(Reason::SubscriptionOff),
            State::Disabled => Err(Reason::EndpointDisabled),
            State::Expired => Err(Reason::SubscriptionExpired),
            State::Stale => Err(Reason::SubscriptionStale),
        }
    }

    /// Since when it has the endpoint that it has now; `None` where an earlier release stored it.
    pub fn endpoint_since(&self) -> Option<Timestamp> {
        self.moved_at.max(self.created_at)
    }

    /// Whether it took its endpoint over since a message to an audience was opened: that may have reached the endpoint already, as
    /// another subscription's.
    pub fn took_over_since(&self, opened_at: Timestamp) -> bool {
        self.took_over_at.is_some_and(|at| at >= opened_at)
    }

    /// When anything was last heard of it: its browser submitted it, or someone stored it. `None` where an earlier release stored it.
    pub fn last_heard_at(&self) -> Option<Timestamp> {
        self.last_seen_at.max(self.authorized_at).max(self.endpoint_since())
    }

    /// How time alone ends it, if it does: by what its browser said, or because it was not heard of for `stale_after`.
    pub fn ended_by_time(&self, stale_after: Option<Duration>, now: Timestamp) -> Option<State> {
        let is_stale = || {
            let heard_at = self.last_heard_at().filter(|_| matches!(self.recipient, Recipient::WebPush(_)));
            stale_after.zip(heard_at).is_some_and(|(after, at)| now.since(at) >= after)
        };
        match self.state_at(now) {
            ended @ (State::Expired | State::Stale) => Some(ended),
            State::Active | State::Suspect if is_stale() => Some(State::Stale),
            State::Active | State::Suspect | State::Gone | State::Quarantined | State::Disabled => None,
        }
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
    use crate::fixtures::{at, browser, subscription};

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
    fn a_subscription_ends_at_the_time_that_its_browser_named() {
        let recipient = Recipient::WebPush(browser("https://push.example/x"));
        let it = Subscription { ends_at: Some(at(100)), ..Subscription::new(subscription("s1"), recipient) };
        let headers = CustomHeaders::default();
        assert!(it.destination(&headers, at(99)).is_ok());
        assert_eq!(it.destination(&headers, at(100)), Err(Reason::SubscriptionExpired));
        assert_eq!((it.state_at(at(99)), it.state_at(at(100))), (State::Active, State::Expired));
        let gone = Subscription { state: State::Gone, ..it };
        assert_eq!(gone.destination(&headers, at(100)), Err(Reason::SubscriptionOff));
    }

    #[test]
    fn what_was_not_heard_of_for_too_long_is_stale() {
        let recipient = Recipient::WebPush(browser("https://push.example/x"));
        let new = Subscription::new(subscription("s1"), recipient);
        let day = Duration::from_secs(86_400);
        let after = |days: u64| Some(day.saturating_mul(u32::try_from(days).expect("few")));
        let now = at(10 * 86_400);
        let seen = Subscription { created_at: Some(at(0)), last_seen_at: Some(at(86_400)), ..new.clone() };
        for (it, stale_after, expected) in [
            (&seen, after(9), Some(State::Stale)),
            (&seen, after(10), None),
            (&seen, None, None),
            // An earlier release stored no time, so it is not known to be old.
            (&new, after(1), None),
            (&Subscription { state: State::Gone, ..seen.clone() }, after(1), None),
            (&Subscription { ends_at: Some(now), ..seen.clone() }, None, Some(State::Expired)),
            (&Subscription { state: State::Stale, ..seen.clone() }, None, Some(State::Stale)),
        ] {
            assert_eq!(it.ended_by_time(stale_after, now), expected, "{:?} {stale_after:?}", it.state);
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
