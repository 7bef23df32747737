//! Which policy holds for a message, and why: the most particular one that there is.
//!
//! In this order: the message's own `retry`, the tenant's policy for its event type, the tenant's policy, the class's.

use std::sync::Arc;

use super::{Policy, TenantPolicies, catalogue};
use crate::message::Message;

/// A policy, and where it comes from.
#[derive(Clone, PartialEq, Debug)]
pub struct Chosen {
    /// The policy.
    pub policy: Arc<Policy>,
    /// Where it comes from.
    pub source: Source,
}

/// Where a message's policy comes from, the most particular first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Source {
    /// The message's own `retry`.
    Message,
    /// The tenant's, for this message's event type.
    Topic,
    /// The tenant's, for all of its messages.
    Tenant,
    /// The message's class.
    Class,
}

impl Source {
    /// All of them, in the order in which they are asked.
    pub const ALL: [Self; 4] = [Self::Message, Self::Topic, Self::Tenant, Self::Class];

    /// Its name in logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Topic => "topic",
            Self::Tenant => "tenant",
            Self::Class => "class",
        }
    }
}

/// The policy that one source has for `message`, if it has one.
pub fn of_source(source: Source, message: &Message, stored: &TenantPolicies) -> Option<Arc<Policy>> {
    match source {
        Source::Message => message.retry.clone(),
        Source::Topic => message.event_type.as_ref().and_then(|topic| stored.of_topic(topic)).cloned(),
        Source::Tenant => stored.of_tenant().cloned(),
        Source::Class => Some(catalogue::packaged().of_class(message.class).clone()),
    }
}

/// The policy that holds for `message`, whose tenant has these.
pub fn choose(message: &Message, stored: &TenantPolicies) -> Chosen {
    let found = Source::ALL
        .into_iter()
        .find_map(|source| of_source(source, message, stored).map(|policy| Chosen { policy, source }));
    found.expect("every class has a policy")
}

#[cfg(test)]
mod tests {
    use super::super::stored::{Slot, Stored};
    use super::*;
    use crate::message::{Inbound, QueueKind, parse};
    use crate::time::Timestamp;

    fn message(rest: &str) -> Message {
        let body = format!(r#"{{"tenant":"acme","to":{{"subscription":"s1"}}{rest}}}"#);
        match parse(&body, QueueKind::Ingest, "m-1", Timestamp::from_secs(1)).expect("valid") {
            Inbound::Message(message, _) => *message,
            Inbound::Release(_) => panic!("a message"),
        }
    }

    fn stored() -> TenantPolicies {
        let slot = |slot, text: &str| Stored { slot, policy: text.to_owned(), last_good: None };
        let (stored, ignored) = TenantPolicies::read(
            vec![
                slot(Slot::Tenant, r#"{"max_retries": 1}"#),
                slot(Slot::Topic("order.created".to_owned()), r#"{"max_retries": 2}"#),
            ],
            &TenantPolicies::default(),
        );
        assert!(ignored.is_empty());
        stored
    }

    fn chosen(rest: &str, stored: &TenantPolicies) -> (Source, String) {
        let Chosen { policy, source } = choose(&message(rest), stored);
        (source, policy.name.clone())
    }

    #[test]
    fn the_most_particular_policy_holds() {
        let stored = stored();
        let own = r#","retry":"otp","event_type":"order.created""#;
        assert_eq!(chosen(own, &stored), (Source::Message, "otp".to_owned()));
        let topic = r#","event_type":"order.created","class":"campaign""#;
        assert_eq!(chosen(topic, &stored), (Source::Topic, "topic order.created".to_owned()));
        let other = r#","event_type":"order.paid""#;
        assert_eq!(chosen(other, &stored), (Source::Tenant, "tenant".to_owned()));
        assert_eq!(chosen("", &stored), (Source::Tenant, "tenant".to_owned()));
        let none = TenantPolicies::default();
        assert_eq!(chosen(r#","class":"otp""#, &none), (Source::Class, "otp".to_owned()));
        assert_eq!(chosen("", &none), (Source::Class, "web-push".to_owned()));
    }
}
