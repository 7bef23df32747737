//! Who gets a message, once that is known: a browser, or a webhook's receiver.

use crate::channel::Channel;
use crate::endpoint::Endpoint;
use crate::push_target::PushTarget;
use crate::webhook::WebhookTarget;

/// A recipient, with all that sending to it needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Recipient {
    WebPush(PushTarget),
    Webhook(WebhookTarget),
}

impl Recipient {
    pub const fn channel(&self) -> Channel {
        match self {
            Self::WebPush(_) => Channel::WebPush,
            Self::Webhook(_) => Channel::Webhook,
        }
    }

    pub const fn endpoint(&self) -> &Endpoint {
        match self {
            Self::WebPush(target) => &target.endpoint,
            Self::Webhook(target) => &target.endpoint,
        }
    }
}
