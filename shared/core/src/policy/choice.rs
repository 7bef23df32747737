//! Which policy holds for a message, and why: the most particular one that there is.
//!
//! In this order: the message's own `retry`, its subscription's, the tenant's for its event type, the tenant's, the
//! channel's, the class's. A message without an event type has its subscription's topic.

use std::sync::Arc;

use super::{Policy, TenantPolicies, catalogue};
use crate::channel::Channel;
use crate::message::{EventType, Message};
use crate::subscription::Terms;

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
    /// Its subscription's own.
    Subscription,
    /// The tenant's, for this message's event type.
    Topic,
    /// The tenant's, for all of its messages.
    Tenant,
    /// What its channel has for all messages.
    Channel,
    /// The message's class.
    Class,
}

impl Source {
    /// All of them, in the order in which they are asked.
    pub const ALL: [Self; 6] =
        [Self::Message, Self::Subscription, Self::Topic, Self::Tenant, Self::Channel, Self::Class];

    /// Its name in logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Subscription => "subscription",
            Self::Topic => "topic",
            Self::Tenant => "tenant",
            Self::Channel => "channel",
            Self::Class => "class",
        }
    }
}

/// The name of the policy that webhooks have unless anything else is chosen.
const WEBHOOKS: &str = "schedule-standard";

/// All that decides on a policy.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The message.
    pub message: &'a Message,
    /// The channel that it goes through.
    pub channel: Channel,
    /// What was agreed with its subscription's receiver.
    pub terms: &'a Terms,
    /// What its tenant has stored.
    pub stored: &'a TenantPolicies,
}

impl<'a> Circumstances<'a> {
    /// The event type that a tenant's policies are chosen by.
    pub fn topic(&self) -> Option<&'a EventType> {
        self.message.event_type.as_ref().or(self.terms.topic.as_ref())
    }

    /// The policy that one source has, if it has one.
    pub fn of(&self, source: Source) -> Option<Arc<Policy>> {
        let packaged = catalogue::packaged();
        match source {
            Source::Message => self.message.retry.clone(),
            Source::Subscription => self.terms.policy.clone(),
            Source::Topic => self.topic().and_then(|topic| self.stored.of_topic(topic)).cloned(),
            Source::Tenant => self.stored.of_tenant().cloned(),
            Source::Channel => match self.channel {
                Channel::WebPush => None,
                Channel::Webhook => packaged.get(WEBHOOKS).cloned(),
            },
            Source::Class => Some(packaged.of_class(self.message.class).clone()),
        }
    }

    /// The policy that holds.
    pub fn choose(&self) -> Chosen {
        let found = Source::ALL
            .into_iter()
            .find_map(|source| self.of(source).map(|policy| Chosen { policy, source }));
        found.expect("every class has a policy")
    }
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
            Inbound::Release(_) | Inbound::Expand(_) | Inbound::Recipient(..) => panic!("a message"),
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
        on(Channel::WebPush, rest, &Terms::default(), stored)
    }

    fn on(channel: Channel, rest: &str, terms: &Terms, stored: &TenantPolicies) -> (Source, String) {
        let message = message(rest);
        let Chosen { policy, source } = Circumstances { message: &message, channel, terms, stored }.choose();
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

    #[test]
    fn a_webhook_has_its_channel_s_and_a_subscription_its_own() {
        let webhook =
            |rest: &str, terms: &Terms, stored: &TenantPolicies| on(Channel::Webhook, rest, terms, stored);
        let none = TenantPolicies::default();
        let plain = Terms::default();
        assert_eq!(
            webhook(r#","class":"otp""#, &plain, &none),
            (Source::Channel, "schedule-standard".to_owned())
        );
        assert_eq!(webhook("", &plain, &stored()), (Source::Tenant, "tenant".to_owned()));

        let topic = Terms { topic: EventType::parse("order.created"), ..Terms::default() };
        assert_eq!(webhook("", &topic, &stored()), (Source::Topic, "topic order.created".to_owned()));
        let own_type = r#","event_type":"order.paid""#;
        assert_eq!(webhook(own_type, &topic, &stored()), (Source::Tenant, "tenant".to_owned()));

        let policy = catalogue::presets().get("wait-factor").cloned();
        let agreed = Terms { policy, ..topic };
        assert_eq!(webhook("", &agreed, &stored()), (Source::Subscription, "wait-factor".to_owned()));
        assert_eq!(webhook(r#","retry":"none""#, &agreed, &stored()), (Source::Message, "none".to_owned()));
    }
}
