//! The ports to the receivers: push services and webhooks.

use std::future::Future;
use std::time::Duration;

use redial_core::delivery_options::{Topic, Urgency};
use redial_core::identity::{DeliveryId, Tenant};
use redial_core::outcome::Outcome;
use redial_core::payload::Payload;
use redial_core::push_target::PushTarget;
use redial_core::time::{Timestamp, Ttl};
use redial_core::traceparent::Traceparent;
use redial_core::webhook::{CustomHeaders, WebhookTarget};

/// One push, ready to be sealed, signed and posted.
#[derive(Clone, Debug)]
pub struct Push<'a> {
    pub target: &'a PushTarget,
    /// What; empty for no body.
    pub payload: &'a Payload,
    /// The remaining TTL, for the `TTL` header.
    pub ttl: Ttl,
    /// `Urgency` (RFC 8030, 5.3).
    pub urgency: Option<Urgency>,
    /// `Topic` (RFC 8030, 5.4).
    pub topic: Option<&'a Topic>,
}

/// How the keys stand after a wish to load them again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// They are those that are stored, as of at most 30 seconds ago.
    Current,
    /// They could not be loaded: those that were loaded before stay.
    Unavailable,
}

pub trait PushSender: Send + Sync {
    /// Seals, signs and posts the push once, within the sender's own time-outs, and says what was seen.
    fn send(&self, push: Push<'_>) -> impl Future<Output = Outcome> + Send;

    /// Loads the VAPID keys again after a 401, or where a key is not known, at most once in 30 seconds a worker and once for all
    /// who ask at the same time, and drops cached tokens. Returns when signing again is worth a try.
    fn reload_keys(&self) -> impl Future<Output = Keys> + Send;

    /// The longest that one [`PushSender::send`] takes.
    fn attempt_timeout(&self) -> Duration;
}

/// One webhook, ready to be signed and posted.
#[derive(Clone, Debug)]
pub struct Webhook<'a> {
    /// Whose it is: signs where the target has no secrets of its own.
    pub tenant: &'a Tenant,
    pub target: &'a WebhookTarget,
    /// The delivery's id, the same on every attempt: `webhook-id`.
    pub id: &'a DeliveryId,
    /// What; empty for no body.
    pub payload: &'a Payload,
    /// The message's own headers; they go before the target's.
    pub headers: &'a CustomHeaders,
    /// Of the attempt's span, or as the message has it where there is none; the message's own header of that name goes before it.
    pub traceparent: Option<Traceparent>,
    /// Now: `webhook-timestamp`.
    pub at: Timestamp,
    /// How long it may take, at most [`WebhookSender::attempt_timeout`].
    pub within: Duration,
}

pub trait WebhookSender: Send + Sync {
    /// Signs and posts the webhook once, within its time and the sender's own time-outs, and says what was seen.
    fn send(&self, webhook: Webhook<'_>) -> impl Future<Output = Outcome> + Send;

    /// The longest that one [`WebhookSender::send`] takes.
    fn attempt_timeout(&self) -> Duration;
}
