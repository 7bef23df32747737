//! The port to webhooks' receivers.

use std::future::Future;
use std::time::Duration;

use redial_core::identity::{DeliveryId, Tenant};
use redial_core::outcome::Outcome;
use redial_core::payload::Payload;
use redial_core::time::Timestamp;
use redial_core::webhook::{CustomHeaders, WebhookTarget};

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
    /// Now: `webhook-timestamp`.
    pub at: Timestamp,
}

pub trait WebhookSender: Send + Sync {
    /// Signs and posts the webhook once, within the sender's own time-outs, and says what was seen.
    fn send(&self, webhook: Webhook<'_>) -> impl Future<Output = Outcome> + Send;

    /// The longest that one [`WebhookSender::send`] takes.
    fn attempt_timeout(&self) -> Duration;
}
