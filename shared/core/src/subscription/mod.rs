//! Stored subscriptions: their states, their health, consent and tags, and the guard against a provider's bad day.
//!
//! One 410 switches a subscription off at once; a 404 only flags it, and a second one at least an hour later, with no
//! success between, confirms it. A subscription that is off is deleted only after a window in which the tenant's other
//! endpoints are watched: where an unusual share of them turned gone, all are put in quarantine instead. One bad day at a
//! provider must not delete an audience.
//!
//! | file | concept |
//! |---|---|
//! | `state` | whether it is sent to |
//! | `consent` | what its user agreed to |
//! | `tag` | what audiences are made by |
//! | `document` | a browser's subscription as it is handed in |
//! | `renewal` | what handing it in does to the one that is stored |
//! | `spike_guard` | when so many are gone that none may be deleted |

pub mod consent;
pub mod document;
mod renewal;
mod spike_guard;
mod state;
mod tag;

use std::sync::Arc;
use std::time::Duration;

use crate::identity::SubscriptionKey;
use crate::message::EventType;
use crate::policy::Policy;
use crate::rate::Rate;
use crate::reason::Reason;
use crate::recipient::Recipient;
use crate::time::Timestamp;
use crate::webhook::{CustomHeaders, Health, Permitted};

pub use self::consent::Consent;
pub use self::document::Document;
pub use self::renewal::{Decision, Renewal};
pub use self::spike_guard::SpikeGuard;
pub use self::state::State;
pub use self::tag::{Tag, Tags, TagsError};

/// How far apart two 404s must lie to confirm each other.
pub const NOT_FOUND_CONFIRMED_AFTER: Duration = Duration::from_secs(3600);

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
    /// What its user agreed to, where that is known; of web push.
    pub consent: Option<Consent>,
    /// The audiences that it belongs to; of web push.
    pub tags: Tags,
    /// When the browser last handed it in itself; of web push.
    pub last_seen_at: Option<Timestamp>,
    /// When it was first stored; `None` where an earlier release stored it.
    pub created_at: Option<Timestamp>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push_target::PushTarget;

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
