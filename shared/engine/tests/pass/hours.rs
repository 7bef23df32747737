//! Messages with hours: they are sent within them and no attempt is made outside of them, each recipient by its own clock; what has no
//! hours before its end is over.

use std::time::Duration;

use redial_core::identity::Attempt;
use redial_core::ledger::{Cancellation, HeldBy, State};
use redial_core::quota::{Limit, Limits};
use redial_core::reason::Reason;
use redial_core::time::Timestamp;
use redial_core::zone::Zone;
use redial_engine::quota::QuotaGuard;
use redial_memory::senders::answered;

use crate::audiences::{delivery, message, tags};
use crate::crashes::kill_at_every_effect;
use crate::harness::{Harness, Whom, origin};
use crate::scenarios::retry_after;

/// The harness starts at 10:00 UTC.
fn between(from: &str, to: &str, more: &str) -> String {
    format!(r#","deliver_between":{{"from":"{from}","to":"{to}"{more}}},"ttl":172800"#)
}

fn noon() -> String {
    between("12:00", "13:00", "")
}

fn zone(name: &str) -> Option<Zone> {
    Zone::parse(name)
}

/// When something was posted, as hours and minutes of UTC.
fn posted(harness: &Harness, id: &str) -> Vec<String> {
    let state = harness.state();
    let of_it = state.sent.iter().filter(|push| push.endpoint == Harness::endpoint(id));
    of_it.map(|push| push.at.to_rfc3339()[8..16].to_owned()).collect()
}

/// By what it is held back, and for how many seconds from the start.
fn held(harness: &Harness, id: &str) -> (State, Option<HeldBy>, u64) {
    let entry = harness.entry(id).expect("it has an entry");
    let start = Timestamp::parse_rfc3339("2026-11-21T10:00:00Z").expect("valid");
    (entry.state, entry.held_by, entry.not_before.map_or(0, |at| at.since(start).as_secs()))
}

fn until_parked(harness: &mut Harness) {
    harness.run_until(|it| !it.state().parked.is_empty());
}

#[test]
fn a_message_outside_of_its_hours_waits_for_them_and_uses_no_attempt() {
    let mut harness = Harness::prepared(Whom::Browser, vec![], &noon());
    until_parked(&mut harness);
    assert_eq!(held(&harness, "m"), (State::Deferred, Some(HeldBy::Hours), 7_200));
    harness.run();
    assert_eq!(posted(&harness, "m"), ["21T12:00"]);
    let entry = harness.entry("m").expect("it was sent");
    assert_eq!((entry.state, entry.turn.attempt), (State::Sent, Attempt::FIRST));
    assert_eq!(harness.effects("claim"), 1, "none was made before");
    let waited = harness.state().measured.iter().map(|(.., ms)| *ms).fold(0.0, f64::max);
    assert!(waited < 120_000.0, "the wait is none of the sender's latency: {waited}");
}

#[test]
fn within_its_hours_a_message_is_sent_at_once() {
    for hours in [between("09:00", "20:00", ""), between("22:00", "10:30", ""), between("10:00", "10:01", "")]
    {
        let harness = Harness::finished(Whom::Browser, vec![], &hours);
        assert_eq!((posted(&harness, "m"), harness.effects("hold")), (vec!["21T10:00".to_owned()], 0));
    }
}

#[test]
fn hours_over_midnight_wait_for_the_evening() {
    let harness = Harness::finished(Whom::Browser, vec![], &between("22:00", "06:00", ""));
    assert_eq!(posted(&harness, "m"), ["21T22:00"]);
}

#[test]
fn its_own_zone_decides_before_the_subscription_s_and_that_before_the_stack_s() {
    // Nine o'clock in Kathmandu is 03:15Z, in New York 14:00Z, in Tokyo 00:00Z.
    for (own, stored, expected) in [
        (r#","time_zone":"Asia/Kathmandu""#, zone("America/New_York"), "22T03:15"),
        ("", zone("America/New_York"), "21T14:00"),
        ("", None, "22T00:00"),
    ] {
        let mut harness = Harness::new();
        harness.worker.settings.time_zone = zone("Asia/Tokyo").expect("a zone");
        harness.subscribe("m");
        harness.amend("m", |it| it.time_zone = stored);
        harness.deliver(&Harness::message("m", &between("09:00", "10:00", own)));
        assert_eq!(posted(&harness, "m"), [expected]);
    }
}

#[test]
fn what_has_no_hours_before_its_end_expires_at_once() {
    for ttl in [0, 1, 7_199, 7_200] {
        let fields = format!(r#","deliver_between":{{"from":"12:00","to":"13:00"}},"ttl":{ttl}"#);
        let harness = Harness::finished(Whom::Browser, vec![], &fields);
        assert_eq!(harness.ended("m"), (State::Expired, Some(Reason::TtlOver)), "{ttl}");
        assert_eq!((harness.posts_to("m"), harness.effects("park")), (0, 0), "{ttl}");
    }
    let fields = r#","deliver_between":{"from":"12:00","to":"13:00"},"ttl":7260"#;
    let harness = Harness::finished(Whom::Browser, vec![], fields);
    assert_eq!(harness.ended("m"), (State::Sent, None));
    let scheduled =
        r#","deliver_between":{"from":"09:00","to":"20:00"},"deliver_at":"2026-11-22T22:00:00Z","ttl":3600"#;
    let harness = Harness::finished(Whom::Browser, vec![], scheduled);
    assert_eq!((harness.ended("m"), harness.effects("park")), ((State::Expired, Some(Reason::TtlOver)), 0));
}

#[test]
fn a_ttl_of_zero_within_the_hours_is_one_attempt() {
    let fields = r#","deliver_between":{"from":"09:00","to":"20:00"},"ttl":0"#;
    let harness = Harness::finished(Whom::Browser, vec![answered(503)], fields);
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Failed), 1));
}

#[test]
fn a_schedule_outside_of_the_hours_waits_for_the_next_ones() {
    let fields = between("09:00", "20:00", "") + r#","deliver_at":"2026-11-21T22:00:00Z""#;
    let mut harness = Harness::prepared(Whom::Browser, vec![], &fields);
    until_parked(&mut harness);
    assert_eq!(held(&harness, "m"), (State::Deferred, Some(HeldBy::Hours), 23 * 3_600));
    harness.run();
    assert_eq!(posted(&harness, "m"), ["22T09:00"]);
}

#[test]
fn a_retry_outside_of_the_hours_waits_for_the_next_ones() {
    let mut harness =
        Harness::prepared(Whom::Browser, vec![retry_after(503, 1_800)], &between("09:00", "10:10", ""));
    harness.run_until(|it| it.entry("m").is_some_and(|it| it.held_by.is_some()));
    assert_eq!(held(&harness, "m"), (State::Retrying, Some(HeldBy::Hours), 23 * 3_600));
    harness.run();
    assert_eq!(posted(&harness, "m"), ["21T10:00", "22T09:00"]);
    assert_eq!(harness.entry("m").expect("sent").turn.attempt, Attempt(1), "the wait is none");
}

#[test]
fn a_retry_without_hours_before_its_end_expires() {
    let fields = r#","deliver_between":{"from":"09:00","to":"10:10"},"ttl":7200"#;
    let harness = Harness::finished(Whom::Browser, vec![retry_after(503, 1_800)], fields);
    assert_eq!(harness.ended("m"), (State::Expired, Some(Reason::TtlOver)));
    assert_eq!((harness.posts_to("m"), harness.bodies()), (1, 0));
}

#[test]
fn what_protection_holds_back_until_after_the_hours_waits_for_the_next_ones() {
    for has_lines in [true, false] {
        let mut harness = Harness::new();
        harness.worker.settings.origin_lines = has_lines;
        harness.open_breaker(&origin("https://push.example"), Duration::from_secs(3_600));
        harness.push("m", &between("09:00", "10:01", ""));
        harness.run();
        assert_eq!(posted(&harness, "m"), ["22T09:00"], "{has_lines}");
        let harness = {
            let mut harness = Harness::new();
            harness.worker.settings.origin_lines = has_lines;
            harness.open_breaker(&origin("https://push.example"), Duration::from_secs(3_600));
            harness.push("m", r#","deliver_between":{"from":"09:00","to":"10:01"},"ttl":36000"#);
            harness.run_to_the_end()
        };
        assert_eq!(harness.ended("m"), (State::Expired, Some(Reason::TtlOver)), "{has_lines}");
    }
}

#[test]
fn an_attempt_that_comes_too_late_for_the_hours_is_not_made() {
    let harness = Harness::prepared(Whom::Browser, vec![], &between("09:00", "10:01", ""));
    harness.pass(Duration::from_secs(57));
    harness.state().slow.insert("claim", Duration::from_secs(5));
    let harness = harness.run_to_the_end();
    assert_eq!(posted(&harness, "m"), ["22T09:00"]);
    assert_eq!(harness.entry("m").expect("sent").turn.attempt, Attempt::FIRST);
}

/// A harness with recipients in three places.
fn with_places(pages: bool) -> Harness {
    let mut harness = Harness::new();
    harness.worker.settings.audience_pages = pages;
    for (id, place) in [("berlin", "Europe/Berlin"), ("york", "America/New_York"), ("tokyo", "Asia/Tokyo")] {
        harness.subscribe(id);
        harness.amend(id, |it| (it.tags, it.time_zone) = (tags(&["news"]), zone(place)));
    }
    harness
}

#[test]
fn each_recipient_of_an_audience_gets_it_by_its_own_clock() {
    for pages in [false, true] {
        let mut harness = with_places(pages);
        harness.produce_in_bulk(&message(&between("09:00", "18:00", "")));
        harness.run();
        // It is 11:00 in Berlin, 05:00 in New York and 19:00 in Tokyo.
        let found = ["berlin", "york", "tokyo"].map(|id| posted(&harness, id));
        assert_eq!(found, [["21T10:00"], ["21T14:00"], ["22T00:00"]], "{pages}");
    }
}

#[test]
fn a_page_that_comes_too_late_for_the_hours_posts_nothing() {
    let mut harness = with_places(true);
    let hours = between("09:00", "10:01", r#","time_zone":"UTC""#);
    harness.produce_in_bulk(&message(&hours));
    harness.run_until(|it| it.travelling().iter().any(|body| body.contains("\"page\"")));
    harness.pass(Duration::from_secs(57));
    harness.state().slow.insert("audiences.write_sheet", Duration::from_secs(5));
    harness.run();
    for id in ["berlin", "york", "tokyo"] {
        assert_eq!(posted(&harness, id), ["22T09:00"], "{id}");
        assert_eq!(delivery(&harness, id), (State::Sent, None), "{id}");
    }
}

#[test]
fn a_recipient_whose_hours_come_too_late_expires_alone() {
    for pages in [false, true] {
        let mut harness = with_places(pages);
        let fields = r#","deliver_between":{"from":"09:00","to":"18:00"},"ttl":18000"#;
        harness.produce_in_bulk(&message(fields));
        harness.run();
        assert_eq!(["berlin", "york", "tokyo"].map(|id| harness.posts_to(id)), [1, 1, 0], "{pages}");
        assert_eq!(delivery(&harness, "tokyo"), (State::Expired, Some(Reason::TtlOver)), "{pages}");
    }
}

#[test]
fn a_message_to_an_audience_with_a_zone_of_its_own_waits_as_one() {
    for pages in [false, true] {
        let mut harness = with_places(pages);
        harness.produce_in_bulk(&message(&between("12:00", "13:00", r#","time_zone":"UTC""#)));
        until_parked(&mut harness);
        let waiting = {
            let state = harness.state();
            (state.parked.len(), state.runs.len())
        };
        assert_eq!(waiting, (1, 0), "{pages}");
        harness.run();
        let found = ["berlin", "york", "tokyo"].map(|id| posted(&harness, id));
        assert_eq!(found, [["21T12:00"], ["21T12:00"], ["21T12:00"]], "{pages}");
    }
}

#[test]
fn what_waits_for_its_hours_can_be_cancelled() {
    let mut harness = Harness::prepared(Whom::Browser, vec![], &noon());
    until_parked(&mut harness);
    assert!(matches!(harness.cancel("m"), Cancellation::Cancelled(_)));
    harness.run();
    assert_eq!((harness.ended("m").0, harness.posts_to("m")), (State::Cancelled, 0));
}

#[test]
fn a_message_that_is_sent_again_keeps_its_hours() {
    let mut harness = Harness::prepared(Whom::Browser, vec![answered(400)], &between("09:00", "10:01", ""));
    harness.run();
    assert_eq!(harness.ended("m").0, State::Failed);
    let body = harness.state().bodies.values().next().expect("a dead letter").body.clone();
    harness.pass(Duration::from_secs(600));
    harness.produce_retry(&body.replace(r#""lineage":0"#, r#""lineage":1"#));
    harness.run();
    assert_eq!(posted(&harness, "m"), ["21T10:00", "22T09:00"]);
}

#[test]
fn what_waits_for_its_hours_counts_towards_the_quota_and_is_parked_within_it() {
    let mut harness = Harness::new();
    harness.worker.quota_guard = QuotaGuard::new(Limits { parked: Limit::Most(3), ..Limits::OFF });
    harness.push_many("m", 5, &noon());
    harness.run();
    let ends = (0..5).map(|n| harness.ended(&format!("m{n}"))).collect::<Vec<_>>();
    assert_eq!(ends.iter().filter(|end| **end == (State::Sent, None)).count(), 3, "{ends:?}");
    let over = (State::Failed, Some(Reason::QuotaExceeded));
    assert_eq!(ends.iter().filter(|end| **end == over).count(), 2, "{ends:?}");
}

#[test]
fn a_retry_that_waits_for_its_hours_is_parked_over_the_quota() {
    let mut harness = Harness::new();
    harness.worker.quota_guard = QuotaGuard::new(Limits { parked: Limit::Most(0), ..Limits::OFF });
    harness.subscribe("m");
    harness.will_answer("m", vec![retry_after(503, 1_800)]);
    harness.deliver(&Harness::message("m", &between("09:00", "10:10", "")));
    assert_eq!(posted(&harness, "m"), ["21T10:00", "22T09:00"]);
}

#[test]
fn a_long_wait_for_the_hours_is_noted_once() {
    // From a bucket that ends early the message waits on, and is noted once.
    let fields = between("09:00", "09:30", "");
    let mut harness = Harness::prepared(Whom::Browser, vec![], &fields);
    harness.run();
    assert_eq!((posted(&harness, "m"), harness.effects("hold")), (vec!["22T09:00".to_owned()], 1));
}

#[test]
fn a_worker_that_dies_over_a_message_with_hours_loses_nothing_and_sends_within_them() {
    for (fields, answers) in
        [(noon(), vec![]), (between("09:00", "10:10", ""), vec![retry_after(503, 1_800)])]
    {
        let run = |death| {
            let harness = Harness::prepared(Whom::Browser, answers.clone(), &fields);
            harness.state().death = death;
            harness.run_to_the_end()
        };
        kill_at_every_effect(run, |harness, may_repeat, case| {
            assert_eq!(harness.state_of("m"), Some(State::Sent), "{case}");
            let posts = posted(harness, "m");
            assert!(
                (1 + answers.len()..=1 + answers.len() + usize::from(may_repeat)).contains(&posts.len()),
                "{case}"
            );
            let is_within = |at: &String| match answers.len() {
                0 => at.starts_with("21T12:"),
                _ => at.starts_with("21T10:0") || at.starts_with("22T09:"),
            };
            assert!(posts.iter().all(is_within), "{posts:?}: {case}");
        });
    }
}

#[test]
fn copies_of_a_message_with_hours_are_one_delivery() {
    let mut harness = Harness::new();
    harness.copies = true;
    harness.push("m", &noon());
    harness.run();
    assert_eq!(
        (harness.state_of("m"), posted(&harness, "m")),
        (Some(State::Sent), vec!["21T12:00".to_owned()])
    );
}
