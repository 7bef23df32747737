//! Erasing a person: what must not be stored again once it was erased.
//!
//! Tables are searched and cleared, but messages on queues cannot be searched. So an erasure leaves a mark of its subject, for as long as a
//! message from before may still come up. A message to an erased subscription is dropped when it does. One with an erased `ref` may still be
//! sent, because no success costs a read for this; but nothing of it is stored: not for a wait, and not as a dead letter.
//!
//! The order is what keeps the promise: the mark first, then a pause as long as the longest invocation, and then the search. What a worker
//! that has not seen the mark may write is written before the search begins.
//!
//! | file | concept |
//! |---|---|
//! | `person` | whom a search is about, and whether something is about them |
//! | `search` | what is found, where, and how far a search has come |
//! | `request` | an erasure that a tenant has requested, until it is done |

mod person;
mod request;
mod search;

pub use self::person::Person;
pub use self::request::{Erasure, ErasureId, ErasureState, MOST_PENDING, requested_at};
pub use self::search::{At, Counts, Kind, LONGEST_INVOCATION, Place, Searched, search_from};

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::dead_letter::Reference;
use crate::identity::{SubscriptionId, SubscriptionKey, Tenant, hashed};
use crate::message::{Message, ProducerRef, To};

/// How long the mark of a `ref` is kept. A queue keeps a message for ten days and the quarantine for 14 more.
pub const MARK_KEPT: Duration = Duration::from_secs(30 * 86_400);

/// Whom an erasure is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Marked by the tombstone of the subscription.
    Subscription(SubscriptionKey),
    /// Marked by a digest.
    Ref(Tenant, ProducerRef),
}

/// Without what it says: a `ref` is never logged.
impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subject(redacted)")
    }
}

impl Subject {
    /// Those of a message. A message to an audience is about no one person.
    pub fn of(message: &Message) -> impl Iterator<Item = Self> {
        let subscription = message.to.subscription().cloned();
        let subscription = subscription.map(|id| Self::subscription(&message.tenant, id));
        subscription.into_iter().chain(Self::within(message))
    }

    fn subscription(tenant: &Tenant, id: SubscriptionId) -> Self {
        Self::Subscription(SubscriptionKey { tenant: tenant.clone(), id })
    }

    /// The subscription that a dead letter's reference is about.
    pub fn of_reference(reference: &Reference) -> Option<Self> {
        let tenant = Tenant::parse(&reference.tenant)?;
        let id = SubscriptionId::parse(reference.subscription.as_deref()?)?;
        Some(Self::Subscription(SubscriptionKey { tenant, id }))
    }

    /// Those that a message holds beside whom it goes to: its `ref`, and of a callback whom its event is about.
    pub fn within(message: &Message) -> Vec<Self> {
        let is_one_s = !matches!(message.to, To::Audience(_)) && !message.is_for_a_recipient();
        let own = message.producer_ref.clone().filter(|_| is_one_s);
        let event = match &message.to {
            To::Callback(_) => serde_json::from_slice::<Value>(message.payload.expose()).ok(),
            To::Subscription(_) | To::WebPush(_) | To::Webhook(_) | To::Audience(_) => None,
        };
        let field = |name: &str| event.as_ref().and_then(|event| event[name].as_str());
        let subscription = field("subscription").and_then(SubscriptionId::parse);
        let refs = own.into_iter().chain(field("ref").and_then(ProducerRef::parse));
        let refs = refs.map(|text| Self::Ref(message.tenant.clone(), text));
        let of_event = subscription.map(|id| Self::subscription(&message.tenant, id));
        refs.chain(of_event).collect()
    }
}

/// What stands for a `ref` in its mark: a digest, from which it cannot be read.
pub fn mark_of(tenant: &Tenant, producer_ref: &ProducerRef) -> String {
    hashed(&format!("erased\0{tenant}\0{}", producer_ref.expose()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{subscription, tenant};

    #[test]
    fn a_mark_says_nothing_and_differs_by_tenant() {
        let text = ProducerRef::parse("order 17").expect("valid");
        let other = Tenant::parse("other").expect("valid");
        let mark = mark_of(&tenant(), &text);
        assert_eq!(mark, mark_of(&tenant(), &text));
        assert_ne!(mark, mark_of(&other, &text));
        assert!(!mark.contains("17"));
        let subjects = [Subject::Ref(tenant(), text), Subject::Subscription(subscription("s3cret"))];
        assert_eq!(format!("{subjects:?}"), "[Subject(redacted), Subject(redacted)]");
    }
}
