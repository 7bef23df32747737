//! The port to webhooks' receivers: signs, posts and returns the outcome.
//!
//! Headers are those of Standard Webhooks 1.0, and what the sender added: the message's own over its subscription's. A
//! webhook is never posted without a signature: where its receiver has no secrets of its own, the tenant's sign.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use redial_core::outcome::Outcome;
use redial_core::traceparent::Traceparent;
use redial_core::webhook::signatures;
use redial_engine::ports::{Clock, Webhook, WebhookSender};

use crate::egress::Egress;
use crate::webhook_keys::WebhookKeys;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const TRACEPARENT: HeaderName = HeaderName::from_static(Traceparent::NAME);

#[derive(Debug)]
pub struct StandardWebhookSender<C> {
    keys: WebhookKeys,
    egress: Egress,
    clock: C,
}

impl<C: Clock> StandardWebhookSender<C> {
    pub fn new(keys: WebhookKeys, egress: Egress, clock: C) -> Self {
        Self { keys, egress, clock }
    }

    fn headers(&self, webhook: &Webhook<'_>) -> HeaderMap {
        let Webhook { tenant, target, id, payload, headers: own, traceparent, at, within: _ } = webhook;
        let custom = own.over(&target.headers);
        let mut headers = HeaderMap::with_capacity(5 + custom.expose().len());
        if !payload.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(payload.media().content_type()));
        }
        if let Some(traceparent) = traceparent {
            let value = HeaderValue::from_str(&traceparent.to_string());
            headers.insert(TRACEPARENT, value.expect("invariant: digits are ASCII"));
        }
        for (name, value) in custom.expose() {
            let name =
                HeaderName::from_bytes(name.as_bytes()).expect("invariant: a header's name is a token");
            let mut value = HeaderValue::from_str(value).expect("invariant: its value is visible ASCII");
            value.set_sensitive(true);
            // No body has no type.
            if name != CONTENT_TYPE || !payload.is_empty() {
                headers.insert(name, value);
            }
        }
        let mut secrets = target.secrets.at(*at);
        if secrets.is_empty() {
            secrets = self.keys.secrets_of(tenant);
        }
        let signatures = signatures(&secrets, id.as_str(), *at, payload.expose());
        let text = |text: &str| HeaderValue::from_str(text).expect("invariant: base64 and ids are ASCII");
        headers.insert(ID, text(id.as_str()));
        headers.insert(TIMESTAMP, HeaderValue::from(at.as_secs()));
        headers.insert(SIGNATURE, text(&signatures));
        headers
    }
}

impl<C: Clock> WebhookSender for StandardWebhookSender<C> {
    async fn send(&self, webhook: Webhook<'_>) -> Outcome {
        let headers = self.headers(&webhook);
        let body = webhook.payload.expose().to_vec();
        self.egress.post(&webhook.target.endpoint, headers, body, webhook.within, &self.clock).await
    }

    fn attempt_timeout(&self) -> Duration {
        self.egress.total_timeout()
    }
}

#[cfg(test)]
#[path = "webhook_sender_tests.rs"]
mod tests;
