//! Who is to get a message: as it names them, and as it is read.

use super::parse::text;
use crate::audience::Audience;
use crate::endpoint::Endpoint;
use crate::identity::{SubscriptionId, VapidKeyId};
use crate::push_target::{PushKeys, PushKeysError, PushTarget};
use crate::rate::Rate;
use crate::recipient::Recipient;
use crate::shape::{self, Errors, Object};
use crate::subscription::Tag;
use crate::webhook::WebhookTarget;

/// Who is to get a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum To {
    /// A subscription stored under this id.
    Subscription(SubscriptionId),
    /// A browser's subscription that came with the message.
    WebPush(PushTarget),
    /// An address that came with the message.
    Webhook(Endpoint),
    /// All of the tenant's subscriptions that bear a tag.
    Audience(Audience),
}

impl To {
    /// The subscription that it names.
    pub const fn subscription(&self) -> Option<&SubscriptionId> {
        match self {
            Self::Subscription(id) => Some(id),
            Self::WebPush(_) | Self::Webhook(_) | Self::Audience(_) => None,
        }
    }

    /// Who it is, where the message says so itself.
    pub fn recipient(&self) -> Option<Recipient> {
        match self {
            Self::Subscription(_) | Self::Audience(_) => None,
            Self::WebPush(target) => Some(Recipient::WebPush(target.clone())),
            Self::Webhook(endpoint) => Some(Recipient::Webhook(WebhookTarget::at(endpoint.clone()))),
        }
    }

    /// Takes `to` out of a message.
    pub(super) fn take(object: &mut Object<'_>, errors: &Errors) -> Option<Self> {
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
                let an_id = "^[A-Za-z0-9_-]{1,64}$";
                to.required("subscription", an_id, text(SubscriptionId::parse)).map(To::Subscription)
            }
            ["web_push"] => {
                to.object("web_push").and_then(|inner| push_target(inner, errors)).map(To::WebPush)
            }
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

fn push_target(mut object: Object<'_>, errors: &Errors) -> Option<PushTarget> {
    let fields = PushFields::take(&mut object, errors);
    object.finish();
    fields.target()
}

/// What a browser's subscription is made of, as far as it is fit.
#[derive(Clone, Debug)]
pub(crate) struct PushFields {
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) keys: Option<PushKeys>,
    vapid_key_id: Option<VapidKeyId>,
}

impl PushFields {
    /// Takes what `PushSubscription.toJSON()` gives, and the id of the VAPID key, from an object that may have more fields.
    pub(crate) fn take(object: &mut Object<'_>, errors: &Errors) -> Self {
        let endpoint = object.required("endpoint", "an https URL without userinfo", |raw| {
            Endpoint::parse(&shape::string(raw)?).ok()
        });
        object.optional("expirationTime", "null or epoch milliseconds", |raw| {
            (raw.get() == "null" || shape::number(raw).is_some()).then_some(())
        });
        let vapid_key_id = object.optional("vapid_key_id", "^[A-Za-z0-9_-]{1,64}$", text(VapidKeyId::parse));
        let keys = if object.raw("keys").is_some() {
            object.object("keys").and_then(|inner| push_keys(inner, errors))
        } else {
            object.refuse("keys", "{\"p256dh\", \"auth\"}", None);
            None
        };
        Self { endpoint, keys, vapid_key_id }
    }

    /// The whole, if nothing is missing.
    pub(crate) fn target(self) -> Option<PushTarget> {
        Some(PushTarget { endpoint: self.endpoint?, keys: self.keys?, vapid_key_id: self.vapid_key_id })
    }
}

fn push_keys(mut object: Object<'_>, errors: &Errors) -> Option<PushKeys> {
    let p256dh = object.required("p256dh", "a base64url string", shape::string);
    let auth = object.required("auth", "a base64url string", shape::string);
    let paths = (object.path_of("p256dh"), object.path_of("auth"));
    object.finish();
    match PushKeys::parse(&p256dh?, &auth?) {
        Ok(keys) => Some(keys),
        Err(PushKeysError::P256dh) => {
            errors.add(&paths.0, "base64url of 65 bytes (an uncompressed P-256 point)", "another string");
            None
        }
        Err(PushKeysError::Auth) => {
            errors.add(&paths.1, "base64url of 16 bytes", "another string");
            None
        }
    }
}
