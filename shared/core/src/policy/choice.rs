//! Which policy a message has: the most specific one that exists.
//!
//! In this order: the message's own `retry`, its subscription's, the tenant's for its event type, the tenant's, the
//! channel's, the class's. A message without an event type has its subscription's topic.

use std::sync::Arc;

use super::{Policy, TenantPolicies, catalogue};
use crate::channel::Channel;
use crate::delivery_options::{Class, EventType};
use crate::label::labels;

#[derive(Clone, PartialEq, Debug)]
pub struct Chosen {
    pub policy: Arc<Policy>,
    pub source: Source,
}

labels! {
    /// Where a message's policy comes from, the most specific first.
    pub enum Source {
        Message = "message",
        Subscription = "subscription",
        /// The tenant's, for this message's event type.
        Topic = "topic",
        Tenant = "tenant",
        Channel = "channel",
        Class = "class",
    }
}

/// The policy of webhooks where no more specific one exists.
const WEBHOOKS: &str = "schedule-standard";

#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    pub own: Option<&'a Arc<Policy>>,
    pub subscription: Option<&'a Arc<Policy>>,
    pub topic: Option<&'a EventType>,
    pub stored: &'a TenantPolicies,
    pub channel: Channel,
    pub class: Class,
}

impl Circumstances<'_> {
    pub fn of(&self, source: Source) -> Option<Arc<Policy>> {
        let packaged = catalogue::packaged();
        let policy = match source {
            Source::Message => self.own,
            Source::Subscription => self.subscription,
            Source::Topic => self.topic.and_then(|topic| self.stored.of_topic(topic)),
            Source::Tenant => self.stored.of_tenant(),
            Source::Channel => match self.channel {
                Channel::WebPush => None,
                Channel::Webhook => packaged.get(WEBHOOKS),
            },
            Source::Class => Some(packaged.of_class(self.class)),
        };
        policy.cloned()
    }

    pub fn choose(&self) -> Chosen {
        let found =
            Source::ALL.into_iter().find_map(|source| Some(Chosen { policy: self.of(source)?, source }));
        found.expect("invariant: every class has a policy")
    }
}

#[cfg(test)]
mod tests {
    use super::super::stored::{Slot, Stored};
    use super::*;
    use crate::fixtures::message;
    use crate::subscription::Terms;

    #[test]
    fn the_most_specific_policy_is_chosen() {
        let slot = |slot, text: &str| Stored { slot, policy: text.to_owned(), last_good: None };
        let topic_slot = Slot::Topic("order.created".to_owned());
        let stored =
            vec![slot(Slot::Tenant, r#"{"max_retries": 1}"#), slot(topic_slot, r#"{"max_retries": 2}"#)];
        let (stored, ignored) = TenantPolicies::read(stored, &TenantPolicies::default());
        assert!(ignored.is_empty());
        let none = TenantPolicies::default();
        let plain = Terms::default();
        let topic = Terms { topic: EventType::parse("order.created"), ..Terms::default() };
        let policy = catalogue::presets().get("wait-factor").cloned();
        let with_policy = Terms { policy, ..topic.clone() };
        let (push, hook) = (Channel::WebPush, Channel::Webhook);
        let created = r#","event_type":"order.created","class":"campaign""#;
        let own = r#","retry":"otp","event_type":"order.created""#;
        let paid = r#","event_type":"order.paid""#;
        for (channel, rest, terms, stored, source, name) in [
            (push, own, &plain, &stored, Source::Message, "otp"),
            (push, created, &plain, &stored, Source::Topic, "topic order.created"),
            (push, paid, &plain, &stored, Source::Tenant, "tenant"),
            (push, "", &plain, &stored, Source::Tenant, "tenant"),
            (push, r#","class":"otp""#, &plain, &none, Source::Class, "otp"),
            (push, "", &plain, &none, Source::Class, "web-push"),
            (hook, r#","class":"otp""#, &plain, &none, Source::Channel, "schedule-standard"),
            (hook, "", &plain, &stored, Source::Tenant, "tenant"),
            (hook, "", &topic, &stored, Source::Topic, "topic order.created"),
            (hook, paid, &topic, &stored, Source::Tenant, "tenant"),
            (hook, "", &with_policy, &stored, Source::Subscription, "wait-factor"),
            (hook, r#","retry":"none""#, &with_policy, &stored, Source::Message, "none"),
        ] {
            let chosen = message(rest).circumstances(channel, terms, stored).choose();
            assert_eq!((chosen.source, chosen.policy.name.as_str()), (source, name), "{channel}: {rest}");
        }
    }
}
