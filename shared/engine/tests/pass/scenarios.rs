//! Every way out of dispatch: what is answered, and how the delivery ends.

use std::time::Duration;

use redial_core::lane::Lane;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::outcome::{InDoubt, Outcome};
use redial_core::reason::Reason;
use redial_core::strip::StripFields;
use redial_core::subscription;
use redial_memory::senders::{answered, answered_with};

use crate::harness::{Harness, Whom};

/// A message to `m`: what is answered, and how the delivery ends.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) to: Whom,
    pub(crate) fields: &'static str,
    pub(crate) answers: Vec<Outcome>,
    pub(crate) end: (State, Option<Reason>),
}

pub(crate) fn retry_after(status: u16, secs: u64) -> Outcome {
    answered_with(status, &[("retry-after", &secs.to_string())])
}

impl Scenario {
    fn new(name: &'static str, fields: &'static str, answers: Vec<Outcome>, end: State) -> Self {
        Self { name, to: Whom::Browser, fields, answers, end: (end, None) }
    }

    /// The message is accepted after these answers.
    pub(crate) fn sent(name: &'static str, fields: &'static str, answers: Vec<Outcome>) -> Self {
        Self::new(name, fields, answers, State::Sent)
    }

    /// The last of these answers ends the delivery.
    pub(crate) fn failed(
        name: &'static str,
        fields: &'static str,
        answers: Vec<Outcome>,
        reason: Reason,
    ) -> Self {
        Self::new(name, fields, answers, State::Failed).ends(State::Failed, reason)
    }

    pub(crate) fn ends(self, state: State, reason: Reason) -> Self {
        Self { end: (state, Some(reason)), ..self }
    }

    pub(crate) fn prepared(&self) -> Harness {
        Harness::prepared(self.to, self.answers.clone(), self.fields)
    }

    pub(crate) fn posts(&self) -> usize {
        self.answers.len() + usize::from(self.end.0 == State::Sent)
    }

    /// Asserts that the delivery ended so, and nothing is left. After a POST that no record followed it may be made once more.
    pub(crate) fn assert_ended(&self, harness: &Harness, may_repeat: bool, case: &str) {
        let case = format!("{}, {case}", self.name);
        let entry = harness.entry("m").expect("it is in the ledger");
        let posts = harness.posts_to("m");
        let state = harness.state();
        assert!(entry.state.is_terminal(), "{case}: lost in {entry:?}");
        if may_repeat {
            // One attempt more, which a 401 makes two posts.
            assert!((self.posts()..=self.posts() + 2).contains(&posts), "{case}: {posts} posts");
        } else {
            assert_eq!(posts, self.posts(), "{case}");
            assert_eq!((entry.state, entry.reason), self.end, "{case}");
            let is_dead_letter = entry.state == State::Failed;
            let is_described = is_dead_letter || entry.state == State::Gone;
            let kept = (state.bodies.len(), state.described.len());
            assert_eq!(kept, (usize::from(is_dead_letter), usize::from(is_described)), "{case}");
        }
        if entry.reason == Some(Reason::Gone) {
            let mut subscriptions = state.subscriptions.values();
            assert!(subscriptions.all(|it| it.state != subscription::State::Active), "{case}");
        }
        assert!(state.webhooks.iter().all(|it| it.id == "m" && it.body == b"hello m"), "{case}");
        assert!(state.parked.is_empty(), "{case}");
        assert!(harness.queued().is_empty() && harness.redriven.is_empty(), "{case}");
    }
}

pub(crate) fn to_a_browser() -> Vec<Scenario> {
    let (sent, failed) = (Scenario::sent, Scenario::failed);
    let at_once = r#","ttl":0"#;
    vec![
        sent("sent", "", vec![]),
        sent("503 then sent", "", vec![answered(503)]),
        sent("short Retry-After", "", vec![retry_after(429, 5)]),
        sent("long Retry-After", "", vec![retry_after(429, 1800)]),
        sent("scheduled", r#","deliver_at":"2026-11-21T13:00:00Z""#, vec![]),
        failed(
            "Retry-After past the TTL",
            r#","ttl":1000"#,
            vec![retry_after(503, 1200)],
            Reason::TtlExceeded,
        ),
        failed("retries exhausted", "", vec![answered(500); 6], Reason::RetriesExhausted),
        failed("gone", "", vec![answered(410)], Reason::Gone).ends(State::Gone, Reason::Gone),
        failed("not found", "", vec![answered(404)], Reason::NotFound).ends(State::Gone, Reason::NotFound),
        failed("rejected", "", vec![answered(400)], Reason::Rejected),
        failed("too large", "", vec![answered(413)], Reason::PayloadTooLarge),
        sent("cured 401", "", vec![answered(401)]),
        failed("401 twice", "", vec![answered(401); 2], Reason::Unauthorized),
        sent("in doubt, then sent", "", vec![Outcome::InDoubt(InDoubt::Timeout)]),
        sent("no retries", r#","retry":"none""#, vec![answered(503)])
            .ends(State::FailedNoRetries, Reason::ServerError),
        sent("now or never", at_once, vec![]),
        failed("now or never, refused", at_once, vec![answered(503)], Reason::TtlExceeded),
    ]
}

/// Those of a webhook, to a subscription and to a bare address.
pub(crate) fn to_webhooks() -> Vec<Scenario> {
    let (sent, failed) = (Scenario::sent, Scenario::failed);
    let once = r#","retry":{"max_retries":0}"#;
    let all = [
        sent("sent", "", vec![]),
        sent("500 then sent", "", vec![answered(500)]),
        sent("a redirect, a 404, then sent", "", vec![answered(302), answered(404)]),
        sent("long Retry-After", "", vec![retry_after(503, 1800)]),
        sent("in doubt, then sent", "", vec![Outcome::InDoubt(InDoubt::Timeout)]),
        failed("gone", "", vec![answered(410)], Reason::Gone),
        failed("failed once, then gone", "", vec![answered(500), answered(410)], Reason::Gone),
        failed("exhausted", "", vec![answered(500); 4], Reason::RetriesExhausted),
        failed("one attempt", once, vec![answered(401)], Reason::RetriesExhausted),
    ];
    let to = |to| all.clone().map(|scenario| Scenario { to, ..scenario });
    [to(Whom::Hook), to(Whom::Address)].concat()
}

pub(crate) fn to_all() -> Vec<Scenario> {
    [to_a_browser(), to_webhooks()].concat()
}

#[test]
fn a_retry_after_is_never_undercut_by_the_queue_or_by_the_wait() {
    for secs in [5, 899, 900, 901, 1800, 86_000] {
        let start = Harness::new().now();
        let harness = Harness::finished(Whom::Browser, vec![retry_after(429, secs)], r#","ttl":2419200"#);
        let (second, due) = (harness.state().sent[1].at, start.plus(Duration::from_secs(secs)));
        assert!(second >= due, "{secs}");
        // Smear: a tenth, at most 30 s; half a minute more for what a bucket's release may take on virtual time.
        assert!(second.since(due) <= Duration::from_secs(31), "{secs}: {second:?} is late");
    }
}

#[test]
fn the_ttl_header_is_what_remains() {
    let harness = Harness::finished(Whom::Browser, vec![retry_after(429, 100)], r#","ttl":1000"#);
    let ttls: Vec<u32> = harness.state().sent.iter().map(|push| push.ttl_secs).collect();
    assert!(matches!(ttls[..], [1000, 880..=900]), "{ttls:?}");
}

#[test]
fn a_message_that_comes_too_late_is_expired_and_nothing_is_sent() {
    for whom in [Whom::Browser, Whom::Address] {
        let mut harness = Harness::prepared(whom, vec![], r#","ttl":60"#);
        harness.pass(Duration::from_secs(61));
        harness.run();
        assert_eq!(harness.ended("m"), (State::Expired, Some(Reason::TtlOver)), "{whom:?}");
        assert_eq!(harness.posts_to("m"), 0, "{whom:?}");
    }
}

#[test]
fn what_cannot_be_sent_anywhere_is_a_dead_letter_without_an_attempt() {
    for (body, subscribed, reason) in [
        (Harness::message("m", ""), false, Reason::SubscriptionUnknown),
        (Harness::long_message(3994, ""), true, Reason::PayloadTooLarge),
    ] {
        let mut harness = Harness::new();
        if subscribed {
            harness.subscribe("m");
        }
        harness.deliver(&body);
        assert_eq!(harness.ended("m"), (State::Failed, Some(reason)));
        assert_eq!((harness.posts_to("m"), harness.bodies()), (0, 1));
    }
}

#[test]
fn a_body_that_is_no_message_is_kept_for_a_day_and_never_loops() {
    let mut harness = Harness::new();
    harness.produce("{\"tenant\":\"acme\",\"surprise\":1}");
    harness.deliver("no JSON at all");
    assert_eq!(harness.dead_letters(Reason::Malformed), 2);
    let state = harness.state();
    assert_eq!((state.bodies.len(), state.ledger.len()), (2, 0));
    let tenants: Vec<&str> = state.described.keys().map(|key| key.tenant.as_str()).collect();
    assert_eq!(tenants, ["_unknown", "acme"]);
}

#[test]
fn a_dead_letter_s_body_names_the_lane_that_its_message_came_by() {
    for (produce, lane) in [
        (Harness::produce as fn(&mut Harness, &str) -> String, Lane::Transactional),
        (Harness::produce_in_bulk, Lane::Bulk),
    ] {
        let mut harness = Harness::new();
        harness.subscribe("m");
        harness.will_answer("m", vec![answered(503), answered(400)]);
        produce(&mut harness, &Harness::message("m", ""));
        produce(&mut harness, r#"{"tenant":"acme","id":"broken"}"#);
        harness.run();
        let state = harness.state();
        assert_eq!(state.bodies.values().map(|body| body.lane).collect::<Vec<_>>(), [Some(lane); 2]);
    }
}

#[test]
fn a_rejection_with_400_is_counted_apart_from_other_failures() {
    for (whom, status, expected) in [
        (Whom::Browser, 400, [1, 1]),
        (Whom::Browser, 403, [0, 1]),
        (Whom::Browser, 409, [0, 1]),
        (Whom::Browser, 410, [0, 1]),
        (Whom::Browser, 413, [0, 1]),
        // To a webhook's receiver 400 is a reason to try again.
        (Whom::Hook, 400, [0, 0]),
    ] {
        let harness = Harness::finished(whom, vec![answered(status)], "");
        let counted = [Metric::BadRequests, Metric::PermanentFailures].map(|metric| harness.count(metric));
        assert_eq!(counted, expected, "{whom:?}, {status}");
    }
}

#[test]
fn pushes_lose_the_fields_that_the_operator_named_and_webhooks_keep_them() {
    const PAYLOAD: &str = r#"{"title":"T", "trace":"s3cret"}"#;
    let mut harness = Harness::new();
    harness.worker.settings.strip = StripFields::parse("trace").expect("a name");
    harness.subscribe("b");
    harness.subscribe_hook("h");
    for to in ["b", "h"] {
        harness.produce(&format!(
            r#"{{"tenant":"acme","id":"{to}","to":{{"subscription":"{to}"}},"payload":{PAYLOAD}}}"#
        ));
    }
    harness.will_answer("b", vec![answered(503)]);
    harness.run();
    let state = harness.state();
    let payloads: Vec<&[u8]> = state.sent.iter().map(|push| push.payload.as_slice()).collect();
    assert_eq!(payloads, [br#"{"title":"T"}"#; 2], "at a retry, too");
    assert_eq!(
        state.webhooks.iter().map(|hook| hook.body.as_slice()).collect::<Vec<_>>(),
        [PAYLOAD.as_bytes()]
    );
}
