//! A push service and webhooks' receivers in memory, which answer by script.
//!
//! No webhook is signed: what is kept is what its signature is made of.

use std::ops::Bound;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redial_core::outcome::{Impossible, InDoubt, NotSent, Outcome, Response};
use redial_core::webhook::TIMEOUT;
use redial_engine::ports::{Clock, Keys, Push, PushSender, Webhook, WebhookSender};

use super::schedule::Schedule;
use super::{Memory, SentPush, SentWebhook, State};

/// An answer of this status without headers or body.
pub fn answered(status: u16) -> Outcome {
    Outcome::Response(Response { status, ..Response::default() })
}

/// An answer of this status with these headers.
pub fn answered_with(status: u16, headers: &[(&str, &str)]) -> Outcome {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Outcome::Response(Response { status, headers, ..Response::default() })
}

/// What the script has for an endpoint; else the usual answer; else `accepted`.
pub(super) fn next_answer(state: &mut State, endpoint: &str, accepted: u16) -> Outcome {
    match state.answers.get_mut(endpoint).filter(|answers| !answers.is_empty()) {
        Some(answers) => answers.remove(0),
        None => state.usual_answer.clone().unwrap_or_else(|| answered(accepted)),
    }
}

impl Memory {
    /// A POST: what is noted of it if it arrives, and what it is answered within that time.
    async fn post(
        &self,
        endpoint: &str,
        payload: &[u8],
        accepted: u16,
        within: Duration,
        note: impl Fn(&mut State),
    ) -> Outcome {
        let Some(schedule) = &self.schedule else {
            let made = self.effect("post", |state| {
                note(state);
                let up_to = (Bound::Unbounded, Bound::Included(endpoint));
                let slow = state.slow_receivers.range::<str, _>(up_to).next_back();
                let takes = slow.filter(|(prefix, _)| endpoint.starts_with(*prefix)).map(|(_, takes)| *takes);
                let is_over = takes.is_some_and(|takes| takes > within);
                let answer = (!is_over).then(|| next_answer(state, endpoint, accepted));
                (answer, takes.map(|takes| state.now.plus(takes.min(within))))
            });
            let Ok((answer, until)) = made.await else { return answered(500) };
            if let Some(until) = until {
                // The others of its batch are posted at the same moment.
                yielded().await;
                self.sleep(until.since(self.now())).await;
            }
            return answer.unwrap_or(Outcome::InDoubt(InDoubt::Timeout));
        };
        let made = self.effect("post", |state| {
            let reply = schedule.post(endpoint, payload, within, state);
            if reply.arrives {
                note(state);
            }
            reply
        });
        let Ok(reply) = made.await else { return Outcome::NotSent(NotSent::Connect) };
        schedule.sleep(reply.takes).await;
        reply.outcome
    }
}

/// Lets the other futures of a worker go on first.
async fn yielded() {
    let mut is_second = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut is_second, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl PushSender for Memory {
    async fn send(&self, push: Push<'_>) -> Outcome {
        let endpoint = push.target.endpoint.expose().as_str().to_owned();
        let (panics, key_is_unknown) = {
            let mut state = self.state();
            let panics = state.panicking.remove(&endpoint) || state.always_panicking.contains(&endpoint);
            (panics, state.key_is_unknown && state.key_reloads == 0)
        };
        assert!(!panics, "a planned panic over {endpoint}");
        let knows = |schedule: &Arc<dyn Schedule>| {
            push.target.vapid_key_id.as_ref().is_none_or(|id| schedule.knows_key(id))
        };
        if key_is_unknown || !self.schedule.as_ref().is_none_or(knows) {
            return Outcome::Impossible(Impossible::UnknownVapidKey);
        }
        let sent = SentPush {
            endpoint: endpoint.clone(),
            payload: push.payload.expose().to_vec(),
            ttl_secs: push.ttl.as_secs(),
            at: self.state().now,
        };
        let payload = sent.payload.clone();
        let within = PushSender::attempt_timeout(self);
        Box::pin(self.post(&endpoint, &payload, 201, within, |state| state.sent.push(sent.clone()))).await
    }

    async fn reload_keys(&self) -> Keys {
        let loaded = self.effect("reload_keys", |state| state.key_reloads += 1).await;
        if loaded.is_ok() {
            self.schedule.iter().for_each(|schedule| schedule.loaded_keys());
        }
        loaded.map_or(Keys::Unavailable, |()| Keys::Current)
    }

    fn attempt_timeout(&self) -> Duration {
        Duration::from_secs(10)
    }
}

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
            traceparent: webhook.traceparent,
            secrets: secrets.iter().map(|secret| secret.expose()).collect(),
            within: webhook.within,
            at: self.state().now,
        };
        let body = sent.body.clone();
        Box::pin(self.post(&url, &body, 200, webhook.within, |state| state.webhooks.push(sent.clone()))).await
    }

    fn attempt_timeout(&self) -> Duration {
        TIMEOUT
    }
}
