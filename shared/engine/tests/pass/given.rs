//! What the ledger holds of a message as it was given, by whatever road it came there, and when it was dispatched.

use std::time::Duration;

use futures_util::FutureExt as _;
use redial_core::identity::DeliveryId;
use redial_core::ledger::{Given, State};
use redial_core::tag::MessageTags;
use redial_core::time::{Timestamp, Ttl};
use redial_engine::http_api::{accept, enter};
use redial_memory::senders::answered;
use serde_json::json;

use crate::audiences::{current_run, message, with_readers};
use crate::crashes::kill_at_every_effect;
use crate::harness::{Harness, Whom, tenant};
use crate::scenarios::to_all;

const SCHEDULED: &str = r#","deliver_at":"2026-11-21T13:00:00Z""#;

/// The tags of every message here.
const TAGS: &str = r#","tags":["order","region:eu"]"#;

fn tags() -> MessageTags {
    MessageTags::from_text("order region:eu").expect("two tags")
}

fn of_ttl(secs: u32) -> Given {
    Given { ttl: Some(Ttl::from_secs(secs)), ..without_ttl() }
}

fn without_ttl() -> Given {
    Given { ttl: None, tags: tags() }
}

/// Every event of a delivery, and every dead letter, has the tags of its message.
#[track_caller]
fn assert_all_are_tagged(harness: &Harness, case: &str) {
    let of_deliveries = harness.events.iter().filter(|event| !event["id"].is_null());
    for event in of_deliveries {
        assert_eq!(event["tags"], json!(["order", "region:eu"]), "{case}: {event}");
    }
    let state = harness.state();
    for reference in state.described.values() {
        assert_eq!(reference.tags.as_deref(), Some("order region:eu"), "{case}: {reference:?}");
    }
    assert!(state.bodies.values().all(|kept| kept.body.contains(TAGS.trim_start_matches(','))), "{case}");
}

/// What the ledger holds of `m`, and when it was dispatched.
#[track_caller]
fn known(harness: &Harness) -> (Given, Option<Timestamp>) {
    let entry = harness.entry("m").expect("it is in the ledger");
    (entry.given, entry.dispatched_at)
}

#[test]
fn whatever_dies_ttl_tags_and_dispatch_are_in_all_that_is_recorded() {
    for scenario in to_all() {
        let run = |death| {
            let fields = format!("{}{TAGS}", scenario.fields);
            let harness = Harness::prepared(scenario.to, scenario.answers.clone(), &fields);
            let mut state = harness.state();
            (state.death, state.has_events) = (death, true);
            drop(state);
            harness.run_to_the_end()
        };
        let ttl = known(&run(None)).0;
        let is_its_class_s = ttl == of_ttl(14_400) || ttl == without_ttl();
        assert_ne!(scenario.fields.contains("\"ttl\""), is_its_class_s, "{}: {ttl:?}", scenario.name);
        kill_at_every_effect(run, |harness, _, case| {
            let (given, dispatched) = known(harness);
            assert_eq!(given, ttl, "{}, {case}", scenario.name);
            let posts = harness.posts_to("m");
            assert!(dispatched.is_some() || posts == 0, "{}, {case}: {posts} posts", scenario.name);
            assert_all_are_tagged(harness, &format!("{}, {case}", scenario.name));
        });
    }
}

#[test]
fn a_webhook_has_no_ttl_but_its_own() {
    for (fields, expected) in [("", without_ttl()), (r#","ttl":90"#, of_ttl(90))] {
        assert_eq!(known(&Harness::finished(Whom::Hook, vec![], &format!("{fields}{TAGS}"))).0, expected);
    }
}

#[test]
fn the_first_attempt_s_dispatch_stays_through_retries_and_replays() {
    let mut harness = Harness::prepared(Whom::Browser, vec![answered(503); 6], TAGS);
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
    let mut harness = Harness::prepared(Whom::Browser, vec![], &format!(r#","ttl":60{SCHEDULED}{TAGS}"#));
    harness.run_until(|it| !it.state().parked.is_empty());
    assert_eq!(known(&harness), (of_ttl(60), None));
    harness.cancel("m");
    harness.run();
    assert_eq!(known(&harness), (of_ttl(60), None));

    let expired = Harness::prepared(Whom::Browser, vec![], &format!(r#","ttl":60{TAGS}"#));
    expired.pass(Duration::from_secs(61));
    let expired = expired.run_to_the_end();
    assert_eq!((expired.state_of("m"), known(&expired)), (Some(State::Expired), (of_ttl(60), None)));
}

#[test]
fn a_message_that_meets_its_cancellation_says_what_it_was_given() {
    let mut harness = Harness::new();
    harness.cancel("m");
    assert_eq!(known(&harness), (Given::default(), None));
    harness.state().has_events = true;
    harness.push("m", &format!(r#","ttl":60{TAGS}"#));
    harness.run();
    assert_all_are_tagged(&harness, "");
    assert_eq!((harness.state_of("m"), known(&harness)), (Some(State::Cancelled), (of_ttl(60), None)));
}

#[test]
fn an_accepted_message_is_queued_first_and_dispatched_by_a_worker() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    let accepted = [{
        let made = DeliveryId::parse("made").expect("an id");
        let keys = &harness.worker.settings.hash_keys;
        let text = format!(r#"{{"id":"m","to":{{"subscription":"m"}},"payload":"hello m","ttl":60{TAGS}}}"#);
        accept(&text, &tenant(), &made, None, keys, harness.now()).expect("a message")
    }];
    let entered = enter(&harness.memory, &harness.memory, &accepted, harness.now());
    assert_eq!(entered.now_or_never().map(|answers| answers.len()), Some(1));
    assert_eq!((harness.state_of("m"), known(&harness)), (Some(State::Queued), (of_ttl(60), None)));
    harness.pass(Duration::from_secs(5));
    let at = harness.now();
    harness.run();
    assert_eq!((harness.state_of("m"), known(&harness)), (Some(State::Sent), (of_ttl(60), Some(at))));
}

#[test]
fn a_delivery_has_the_tags_of_the_message_that_is_delivered() {
    // Another message of the same id waits, with other tags.
    let mut harness = Harness::new();
    harness.push("m", &format!(r#"{SCHEDULED},"tags":["other"]"#));
    harness.run_until(|it| !it.state().parked.is_empty());
    assert_eq!(known(&harness).0.tags.to_text().as_deref(), Some("other"));
    harness.push("m", TAGS);
    harness.run();
    assert_eq!((harness.state_of("m"), known(&harness).0.tags), (Some(State::Sent), tags()));
}

#[test]
fn what_is_poison_or_of_another_content_keeps_its_tags() {
    let mut harness = Harness::finished(Whom::Browser, vec![], TAGS);
    harness.state().has_events = true;
    let another = Harness::message_to("m", "m", TAGS).replace("hello m", "another content");
    harness.produce(&another);
    harness.run();
    harness.poison(&Harness::message("p", TAGS));
    harness.run();
    assert_eq!(harness.state().described.len(), 2);
    assert_all_are_tagged(&harness, "");
    assert_eq!(harness.entry("p").expect("it has ended").given.tags, tags());
}

#[test]
fn recipients_of_an_audience_have_the_message_s_tags_also_by_the_page() {
    for by_the_page in [false, true] {
        let mut harness = with_readers(20);
        harness.worker.settings.audience_pages = by_the_page;
        harness.state().has_events = true;
        // One fails, and one is retried.
        harness.will_answer("s3", vec![answered(400)]);
        harness.will_answer("s4", vec![answered(503)]);
        harness.produce_in_bulk(&message(TAGS));
        harness.run();
        assert_all_are_tagged(&harness, &format!("{by_the_page}"));
        assert!(harness.events.len() > 20 && harness.state().described.len() == 1);
        let run = current_run(&harness);
        let state = harness.state();
        for id in (0..20).map(|n| format!("s{n}")) {
            let subscription = Harness::subscription_key(&id).id;
            let id = state.recipient(&run, &subscription).id;
            let known = state.known(&Harness::key(id.as_str())).expect("it is known");
            assert_eq!(known.given.tags, tags(), "{by_the_page}");
        }
        assert!(state.sent.iter().all(|push| push.payload == b"hello"), "no tag is in what is delivered");
    }
}
