//! What the ledger holds of a message as it was given, by whatever road it came there, and when it was dispatched.

use std::time::Duration;

use futures_util::FutureExt as _;
use redial_core::identity::DeliveryId;
use redial_core::ledger::{Given, State};
use redial_core::time::{Timestamp, Ttl};
use redial_engine::http_api::{accept, enter};
use redial_memory::senders::answered;

use crate::crashes::kill_at_every_effect;
use crate::harness::{Harness, Whom, tenant};
use crate::scenarios::to_all;

const SCHEDULED: &str = r#","deliver_at":"2026-11-21T13:00:00Z""#;

fn of_ttl(secs: u32) -> Given {
    Given { ttl: Some(Ttl::from_secs(secs)) }
}

/// What the ledger holds of `m`, and when it was dispatched.
#[track_caller]
fn known(harness: &Harness) -> (Given, Option<Timestamp>) {
    let entry = harness.entry("m").expect("it is in the ledger");
    (entry.given, entry.dispatched_at)
}

#[test]
fn whatever_dies_an_entry_has_its_message_s_ttl_and_the_time_of_its_dispatch() {
    for scenario in to_all() {
        let run = |death| {
            let harness = scenario.prepared();
            harness.state().death = death;
            harness.run_to_the_end()
        };
        let ttl = known(&run(None)).0;
        let is_its_class_s = ttl == of_ttl(14_400) || ttl == Given::default();
        assert_ne!(scenario.fields.contains("\"ttl\""), is_its_class_s, "{}: {ttl:?}", scenario.name);
        kill_at_every_effect(run, |harness, _, case| {
            let (given, dispatched) = known(harness);
            assert_eq!(given, ttl, "{}, {case}", scenario.name);
            let posts = harness.posts_to("m");
            assert!(dispatched.is_some() || posts == 0, "{}, {case}: {posts} posts", scenario.name);
        });
    }
}

#[test]
fn a_webhook_has_no_ttl_but_its_own() {
    for (fields, expected) in [("", Given::default()), (r#","ttl":90"#, of_ttl(90))] {
        assert_eq!(known(&Harness::finished(Whom::Hook, vec![], fields)).0, expected);
    }
}

#[test]
fn the_first_attempt_s_dispatch_stays_through_retries_and_replays() {
    let mut harness = Harness::prepared(Whom::Browser, vec![answered(503); 6], "");
    let at = harness.now();
    harness.run();
    assert_eq!((harness.state_of("m"), known(&harness)), (Some(State::Failed), (of_ttl(14_400), Some(at))));
    let body = harness.state().bodies.values().next().expect("a dead letter").body.clone();
    let replayed = body.replace(r#""lineage":0,"retry_count":5"#, r#""lineage":1,"retry_count":0"#);
    assert_ne!(replayed, body);
    harness.pass(Duration::from_secs(60));
    harness.produce_retry(&replayed);
    harness.run();
    assert_eq!((harness.state_of("m"), known(&harness)), (Some(State::Sent), (of_ttl(14_400), Some(at))));
}

#[test]
fn what_was_never_attempted_was_never_dispatched() {
    let mut harness = Harness::prepared(Whom::Browser, vec![], &format!(r#","ttl":60{SCHEDULED}"#));
    harness.run_until(|it| !it.state().parked.is_empty());
    assert_eq!(known(&harness), (of_ttl(60), None));
    harness.cancel("m");
    harness.run();
    assert_eq!(known(&harness), (of_ttl(60), None));

    let expired = Harness::prepared(Whom::Browser, vec![], r#","ttl":60"#);
    expired.pass(Duration::from_secs(61));
    let expired = expired.run_to_the_end();
    assert_eq!((expired.state_of("m"), known(&expired)), (Some(State::Expired), (of_ttl(60), None)));
}

#[test]
fn a_message_that_meets_its_cancellation_says_what_it_was_given() {
    let mut harness = Harness::new();
    harness.cancel("m");
    assert_eq!(known(&harness), (Given::default(), None));
    harness.push("m", r#","ttl":60"#);
    harness.run();
    assert_eq!((harness.state_of("m"), known(&harness)), (Some(State::Cancelled), (of_ttl(60), None)));
}

#[test]
fn what_the_api_accepts_is_known_before_a_worker_has_it_and_dispatched_when_one_has() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    let accepted = [{
        let made = DeliveryId::parse("made").expect("an id");
        let keys = &harness.worker.settings.hash_keys;
        let text = r#"{"id":"m","to":{"subscription":"m"},"payload":"hello m","ttl":60}"#;
        accept(text, &tenant(), &made, keys, harness.now()).expect("a message")
    }];
    let entered = enter(&harness.memory, &harness.memory, &accepted, harness.now());
    assert_eq!(entered.now_or_never().map(|answers| answers.len()), Some(1));
    assert_eq!((harness.state_of("m"), known(&harness)), (Some(State::Queued), (of_ttl(60), None)));
    harness.pass(Duration::from_secs(5));
    let at = harness.now();
    harness.run();
    assert_eq!((harness.state_of("m"), known(&harness)), (Some(State::Sent), (of_ttl(60), Some(at))));
}
