//! The scenarios: what is sent on each, what the push service answers, and how it has to end.
//!
//! `expected` is in the words of [`super::judge`], which derives the same from what was found. The answers are the ones that
//! push services are known to give, where the receivers have them.

use std::time::Duration;

use redial_receivers::push_service::{Answer, Fixture};
use serde_json::{Value, json};

/// The longest delay that is left to the queue; everything longer goes through Step Functions.
pub(super) const SQS_MAX_DELAY_SECONDS: u16 = 2;

/// When the functions give up on a push service that does not answer. A machine that builds something else at the same
/// time must not make it fire.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(4);

/// How long the refusal of the old key takes: time enough to put the new one in its place.
const REFUSAL_DELAY: Duration = Duration::from_millis(1500);

/// Retry-After that the queue's own delay can wait out.
const SHORT_WAIT: Duration = Duration::from_secs(2);

/// Retry-After that is longer than the queue's own delay (see [`SQS_MAX_DELAY_SECONDS`]).
const LONG_WAIT: Duration = Duration::from_secs(5);

/// How far ahead a scheduled message is: long enough that it is still too far for the queue when dispatch first sees it.
const SCHEDULED_IN: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Recipient {
    /// By turns a subscription in the table, and one that comes with the message.
    Either,
    /// A subscription in the table: the scenario changes it.
    Stored,
    /// One that was made with the new key while the old one still signs.
    NewKey,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    Once,
    /// Again after it was sent, as by a producer that saw no answer.
    Twice,
    /// With its end cut off.
    CutOff,
}

/// What is asked of Redial while a message waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    Nothing,
    /// To cancel it.
    ToCancel,
    /// Which of the tenant's deliveries are retrying.
    ByState,
}

#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) slug: &'static str,
    /// The most deliveries that it is worth.
    pub(super) most: usize,
    pub(super) recipient: Recipient,
    pub(super) manner: Manner,
    /// Whether it goes to a webhook, else to a push service.
    pub(super) is_webhook: bool,
    /// What the other side answers, before it accepts.
    pub(super) answers: fn() -> Vec<Answer>,
    /// Further fields of the message: an object.
    pub(super) fields: fn() -> Value,
    pub(super) scheduled_in: Option<Duration>,
    pub(super) asked: Asked,
    /// How far apart its first two requests are at the least.
    pub(super) apart: Duration,
    pub(super) expected: &'static str,
}

impl Scenario {
    /// Whether its messages are refused until the key is changed.
    pub(super) fn changes_the_key(&self) -> bool {
        self.recipient == Recipient::NewKey
    }

    pub(super) fn messages_each(&self) -> usize {
        match self.manner {
            Manner::Once | Manner::CutOff => 1,
            Manner::Twice => 2,
        }
    }
}

/// A scenario of pushes, like most.
const fn push(
    name: &'static str,
    slug: &'static str,
    answers: fn() -> Vec<Answer>,
    expected: &'static str,
) -> Scenario {
    Scenario {
        name,
        slug,
        answers,
        expected,
        most: 10,
        recipient: Recipient::Either,
        manner: Manner::Once,
        is_webhook: false,
        fields: || json!({}),
        scheduled_in: None,
        asked: Asked::Nothing,
        apart: Duration::ZERO,
    }
}

const fn webhook(
    name: &'static str,
    slug: &'static str,
    answers: fn() -> Vec<Answer>,
    expected: &'static str,
) -> Scenario {
    Scenario { is_webhook: true, ..push(name, slug, answers, expected) }
}

/// The scenarios; the first one takes all the messages that the others leave.
pub(super) static SCENARIOS: [Scenario; 21] = [
    push("sent", "sent", Vec::new, "sent, 1 post"),
    push("503 then sent", "unavailable", || vec![Answer::status(503)], "sent, 2 posts"),
    Scenario {
        apart: SHORT_WAIT,
        ..push("429 with Retry-After", "throttled", || throttled(SHORT_WAIT), "sent, 2 posts")
    },
    Scenario {
        apart: LONG_WAIT,
        ..push("wait in Step Functions", "parked", || throttled(LONG_WAIT), "parked, sent, 2 posts")
    },
    Scenario {
        scheduled_in: Some(SCHEDULED_IN),
        ..push("scheduled (deliver_at)", "scheduled", Vec::new, "parked, sent, 1 post")
    },
    Scenario {
        most: 1,
        scheduled_in: Some(SCHEDULED_IN),
        asked: Asked::ToCancel,
        ..push("cancelled while waiting", "cancelled", Vec::new, "parked, cancelled, 0 posts")
    },
    Scenario {
        most: 1,
        asked: Asked::ByState,
        apart: LONG_WAIT,
        ..push(
            "found by its state",
            "found",
            || throttled(LONG_WAIT),
            "parked, found retrying, sent, 2 posts",
        )
    },
    Scenario {
        fields: || json!({"ttl": 120}),
        // It asks for 127 s.
        ..push("TTL too short", "ttl", || row(Fixture::MozillaThrottled), "dead letter ttl_exceeded, 1 post")
    },
    Scenario {
        recipient: Recipient::Stored,
        ..push("404", "unknown", || row(Fixture::FcmNotFound), "gone, subscription flagged, 1 post")
    },
    Scenario {
        // Ten in a window would look like a provider's bad day.
        most: 5,
        recipient: Recipient::Stored,
        ..push("410", "gone", || row(Fixture::MozillaGone), "gone, subscription off, 1 post")
    },
    push("413", "too-large", || row(Fixture::AppleTooLarge), "dead letter payload_too_large, 1 post"),
    push("400", "rejected", || row(Fixture::FcmBadRequest), "dead letter rejected, 1 post"),
    Scenario {
        // A worker that has just loaded its keys does not load them again.
        most: 1,
        recipient: Recipient::NewKey,
        ..push(
            "401 cured by a new key",
            "new-key",
            || vec![Answer::fixture(Fixture::MozillaUnauthorized).after(REFUSAL_DELAY)],
            "sent with a new key, 2 posts",
        )
    },
    push("time-out in doubt", "in-doubt", || vec![Answer::hang(SEND_TIMEOUT * 2)], "sent in doubt, 2 posts"),
    Scenario {
        manner: Manner::CutOff,
        ..push("malformed JSON", "malformed", Vec::new, "dead letter malformed, 0 posts")
    },
    Scenario { manner: Manner::Twice, ..push("duplicate", "duplicate", Vec::new, "sent, 1 post") },
    Scenario {
        fields: || json!({"retry": {"base_delay_ms": 500, "jitter": "none", "max_retries": 2}}),
        ..push(
            "exhausted retries",
            "exhausted",
            || Answer::status(503).times(3),
            "dead letter retries_exhausted, 3 posts",
        )
    },
    webhook("webhook", "webhook", Vec::new, "sent, 1 post"),
    Scenario {
        fields: one_retry,
        apart: Duration::from_secs(1),
        ..webhook("webhook: 500 then sent", "webhook-failing", || vec![Answer::status(500)], "sent, 2 posts")
    },
    Scenario {
        recipient: Recipient::Stored,
        ..webhook(
            "webhook: 410",
            "webhook-gone",
            || vec![Answer::status(410)],
            "dead letter gone, subscription off, 1 post",
        )
    },
    Scenario {
        fields: one_retry,
        ..webhook(
            "webhook: redirected",
            "webhook-redirected",
            // Back to where it came from, and as a POST: a sender that follows it is seen there.
            || Answer::redirect(307, "?followed").times(2),
            "dead letter retries_exhausted, 2 posts",
        )
    },
];

fn throttled(wait: Duration) -> Vec<Answer> {
    vec![Answer::status(429).with_header("retry-after", &wait.as_secs().to_string())]
}

fn row(fixture: Fixture) -> Vec<Answer> {
    vec![Answer::fixture(fixture)]
}

fn one_retry() -> Value {
    json!({"retry": {"retry_delays": [1], "jitter": "none"}})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_slugs_are_distinct() {
        let names: BTreeSet<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        let slugs: BTreeSet<&str> = SCENARIOS.iter().map(|scenario| scenario.slug).collect();
        assert_eq!((names.len(), slugs.len()), (SCENARIOS.len(), SCENARIOS.len()));
    }

    #[test]
    fn the_waits_are_on_their_side_of_the_queue_s_own_delay() {
        // Up to a tenth is added to a Retry-After, and the fraction of a second is waited out inside.
        let limit = Duration::from_secs(u64::from(SQS_MAX_DELAY_SECONDS) + 1);
        assert!(SHORT_WAIT.mul_f64(1.1) < limit);
        assert!(LONG_WAIT >= limit + Duration::from_secs(1));
        assert!(SCHEDULED_IN >= limit + Duration::from_secs(3));
        assert!(REFUSAL_DELAY < SEND_TIMEOUT);
    }
}
