//! The roads, and where each of them ends.

use redial_tests::prelude::*;

use crate::crash::stage::TO_WAIT_SECS;

/// Where a delivery goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum To {
    /// To a browser that the message names.
    Browser,
    /// To a stored subscription.
    Subscription,
    /// To one that bears the flag of a 404.
    Flagged,
}

/// A queue that a body is put on, and the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entrance {
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

/// A road: what enters, what the push service answers, and how it ends.
#[derive(Clone)]
pub(crate) struct Road {
    pub(crate) name: &'static str,
    pub(crate) enters: Vec<Entrance>,
    pub(crate) to: To,
    /// Fields of the message besides the usual ones.
    pub(crate) fields: Value,
    /// The first answers of the push service.
    pub(crate) script: Vec<Answer>,
    /// Its answers after those, if it does not accept.
    pub(crate) usual: Option<Answer>,
    /// A sweep that cleanup is to make in the end.
    pub(crate) sweep: Option<&'static str>,
    /// How many times as long as the others it takes.
    pub(crate) slowness: u32,
    /// State and reason in the ledger; `None` if it never reaches the ledger.
    pub(crate) ends: Option<(&'static str, Option<&'static str>)>,
    pub(crate) posts: usize,
    /// Whether a dead letter is described, for which reason, and whether its body is kept.
    pub(crate) dead_letter: Option<(&'static str, bool)>,
    /// State of the stored subscription, and whether it bears a flag; `None` if it is removed.
    pub(crate) subscription: Option<(&'static str, bool)>,
}

/// A message to a browser that arrives at once.
fn sent() -> Road {
    Road {
        name: "sent",
        enters: vec![Entrance::Ingest],
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

fn refused(name: &'static str, status: u16, reason: &'static str) -> Road {
    Road {
        name,
        usual: Some(Answer::status(status)),
        ends: Some(("failed", Some(reason))),
        dead_letter: Some((reason, true)),
        ..sent()
    }
}

fn quarantined(name: &'static str, entrance: Entrance) -> Road {
    Road { name, enters: vec![entrance], ends: None, posts: 0, dead_letter: Some(("poison", true)), ..sent() }
}

/// All of them.
pub(crate) fn roads() -> Vec<Road> {
    let throttled = |secs: u64| Answer::status(429).with_header("retry-after", &secs.to_string());
    let a_retry = json!({"retry": {"max_retries": 1, "base_delay_ms": 200, "jitter": "none"}});
    let stored = Some(("active", false));
    vec![
        Road { name: "waiting", script: vec![throttled(TO_WAIT_SECS)], posts: 2, slowness: 3, ..sent() },
        Road {
            name: "gone",
            to: To::Subscription,
            usual: Some(Answer::fixture(Fixture::MozillaGone)),
            sweep: Some("prune"),
            slowness: 2,
            ends: Some(("gone", Some("gone"))),
            dead_letter: Some(("gone", false)),
            ..sent()
        },
        Road {
            name: "not-found",
            to: To::Subscription,
            usual: Some(Answer::status(404)),
            ends: Some(("gone", Some("not_found"))),
            dead_letter: Some(("not_found", false)),
            subscription: Some(("active", true)),
            ..sent()
        },
        Road { fields: a_retry, posts: 2, ..refused("exhausted", 500, "retries_exhausted") },
        refused("rejected", 400, "rejected"),
        Road { name: "retried", script: vec![Answer::status(503)], posts: 2, ..sent() },
        Road { name: "throttled", script: vec![throttled(1)], posts: 2, ..sent() },
        sent(),
        Road { name: "to-subscription", to: To::Subscription, subscription: stored, ..sent() },
        Road { name: "unflagged", to: To::Flagged, subscription: stored, ..sent() },
        Road { dead_letter: Some(("malformed", true)), ..quarantined("malformed", Entrance::Malformed) },
        quarantined("poison", Entrance::Quarantine),
        quarantined("garbage", Entrance::QuarantinedGarbage),
        Road { dead_letter: None, ..quarantined("release", Entrance::QuarantinedRelease) },
        Road {
            name: "moved-on",
            // Quarantined though it was sent: as after a crash loop that came to its end.
            enters: vec![Entrance::Ingest, Entrance::Quarantine],
            ..sent()
        },
    ]
}
