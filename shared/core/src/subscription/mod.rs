//! Stored subscriptions: their state and health, consent and tags, and the guard against a provider's outage.
//!
//! One 410 switches a subscription off at once; a 404 only flags it, and a second one at least an hour later, with no
//! success between, confirms it. A subscription that is off is deleted only after a window in which the tenant's other
//! endpoints are watched: where an unusual share of them turned gone, all are put in quarantine instead. An error at a
//! provider must not delete an audience.
//!
//! | file | concept |
//! |---|---|
//! | `consent` | what its user agreed to |
//! | `document` | a browser's subscription as it is submitted |
//! | `renewal` | what submitting it does to the stored one |
//! | `spike_guard` | how many may turn gone together before nothing is deleted |

pub mod consent;
pub mod document;
mod renewal;
mod spike_guard;

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
pub use self::renewal::{Decision, Renewal};
pub use self::spike_guard::SpikeGuard;

/// How far apart two 404s must lie to confirm each other.
pub const NOT_FOUND_CONFIRMED_AFTER: Duration = Duration::from_secs(3600);

labels! {
    pub enum State {
        Active = "active",
        /// Its endpoint is gone: nothing is sent, and it will be removed.
        Gone = "gone",
        /// Its endpoint went with an unusual number of others: nothing is sent, and an operator decides.
        Quarantined = "quarantined",
        /// A webhook's receiver that answered 410, or failed for days without one success: nothing is sent until it is
        /// enabled again.
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
    /// Its receiver's recent answers; of webhooks.
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
}

/// The settings of a webhook's subscription.
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
        assert_eq!(subscription.not_found(first.plus(Duration::from_secs(3599))), NotFound::Wait);
        assert_eq!(subscription.not_found(first.plus(Duration::from_secs(3600))), NotFound::Confirmed);
    }
}
