//! Tenants' quotas: what is over one ends with its reason, and nothing is lost.

use std::time::Duration;

use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::quota::{Limit, Limits, Quota};
use redial_core::reason::Reason;
use redial_engine::quota::QuotaGuard;
use redial_memory::senders::answered;
use redial_memory::{Death, PortErrorKind};

use crate::crashes::kill_at_every_effect;
use crate::harness::{Harness, tenant};
use crate::scenarios::retry_after;

/// Three hours from the harness's start.
const SCHEDULED: &str = r#","deliver_at":"2026-11-21T13:00:00Z""#;

const QUOTAS: Limits = Limits { parked: Limit::Most(3), dead_letters: Limit::Most(3), ..Limits::OFF };

fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.worker.quota_guard = QuotaGuard::new(QUOTAS);
    harness
}

fn ends(harness: &Harness, n: usize, end: (State, Option<Reason>)) -> usize {
    (0..n).filter(|at| harness.ended(&format!("m{at}")) == end).count()
}

const SENT: (State, Option<Reason>) = (State::Sent, None);
const OVER: (State, Option<Reason>) = (State::Failed, Some(Reason::QuotaExceeded));

#[test]
fn scheduled_messages_over_the_quota_are_dead_letters_and_those_within_are_sent() {
    let mut harness = harness();
    harness.push_many("m", 10, SCHEDULED);
    harness.run();
    assert_eq!((ends(&harness, 10, SENT), ends(&harness, 10, OVER)), (3, 7));
    assert_eq!((harness.dead_letters(Reason::QuotaExceeded), harness.bodies()), (7, 3), "by another quota");
    assert_eq!(harness.count(Metric::QuotaExceeded), 7 + 4);
    let logged: Vec<_> = harness.state().exceeded.iter().map(|(of, it)| (of.clone(), it.quota)).collect();
    assert_eq!(logged, [(tenant(), Quota::Parked), (tenant(), Quota::DeadLetters)]);
}

#[test]
fn what_its_tenant_did_not_ask_to_wait_is_parked_over_the_quota() {
    let mut harness = harness();
    for at in 0..10 {
        harness.will_answer(&format!("m{at}"), vec![retry_after(429, 1_800)]);
    }
    harness.push_many("m", 10, "");
    harness.run();
    assert_eq!(ends(&harness, 10, SENT), 10);
    assert_eq!(harness.effects("add_usage"), 1, "they are counted");
}

#[test]
fn places_are_free_again_once_their_messages_were_sent() {
    let mut harness = harness();
    for (name, at) in [("a", "11"), ("b", "12"), ("c", "13")] {
        harness.push_many(name, 3, &format!(r#","deliver_at":"2026-11-21T{at}:00:00Z""#));
        harness.run();
        // The window of the last ones is over.
        harness.pass(Duration::from_secs(900));
        assert!(harness.all_are(name, 3, State::Sent), "{name}");
    }
}

#[test]
fn who_waits_for_long_waits_on_though_the_quota_is_used_up_by_then() {
    let mut harness = harness();
    harness.push_many("m", 3, r#","deliver_at":"2026-11-22T01:30:00Z""#);
    harness.run_until(|harness| harness.effects("park") > 0);
    harness.worker.quota_guard = QuotaGuard::new(Limits { parked: Limit::Most(0), ..QUOTAS });
    harness.run();
    assert_eq!(ends(&harness, 3, SENT), 3);
    assert!(harness.effects("park") > 1, "they were parked again");
}

#[test]
fn another_tenant_and_immediate_messages_are_not_hindered() {
    let mut harness = harness();
    harness.push_many("m", 10, SCHEDULED);
    let to = |id: &str| format!(r#""to":{{"webhook":{{"url":"https://hooks.example/{id}"}}}}"#);
    for at in 0..3 {
        harness.produce(&format!(r#"{{"tenant":"other","id":"o{at}",{}{SCHEDULED}}}"#, to("o")));
    }
    harness.push("now", "");
    harness.run();
    assert_eq!((ends(&harness, 10, SENT), harness.state_of("now")), (3, Some(State::Sent)));
    assert_eq!(harness.posts_to("o"), 3);
}

#[test]
fn a_dead_letter_over_the_quota_keeps_its_end_and_description_without_a_body() {
    let mut harness = harness();
    for at in 0..5 {
        harness.will_answer(&format!("m{at}"), vec![answered(400)]);
    }
    harness.push_many("m", 5, "");
    harness.run();
    let rejected = (State::Failed, Some(Reason::Rejected));
    assert_eq!((ends(&harness, 5, rejected), harness.dead_letters(Reason::Rejected)), (5, 5));
    assert_eq!(harness.bodies(), 3);
    let described: Vec<_> = harness.state().described.values().map(|it| it.detail.clone()).collect();
    let without = "no body is kept: over the tenant's quota of dead letters";
    assert_eq!(
        (described.len(), described.iter().filter(|it| it.as_deref() == Some(without)).count()),
        (5, 2)
    );
}

#[test]
fn a_delivery_that_succeeds_reads_and_counts_no_quota() {
    let mut harness = harness();
    harness.push_many("m", 10, "");
    harness.run();
    assert_eq!(ends(&harness, 10, SENT), 10);
    assert_eq!((harness.effects("usage"), harness.effects("add_usage")), (0, 0));
}

#[test]
fn a_batch_is_one_reading_and_one_count() {
    for n in [3, 10] {
        let mut harness = harness();
        harness.worker.quota_guard = QuotaGuard::new(Limits { dead_letters: Limit::Off, ..QUOTAS });
        harness.push_many("m", n, SCHEDULED);
        harness.run();
        assert_eq!((harness.effects("usage"), harness.effects("add_usage")), (1, 1), "{n}");
    }
}

#[test]
fn counts_that_cannot_be_read_or_written_hold_nothing_back() {
    for (name, kind) in [
        ("usage", PortErrorKind::Broken),
        ("usage", PortErrorKind::Throttled),
        ("add_usage", PortErrorKind::Broken),
        ("add_usage", PortErrorKind::Lost),
    ] {
        let mut harness = harness();
        harness.memory.fail(name, 1, kind);
        harness.push_many("m", 3, SCHEDULED);
        harness.run();
        assert_eq!(ends(&harness, 3, SENT), 3, "{name} {kind:?}");
    }
}

#[test]
fn a_worker_that_dies_at_any_effect_loses_nothing_and_its_counts_heal() {
    let run = |death| {
        let mut harness = harness();
        harness.push_many("m", 5, SCHEDULED);
        harness.state().death = death;
        harness.run();
        harness
    };
    let deaths = kill_at_every_effect(run, |harness, _, case| {
        let (sent, over) = (ends(harness, 5, SENT), ends(harness, 5, OVER));
        assert_eq!(sent + over, 5, "{case}");
        assert!(sent >= 3, "{sent} {case}");
        let now = harness.now().plus(Duration::from_secs(900));
        let counts = |quota| harness.state().used.keys().any(|it| it.quota == quota && it.until > now);
        assert!(!counts(Quota::Parked), "nothing waits, and nothing counts: {case}");
    });
    assert!(deaths > 20, "{deaths}");
    let harness = run(Some(Death::AfterNext("add_usage")));
    assert_eq!(ends(&harness, 5, SENT) + ends(&harness, 5, OVER), 5);
}
