//! The roads: what is sent, and how it has to end.
//!
//! The receiver answers by the clock, so the number of attempts shows when they were: one that comes before its Retry-After, or
//! before its `deliver_at`, is refused, and the message needs another one. What is to be refused once has [`FIRST`] to get there,
//! through functions that may have to start and queues that are polled.

use std::time::Duration;

use redial_core::{lane::Lane, time::Timestamp};
use serde_json::{Value, json};

use super::recipient::Subscription;

/// Never within a run.
const FOR_EVER: i64 = 9_999_999_999;

/// Seconds, from the run's begin, in which a first attempt is refused that has to be.
const FIRST: u64 = 30;

/// Seconds until a retry: it comes after them, however late the first attempt was.
const DELAY: u64 = FIRST + 5;

/// By which channel a message goes to the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Channel {
    Webhook,
    Push,
}

pub(super) struct Road {
    /// Also the message's id.
    pub(super) name: &'static str,
    pub(super) proves: &'static str,
    pub(super) channel: Channel,
    pub(super) lane: Lane,
    /// What the receiver is asked to answer.
    query: String,
    retry: Value,
    deliver_at: Option<Timestamp>,
    pub(super) expected: End,
    /// How long it may take.
    pub(super) limit: Duration,
}

/// How a delivery ended, or has to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct End {
    /// `sent`, `failed`, `gone`; nothing before its first attempt.
    pub(super) state: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) attempt: Option<u64>,
    pub(super) dead_letters: usize,
}

impl End {
    fn sent(attempt: u64) -> Self {
        Self { state: Some("sent".to_owned()), reason: None, attempt: Some(attempt), dead_letters: 0 }
    }

    /// Of a push: its subscription is over, and the message with it.
    fn gone() -> Self {
        Self { state: Some("gone".to_owned()), reason: None, attempt: Some(1), dead_letters: 1 }
    }

    fn failed(reason: &str, attempt: u64) -> Self {
        let (state, reason) = (Some("failed".to_owned()), Some(reason.to_owned()));
        Self { state, reason, attempt: Some(attempt), dead_letters: 1 }
    }

    pub(super) fn in_words(&self) -> String {
        let state = self.state.as_deref().unwrap_or("no delivery");
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let attempt = self.attempt.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
        let letters = if self.dead_letters == 0 { "" } else { ", dead letter" };
        format!("{state}{reason}{attempt}{letters}")
    }
}

impl Road {
    pub(super) fn message(&self, tenant: &str, receiver: &str, subscription: &Subscription) -> Value {
        let url = format!("{receiver}/{}?{}", self.name, self.query);
        let to = match self.channel {
            Channel::Webhook => json!({"webhook": {"url": url}}),
            Channel::Push => subscription.at(&url),
        };
        let mut message = json!({
            "tenant": tenant, "id": self.name, "to": to, "payload": {"road": self.name},
            "retry": self.retry, "ttl": 86_400,
        });
        if let Some(at) = self.deliver_at {
            message["deliver_at"] = at.to_rfc3339_seconds().into();
        }
        message
    }
}

/// All roads, for a run that begins now; those of pushes are last. One takes a quarter of an hour longer than the others.
pub(super) fn roads(now: Timestamp, with_a_long_wait: bool) -> Vec<Road> {
    let at = |secs: u64| now.plus(Duration::from_secs(secs));
    let road = |name, proves, query: String, expected| Road {
        name,
        proves,
        channel: Channel::Webhook,
        lane: Lane::Transactional,
        query,
        retry: json!({"retry_delays": [DELAY], "jitter": "none"}),
        deliver_at: None,
        expected,
        limit: Duration::from_secs(180),
    };
    let until = |status: u16, secs: i64| format!("status={status}&until={secs}");
    let scheduled = |name, proves, secs| Road {
        deliver_at: Some(at(secs)),
        limit: Duration::from_secs(secs + 300),
        ..road(name, proves, until(500, at(secs).as_secs()), End::sent(1))
    };
    let mut roads = vec![
        road("delivered", "a message arrives, signed", String::new(), End::sent(1)),
        Road { lane: Lane::Bulk, ..road("bulk", "the bulk lane delivers", String::new(), End::sent(1)) },
        road("retried", "a 503 is retried after its delay", until(503, at(FIRST).as_secs()), End::sent(2)),
        road(
            "retry-after",
            "a Retry-After is kept, and no attempt comes before it",
            format!("{}&wait=1", until(429, at(FIRST).as_secs())),
            End::sent(2),
        ),
        road("gone", "a 410 ends a message", until(410, FOR_EVER), End::failed("gone", 1)),
        road(
            "exhausted",
            "a message that fails for good becomes a dead letter",
            until(500, FOR_EVER),
            End::failed("retries_exhausted", 2),
        ),
        scheduled("scheduled", "a message waits for its time, and not less", FIRST),
    ];
    if with_a_long_wait {
        let proves = "a message waits in Step Functions for 16 minutes";
        roads.push(scheduled("long-wait", proves, 16 * 60));
    }
    let push = |road: Road| Road { channel: Channel::Push, ..road };
    let proves = "a push arrives, encrypted for its browser and with a token of the stack's key";
    roads.extend([
        push(road("push", proves, String::new(), End::sent(1))),
        push(road(
            "push-retried",
            "a push is retried after a 503",
            until(503, at(FIRST).as_secs()),
            End::sent(2),
        )),
        push(road("push-gone", "a 410 ends a push", until(410, FOR_EVER), End::gone())),
    ]);
    roads
}
