//! The scenarios, and how each of them ends.

use redial_tests::prelude::*;

use super::environment::TO_WAIT_SECS;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum To {
    /// To a browser that the message names.
    Browser,
    Subscription,
    /// To one with the flag of a 404.
    Flagged,
}

/// A queue that a body is put on, and the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Input {
    /// The message, on the ingest queue.
    Ingest,
    /// A body that is no message, on the ingest queue.
    Malformed,
    /// The message, on the quarantine.
    Quarantine,
    /// An unreadable body, on the quarantine.
    QuarantinedGarbage,
    /// The release of an empty bucket, on the quarantine.
    QuarantinedRelease,
}

/// What is put in, what the push service answers, and how it ends.
#[derive(Clone)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) inputs: Vec<Input>,
    pub(super) to: To,
    /// Fields of the message besides the usual ones.
    pub(super) fields: Value,
    /// The first answers of the push service.
    pub(super) script: Vec<Answer>,
    /// Its answers after those, if it does not accept.
    pub(super) usual: Option<Answer>,
    /// A sweep that cleanup is to make in the end.
    pub(super) sweep: Option<&'static str>,
    /// How many times as long as the others it takes.
    pub(super) slowness: u32,
    /// State and reason in the ledger; `None` if it never reaches the ledger.
    pub(super) ends: Option<(&'static str, Option<&'static str>)>,
    pub(super) posts: usize,
    /// Whether a dead letter is described, for which reason, and whether its body is kept.
    pub(super) dead_letter: Option<(&'static str, bool)>,
    /// State of the stored subscription, and whether it is flagged; `None` if it is removed.
    pub(super) subscription: Option<(&'static str, bool)>,
}

fn sent() -> Scenario {
    Scenario {
        name: "sent",
        inputs: vec![Input::Ingest],
        to: To::Browser,
        fields: json!({}),
        script: Vec::new(),
        usual: None,
        sweep: None,
        slowness: 1,
        ends: Some(("sent", None)),
        posts: 1,
        dead_letter: None,
        subscription: None,
    }
}

fn refused(name: &'static str, status: u16, reason: &'static str) -> Scenario {
    Scenario {
        name,
        usual: Some(Answer::status(status)),
        ends: Some(("failed", Some(reason))),
        dead_letter: Some((reason, true)),
        ..sent()
    }
}

fn quarantined(name: &'static str, input: Input) -> Scenario {
    Scenario {
        name,
        inputs: vec![input],
        ends: None,
        posts: 0,
        dead_letter: Some(("poison", true)),
        ..sent()
    }
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let throttled = |secs: u64| Answer::status(429).with_header("retry-after", &secs.to_string());
    let a_retry = json!({"retry": {"max_retries": 1, "base_delay_ms": 200, "jitter": "none"}});
    let stored = Some(("active", false));
    vec![
        Scenario { name: "waiting", script: vec![throttled(TO_WAIT_SECS)], posts: 2, slowness: 3, ..sent() },
        Scenario {
            name: "gone",
            to: To::Subscription,
            usual: Some(Answer::fixture(Fixture::MozillaGone)),
            sweep: Some("prune"),
            slowness: 2,
            ends: Some(("gone", Some("gone"))),
            dead_letter: Some(("gone", false)),
            ..sent()
        },
        Scenario {
            name: "not-found",
            to: To::Subscription,
            usual: Some(Answer::status(404)),
            ends: Some(("gone", Some("not_found"))),
            dead_letter: Some(("not_found", false)),
            subscription: Some(("active", true)),
            ..sent()
        },
        Scenario { fields: a_retry, posts: 2, ..refused("exhausted", 500, "retries_exhausted") },
        refused("rejected", 400, "rejected"),
        Scenario { name: "retried", script: vec![Answer::status(503)], posts: 2, ..sent() },
        Scenario { name: "throttled", script: vec![throttled(1)], posts: 2, ..sent() },
        sent(),
        Scenario { name: "to-subscription", to: To::Subscription, subscription: stored, ..sent() },
        Scenario { name: "unflagged", to: To::Flagged, subscription: stored, ..sent() },
        Scenario { dead_letter: Some(("malformed", true)), ..quarantined("malformed", Input::Malformed) },
        Scenario { ends: Some(("failed", Some("poison"))), ..quarantined("poison", Input::Quarantine) },
        quarantined("garbage", Input::QuarantinedGarbage),
        Scenario { dead_letter: None, ..quarantined("release", Input::QuarantinedRelease) },
        Scenario {
            name: "moved-on",
            // Quarantined though it was sent: as after a crash loop that came to its end.
            inputs: vec![Input::Ingest, Input::Quarantine],
            ..sent()
        },
    ]
}
