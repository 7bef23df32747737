//! The scenarios: what is sent on each, what the push service answers, and how it has to end.
//!
//! `expected` is in the words of [`super::judge`], which derives the same from what was found. The answers are the ones that
//! push services are known to give, where the receivers have them.

use std::time::Duration;

use redial_receivers::{
    push_service::{Answer, Fixture},
    webhook_receiver,
};
use serde_json::{Value, json};

/// The longest delay that is left to the queue; everything longer goes through Step Functions.
pub(super) const SQS_MAX_DELAY_SECONDS: u16 = 2;

/// When the functions give up on a push service that does not answer. A machine that builds something else at the same
/// time must not make it fire.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(4);

/// How long the refusal of the old key takes: time enough to put the new one in its place.
const REFUSAL_DELAY: Duration = Duration::from_millis(1500);

/// Retry-After that the queue's own delay can wait out, in seconds.
const SHORT_WAIT_SECS: u64 = 2;

/// Retry-After that is longer than the queue's own delay (see [`SQS_MAX_DELAY_SECONDS`]), in seconds.
const LONG_WAIT_SECS: u64 = 5;

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

/// What the other side answers, before it accepts.
#[derive(Debug)]
pub(super) enum Answers {
    OfPush(fn() -> Vec<Answer>),
    OfWebhook(fn() -> Vec<webhook_receiver::Answer>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    Once,
    /// Again after it was sent, as by a producer that saw no answer.
    Twice,
    /// With its end cut off.
    CutOff,
}

#[derive(Debug)]
pub(super) struct Scenario {
    /// Its name in the report.
    pub(super) name: &'static str,
    /// What its messages' ids begin with.
    pub(super) slug: &'static str,
    /// The most deliveries that it is worth.
    pub(super) most: usize,
    pub(super) recipient: Recipient,
    pub(super) manner: Manner,
    /// Who is asked, and what it answers.
    pub(super) answers: Answers,
    /// Further fields of the message: an object.
    pub(super) fields: fn() -> Value,
    /// How far ahead it is scheduled.
    pub(super) scheduled_in: Option<Duration>,
    /// How far apart its first two requests are at the least.
    pub(super) apart: Duration,
    /// How each of them ends.
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

/// What most scenarios are like.
const PLAIN: Scenario = Scenario {
    name: "sent",
    slug: "sent",
    most: 10,
    recipient: Recipient::Either,
    manner: Manner::Once,
    answers: Answers::OfPush(Vec::new),
    fields: || json!({}),
    scheduled_in: None,
    apart: Duration::ZERO,
    expected: "sent, 1 post",
};

/// The scenarios; the first one takes all the messages that the others leave.
pub(super) static SCENARIOS: [Scenario; 19] = [
    PLAIN,
    Scenario {
        name: "503 then sent",
        slug: "unavailable",
        answers: Answers::OfPush(|| vec![Answer::status(503)]),
        expected: "sent, 2 posts",
        ..PLAIN
    },
    Scenario {
        name: "429 with Retry-After",
        slug: "throttled",
        answers: Answers::OfPush(|| {
            vec![Answer::status(429).with_header("retry-after", &SHORT_WAIT_SECS.to_string())]
        }),
        apart: Duration::from_secs(SHORT_WAIT_SECS),
        expected: "sent, 2 posts",
        ..PLAIN
    },
    Scenario {
        name: "wait in Step Functions",
        slug: "parked",
        answers: Answers::OfPush(|| {
            vec![Answer::status(429).with_header("retry-after", &LONG_WAIT_SECS.to_string())]
        }),
        apart: Duration::from_secs(LONG_WAIT_SECS),
        expected: "parked, sent, 2 posts",
        ..PLAIN
    },
    Scenario {
        name: "scheduled (deliver_at)",
        slug: "scheduled",
        scheduled_in: Some(SCHEDULED_IN),
        expected: "parked, sent, 1 post",
        ..PLAIN
    },
    Scenario {
        name: "TTL too short",
        slug: "ttl",
        // 127 s, as Mozilla's service asks for.
        answers: Answers::OfPush(|| vec![Answer::fixture(Fixture::MozillaThrottled)]),
        fields: || json!({"ttl": 120}),
        expected: "dead letter ttl_exceeded, 1 post",
        ..PLAIN
    },
    Scenario {
        name: "404",
        slug: "unknown",
        recipient: Recipient::Stored,
        answers: Answers::OfPush(|| vec![Answer::fixture(Fixture::FcmNotFound)]),
        expected: "gone, subscription flagged, 1 post",
        ..PLAIN
    },
    Scenario {
        name: "410",
        slug: "gone",
        // Ten in a window would look like a provider's bad day.
        most: 5,
        recipient: Recipient::Stored,
        answers: Answers::OfPush(|| vec![Answer::fixture(Fixture::MozillaGone)]),
        expected: "gone, subscription off, 1 post",
        ..PLAIN
    },
    Scenario {
        name: "413",
        slug: "too-large",
        answers: Answers::OfPush(|| vec![Answer::fixture(Fixture::AppleTooLarge)]),
        expected: "dead letter payload_too_large, 1 post",
        ..PLAIN
    },
    Scenario {
        name: "400",
        slug: "rejected",
        answers: Answers::OfPush(|| vec![Answer::fixture(Fixture::FcmBadRequest)]),
        expected: "dead letter rejected, 1 post",
        ..PLAIN
    },
    Scenario {
        name: "401 cured by a new key",
        slug: "new-key",
        // A worker that has just loaded its keys does not load them again.
        most: 1,
        recipient: Recipient::NewKey,
        answers: Answers::OfPush(|| vec![Answer::fixture(Fixture::MozillaUnauthorized).after(REFUSAL_DELAY)]),
        expected: "sent with a new key, 2 posts",
        ..PLAIN
    },
    Scenario {
        name: "time-out in doubt",
        slug: "in-doubt",
        answers: Answers::OfPush(|| vec![Answer::hang(SEND_TIMEOUT * 2)]),
        expected: "sent in doubt, 2 posts",
        ..PLAIN
    },
    Scenario {
        name: "malformed JSON",
        slug: "malformed",
        manner: Manner::CutOff,
        expected: "dead letter malformed, 0 posts",
        ..PLAIN
    },
    Scenario {
        name: "duplicate",
        slug: "duplicate",
        manner: Manner::Twice,
        expected: "sent, 1 post",
        ..PLAIN
    },
    Scenario {
        name: "exhausted retries",
        slug: "exhausted",
        answers: Answers::OfPush(|| Answer::status(503).times(3)),
        fields: || json!({"retry": {"base_delay_ms": 500, "jitter": "none", "max_retries": 2}}),
        expected: "dead letter retries_exhausted, 3 posts",
        ..PLAIN
    },
    Scenario { name: "webhook", slug: "webhook", answers: Answers::OfWebhook(Vec::new), ..PLAIN },
    Scenario {
        name: "webhook: 500 then sent",
        slug: "webhook-failing",
        answers: Answers::OfWebhook(|| vec![webhook_receiver::Answer::status(500)]),
        fields: || one_retry(),
        apart: Duration::from_secs(1),
        expected: "sent, 2 posts",
        ..PLAIN
    },
    Scenario {
        name: "webhook: 410",
        slug: "webhook-gone",
        recipient: Recipient::Stored,
        answers: Answers::OfWebhook(|| vec![webhook_receiver::Answer::status(410)]),
        expected: "dead letter gone, subscription off, 1 post",
        ..PLAIN
    },
    Scenario {
        name: "webhook: redirected",
        slug: "webhook-redirected",
        // Back to where it came from, and as a POST: a sender that follows it is seen there.
        answers: Answers::OfWebhook(|| webhook_receiver::Answer::redirect(307, "?followed").times(2)),
        fields: || one_retry(),
        expected: "dead letter retries_exhausted, 2 posts",
        ..PLAIN
    },
];

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
        assert!(Duration::from_secs(SHORT_WAIT_SECS).mul_f64(1.1) < limit);
        assert!(Duration::from_secs(LONG_WAIT_SECS) >= limit + Duration::from_secs(1));
        assert!(SCHEDULED_IN >= limit + Duration::from_secs(3));
        assert!(REFUSAL_DELAY < SEND_TIMEOUT);
    }
}
