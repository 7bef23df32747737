//! Webhooks' receivers in memory, which answer by the same script as the push service.
//!
//! Nothing is signed: what is written down is what the signature is made of.

use std::time::Duration;

use redial_core::outcome::Outcome;
use redial_core::webhook::TIMEOUT;
use redial_engine::ports::{Webhook, WebhookSender};

use super::sender::{answered, next_answer};
use super::{Memory, SentWebhook};

impl WebhookSender for Memory {
    async fn send(&self, webhook: Webhook<'_>) -> Outcome {
        let url = webhook.target.endpoint.expose().as_str().to_owned();
        assert!(!self.state().panicking.remove(&url), "a planned panic over {url}");
        let headers = webhook.headers.over(&webhook.target.headers);
        let own = || webhook.payload.media().content_type();
        let content_type = headers.get("content-type").unwrap_or_else(own).to_owned();
        let secrets = webhook.target.secrets.at(webhook.at);
        let sent = SentWebhook {
            url: url.clone(),
            tenant: webhook.tenant.clone(),
            id: webhook.id.to_string(),
            timestamp: webhook.at.as_secs(),
            body: webhook.payload.expose().to_vec(),
            content_type: (!webhook.payload.is_empty()).then_some(content_type),
            headers: headers.expose().to_vec(),
            secrets: secrets.iter().map(|secret| secret.expose()).collect(),
            at: self.state().now,
        };
        self.effect("post", |state| {
            state.webhooks.push(sent);
            next_answer(state, &url, 200)
        })
        .await
        .unwrap_or_else(|_| answered(500))
    }

    fn attempt_timeout(&self) -> Duration {
        TIMEOUT
    }
}
