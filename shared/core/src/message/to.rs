//! Where a message goes: `to`, as the producer writes it.

use crate::audience::Audience;
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
}

impl To {
    pub const fn subscription(&self) -> Option<&SubscriptionId> {
        if let Self::Subscription(id) = self { Some(id) } else { None }
    }

    pub fn recipient(&self) -> Option<Recipient> {
        match self {
            Self::Subscription(_) | Self::Audience(_) => None,
            Self::WebPush(target) => Some(Recipient::WebPush(target.clone())),
            Self::Webhook(endpoint) => Some(Recipient::Webhook(WebhookTarget::at(endpoint.clone()))),
        }
    }

    pub(super) fn take(object: &mut Object<'_>) -> Option<Self> {
        const EXPECTED: &str = r#"one of {"subscription": ID}, {"web_push": {"endpoint", "keys"}}, {"webhook": {"url"}} and {"audience": {"tag"}}"#;
        let raw = object.raw("to");
        let Some(mut to) = object.object("to") else {
            if raw.is_none() {
                object.refuse("to", EXPECTED, None);
            }
            return None;
        };
        let kinds = ["subscription", "web_push", "webhook", "audience"];
        let present: Vec<&str> = kinds.into_iter().filter(|kind| to.raw(kind).is_some()).collect();
        let found = match present.as_slice() {
            ["subscription"] => {
                to.required("subscription", ID_FORM, text(SubscriptionId::parse)).map(To::Subscription)
            }
            ["web_push"] => to.object("web_push").and_then(push_target).map(To::WebPush),
            ["webhook"] => to.object("webhook").and_then(webhook_url).map(To::Webhook),
            ["audience"] => to.object("audience").and_then(audience).map(To::Audience),
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
