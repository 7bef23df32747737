//! Where a message goes: `to`, as the producer writes it.

use crate::audience::Audience;
use crate::channel::Channel;
use crate::endpoint::Endpoint;
use crate::identity::{ID_FORM, SubscriptionId};
use crate::push_target::{PushFields, PushTarget};
use crate::rate::Rate;
use crate::recipient::Recipient;
use crate::shape::{self, Object, text};
use crate::tag::Tag;
use crate::webhook::WebhookTarget;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum To {
    Subscription(SubscriptionId),
    /// A browser's subscription that came with the message.
    WebPush(PushTarget),
    Webhook(Endpoint),
    Audience(Audience),
    /// The stored webhook that an event of its tenant is posted to. Redial alone writes it.
    Callback(SubscriptionId),
}

impl To {
    pub const fn subscription(&self) -> Option<&SubscriptionId> {
        if let Self::Subscription(id) | Self::Callback(id) = self { Some(id) } else { None }
    }

    /// `None` where a stored subscription decides.
    pub const fn channel(&self) -> Option<Channel> {
        match self {
            Self::Subscription(_) => None,
            Self::WebPush(_) | Self::Audience(_) => Some(Channel::WebPush),
            Self::Webhook(_) | Self::Callback(_) => Some(Channel::Webhook),
        }
    }

    pub fn recipient(&self) -> Option<Recipient> {
        match self {
            Self::Subscription(_) | Self::Audience(_) | Self::Callback(_) => None,
            Self::WebPush(target) => Some(Recipient::WebPush(target.clone())),
            Self::Webhook(endpoint) => Some(Recipient::Webhook(WebhookTarget::at(endpoint.clone()))),
        }
    }

    /// `is_internal`: whether it comes from a queue where producers do not write.
    pub(super) fn take(object: &mut Object<'_>, is_internal: bool) -> Option<Self> {
        const EXPECTED: &str = r#"one of {"subscription": ID}, {"web_push": {"endpoint", "keys"}}, {"webhook": {"url"}} and {"audience": {"tag"}}"#;
        let raw = object.raw("to");
        let Some(mut to) = object.object("to") else {
            if raw.is_none() {
                object.refuse("to", EXPECTED, None);
            }
            return None;
        };
        let kinds = ["subscription", "web_push", "webhook", "audience"];
        let kinds = kinds.into_iter().chain(is_internal.then_some("callback"));
        let present: Vec<&str> = kinds.filter(|kind| to.raw(kind).is_some()).collect();
        let found = match present.as_slice() {
            ["subscription"] => {
                to.required("subscription", ID_FORM, text(SubscriptionId::parse)).map(To::Subscription)
            }
            ["web_push"] => to.object("web_push").and_then(push_target).map(To::WebPush),
            ["webhook"] => to.object("webhook").and_then(webhook_url).map(To::Webhook),
            ["audience"] => to.object("audience").and_then(audience).map(To::Audience),
            ["callback"] => to.required("callback", ID_FORM, text(SubscriptionId::parse)).map(To::Callback),
            _ => {
                object.refuse("to", EXPECTED, raw);
                None
            }
        };
        to.finish();
        found
    }
}

fn audience(mut object: Object<'_>) -> Option<Audience> {
    let tag = object.required("tag", Tag::FORM, text(Tag::parse));
    let rate = object.optional("rate", "a rate such as \"500/s\", \"120/min\" or \"90/h\"", |raw| {
        Rate::parse(&shape::string(raw)?).ok()
    });
    object.finish();
    Some(Audience { tag: tag?, rate })
}

fn webhook_url(mut object: Object<'_>) -> Option<Endpoint> {
    let an_url = "an https URL without userinfo, at most 2048 bytes";
    let url = object.required("url", an_url, |raw| Endpoint::parse(&shape::string(raw)?).ok());
    object.finish();
    url
}

fn push_target(mut object: Object<'_>) -> Option<PushTarget> {
    let fields = PushFields::take(&mut object);
    object.finish();
    fields.target()
}
