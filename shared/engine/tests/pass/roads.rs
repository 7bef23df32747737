//! Every road out of dispatch, with nothing in its way.

use std::time::Duration;

use redial_core::lane::Lane;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::outcome::{InDoubt, Outcome};
use redial_core::reason::Reason;
use redial_testkit::memory::sender::{answered, answered_with};

use crate::harness::Harness;

/// Who a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whom {
    Browser,
    Hook,
    /// A webhook's bare address.
    Address,
}

impl Whom {
    /// Makes `m` one of these, with these answers, and the message to it.
    pub(crate) fn prepare(self, harness: &Harness, answers: Vec<Outcome>, fields: &str) -> String {
        let (url, message) = match self {
            Self::Browser => {
                harness.subscribe("m");
                (Harness::endpoint("m"), Harness::message("m", fields))
            }
            Self::Hook => {
                harness.subscribe_hook("m");
                (Harness::hook("m"), Harness::message("m", fields))
            }
            Self::Address => (Harness::hook("m"), Harness::message_to_url("m", fields)),
        };
        harness.memory.state().answers.insert(url, answers);
        message
    }
}

/// A road: what is answered, and how the delivery ends.
pub(crate) struct Road {
    pub(crate) name: &'static str,
    pub(crate) to: Whom,
    pub(crate) fields: &'static str,
    pub(crate) answers: Vec<Outcome>,
    pub(crate) ends: State,
    pub(crate) reason: Option<Reason>,
    pub(crate) posts: usize,
    /// Whether a body waits in the dead-letter store.
    pub(crate) dead_letter: bool,
}

pub(crate) fn roads() -> Vec<Road> {
    let road = |name, fields, answers, ends, reason, posts, dead_letter| Road {
        name,
        to: Whom::Browser,
        fields,
        answers,
        ends,
        reason,
        posts,
        dead_letter,
    };
    let always = |status| vec![answered(status); 6];
    vec![
        road("sent", "", vec![], State::Sent, None, 1, false),
        road("503 then sent", "", vec![answered(503)], State::Sent, None, 2, false),
        road(
            "short Retry-After",
            "",
            vec![answered_with(429, &[("retry-after", "5")])],
            State::Sent,
            None,
            2,
            false,
        ),
        road(
            "long Retry-After",
            "",
            vec![answered_with(429, &[("retry-after", "1800")])],
            State::Sent,
            None,
            2,
            false,
        ),
        road("scheduled", r#","deliver_at":"2026-11-21T13:00:00Z""#, vec![], State::Sent, None, 1, false),
        road(
            "Retry-After past the TTL",
            r#","ttl":1000"#,
            vec![answered_with(503, &[("retry-after", "1200")])],
            State::Failed,
            Some(Reason::TtlExceeded),
            1,
            true,
        ),
        road("retries exhausted", "", always(500), State::Failed, Some(Reason::RetriesExhausted), 6, true),
        road("gone", "", vec![answered(410)], State::Gone, Some(Reason::Gone), 1, false),
        road("not found", "", vec![answered(404)], State::Gone, Some(Reason::NotFound), 1, false),
        road("rejected", "", vec![answered(400)], State::Failed, Some(Reason::Rejected), 1, true),
        road("too large", "", vec![answered(413)], State::Failed, Some(Reason::PayloadTooLarge), 1, true),
        road("cured 401", "", vec![answered(401)], State::Sent, None, 2, false),
        road("401 twice", "", always(401), State::Failed, Some(Reason::Unauthorized), 2, true),
        road(
            "in doubt, then sent",
            "",
            vec![Outcome::InDoubt(InDoubt::Timeout)],
            State::Sent,
            None,
            2,
            false,
        ),
        road(
            "no retries",
            r#","retry":"none""#,
            vec![answered(503)],
            State::FailedNoRetries,
            Some(Reason::ServerError),
            1,
            false,
        ),
        road("now or never", r#","ttl":0"#, vec![], State::Sent, None, 1, false),
        road(
            "now or never, refused",
            r#","ttl":0"#,
            vec![answered(503)],
            State::Failed,
            Some(Reason::TtlExceeded),
            1,
            true,
        ),
    ]
}

#[test]
fn every_road_ends_where_it_should() {
    for road in roads() {
        let harness = Harness::with_push(road.answers.clone(), road.fields).run_to_the_end();
        let entry = harness.entry("m").expect("it is in the ledger");
        assert_eq!((entry.state, entry.reason), (road.ends, road.reason), "{}", road.name);
        assert_eq!(harness.posts_to("m"), road.posts, "{}", road.name);
        let state = harness.memory.state();
        assert_eq!(state.bodies.len(), usize::from(road.dead_letter), "{}", road.name);
        let described = road.dead_letter || road.ends == State::Gone;
        assert_eq!(state.described.len(), usize::from(described), "{}", road.name);
        assert!(state.parked.is_empty(), "{}", road.name);
    }
}

#[test]
fn a_retry_after_is_never_undercut_by_the_queue_or_by_the_wait() {
    for secs in [5, 899, 900, 901, 1800, 86_000] {
        let mut harness = Harness::new();
        harness.subscribe("m");
        let start = harness.now();
        let answer = answered_with(429, &[("retry-after", &secs.to_string())]);
        harness.memory.state().answers.insert(Harness::endpoint("m"), vec![answer]);
        harness.produce(&Harness::message("m", r#","ttl":2419200"#));
        harness.run();
        let second = harness.memory.state().sent[1].at;
        assert!(second >= start.plus(Duration::from_secs(secs)), "{secs}");
        // Smear: a tenth, at most 30 s; half a minute more for what a bucket's release may take on virtual time.
        let late = second.since(start.plus(Duration::from_secs(secs)));
        assert!(late <= Duration::from_secs(31), "{secs}: {late:?} late");
    }
}

#[test]
fn the_ttl_header_is_what_remains() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    let answer = answered_with(429, &[("retry-after", "100")]);
    harness.memory.state().answers.insert(Harness::endpoint("m"), vec![answer]);
    harness.produce(&Harness::message("m", r#","ttl":1000"#));
    harness.run();
    let ttls: Vec<u32> = harness.memory.state().sent.iter().map(|push| push.ttl_secs).collect();
    assert_eq!(ttls[0], 1000);
    assert!((880..=900).contains(&ttls[1]), "{ttls:?}");
}

#[test]
fn a_message_that_comes_too_late_is_expired_and_nothing_is_sent() {
    let mut harness = Harness::with_push(vec![], r#","ttl":60"#);
    harness.memory.pass(Duration::from_secs(61));
    harness.run();
    assert_eq!(harness.state_of("m"), Some(State::Expired));
    assert_eq!(harness.posts_to("m"), 0);
}

#[test]
fn what_cannot_be_sent_anywhere_is_a_dead_letter_without_an_attempt() {
    let big = format!(
        r#"{{"tenant":"acme","id":"m","to":{{"subscription":"m"}},"payload":"{}"}}"#,
        "x".repeat(3994)
    );
    for (body, subscribed, reason) in [
        (Harness::message("m", ""), false, Reason::SubscriptionUnknown),
        (big, true, Reason::PayloadTooLarge),
    ] {
        let mut harness = Harness::new();
        if subscribed {
            harness.subscribe("m");
        }
        harness.produce(&body);
        harness.run();
        assert_eq!(harness.entry("m").and_then(|entry| entry.reason), Some(reason));
        assert_eq!(harness.posts_to("m"), 0);
        assert_eq!(harness.memory.state().bodies.len(), 1);
    }
}

#[test]
fn a_body_that_is_no_message_is_kept_for_a_day_and_never_loops() {
    let mut harness = Harness::new();
    harness.produce("{\"tenant\":\"acme\",\"surprise\":1}");
    harness.produce("no JSON at all");
    harness.run();
    let state = harness.memory.state();
    assert_eq!(state.dead_letters.get(&Reason::Malformed), Some(&2));
    assert_eq!(state.bodies.len(), 2);
    assert!(state.ledger.is_empty());
    let tenants: Vec<&str> = state.described.keys().map(|key| key.tenant.as_str()).collect();
    assert_eq!(tenants, ["_unknown", "acme"]);
}

#[test]
fn a_dead_letter_s_body_tells_the_lane_that_its_message_came_by() {
    let lanes = |produce: fn(&mut Harness, &str) -> String| {
        let mut harness = Harness::new();
        harness.subscribe("m");
        harness.memory.state().answers.insert(Harness::endpoint("m"), vec![answered(503), answered(400)]);
        produce(&mut harness, &Harness::message("m", ""));
        produce(&mut harness, r#"{"tenant":"acme","id":"broken"}"#);
        harness.run();
        let state = harness.memory.state();
        state.bodies.values().map(|body| body.lane).collect::<Vec<_>>()
    };
    assert_eq!(lanes(Harness::produce), [Some(Lane::Transactional), Some(Lane::Transactional)]);
    assert_eq!(lanes(Harness::produce_in_bulk), [Some(Lane::Bulk), Some(Lane::Bulk)]);
}

#[test]
fn a_rejection_with_400_is_counted_apart_from_other_failures() {
    let counted = |whom: Whom, answer: Outcome| {
        let mut harness = Harness::new();
        let message = whom.prepare(&harness, vec![answer], "");
        harness.produce(&message);
        harness.run();
        let counts = &harness.memory.state().counts;
        [Metric::BadRequests, Metric::PermanentFailures]
            .map(|it| counts.get(&it).copied().unwrap_or_default())
    };
    assert_eq!(counted(Whom::Browser, answered(400)), [1, 1]);
    for status in [403, 409, 410, 413] {
        assert_eq!(counted(Whom::Browser, answered(status)), [0, 1], "{status}");
    }
    // To a webhook's receiver 400 is a reason to try again.
    assert_eq!(counted(Whom::Hook, answered(400)), [0, 0]);
}
