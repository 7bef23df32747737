//! Messages to audiences: each recipient gets the message once, even if workers die.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use redial_core::audience::{Expansion, RecipientRef, RunKey};
use redial_core::identity::SubscriptionId;
use redial_core::ledger::State;
use redial_core::reason::Reason;
use redial_core::subscription::State as Standing;
use redial_core::tag::{Tag, Tags};
use redial_testkit::memory::Death;
use redial_testkit::memory::sender::answered;

use crate::harness::Harness;

pub(crate) fn tags(names: &[&str]) -> Tags {
    Tags::new(names.iter().filter_map(|name| Tag::parse(name)).collect()).expect("valid")
}

/// So many subscriptions with the tag `news`, and one without.
pub(crate) fn readers(harness: &Harness, n: usize) {
    for id in (0..n).map(|n| format!("s{n}")) {
        harness.subscribe(&id);
        harness.amend(&id, |it| it.tags = tags(&["news"]));
    }
    harness.subscribe("other");
    harness.amend("other", |it| it.tags = tags(&["sport"]));
}

pub(crate) fn message(more: &str) -> String {
    format!(r#"{{"tenant":"acme","id":"n1","to":{{"audience":{{"tag":"news"}}}},"payload":"hello"{more}}}"#)
}

/// The run that the id of [`message`] finds.
pub(crate) fn current_run(harness: &Harness) -> RunKey {
    let message = Harness::key("n1").id;
    let state = harness.memory.state();
    let of_message = state.runs.values().filter(|run| run.message == message);
    of_message.max_by_key(|run| run.opened_at).expect("opened").key.clone()
}

/// What the recipient's own delivery came to.
pub(crate) fn delivery(harness: &Harness, subscription: &str) -> Option<(State, Option<Reason>)> {
    let id = SubscriptionId::parse(subscription).expect("valid");
    let own = RecipientRef::new(&current_run(harness), id).id;
    harness.entry(own.as_str()).map(|entry| (entry.state, entry.reason))
}

fn all_got_it_once(harness: &Harness, n: usize, case: &str) {
    for id in (0..n).map(|n| format!("s{n}")) {
        assert_eq!(harness.posts_to(&id), 1, "{id}, {case}");
        assert_eq!(delivery(harness, &id), Some((State::Sent, None)), "{id}, {case}");
    }
    assert_eq!(harness.posts_to("other"), 0, "{case}");
    assert_eq!(harness.state_of("n1"), Some(State::Expanded), "{case}");
}

#[test]
fn each_bearer_of_the_tag_gets_it_once_and_nobody_else() {
    let mut harness = Harness::new();
    readers(&harness, 250);
    harness.produce_in_bulk(&message(""));
    harness.run();
    all_got_it_once(&harness, 250, "");
    let state = harness.memory.state();
    assert!(state.sent.iter().all(|push| push.payload == b"hello"));
    let handed_on: u64 = state.progress.values().map(|part| part.recipients).sum();
    assert_eq!((handed_on, state.progress.values().filter(|part| part.done).count()), (250, 16));
}

#[test]
fn what_travels_to_a_recipient_refers_to_the_payload_and_a_dead_letter_holds_it() {
    let mut harness = Harness::new();
    readers(&harness, 1);
    harness.memory.state().usual_answer = Some(answered(503));
    harness.produce(&message(r#","retry":{"max_retries":1}"#));
    harness.run_until(|it| it.travelling().iter().any(|body| body.contains("\"retry_count\":1")));
    let travelling = harness.travelling();
    assert!(travelling.iter().all(|body| !body.contains("hello")), "{travelling:?}");
    harness.run();
    assert_eq!(delivery(&harness, "s0"), Some((State::Failed, Some(Reason::RetriesExhausted))));
    let state = harness.memory.state();
    let body = state.bodies.values().next().expect("a dead letter");
    assert!(body.body.contains(r#""payload":"hello""#) && !body.body.contains("audience"), "{}", body.body);
}

#[test]
fn killed_at_any_effect_everybody_gets_it_once() {
    let whole = |death| {
        let mut harness = Harness::new();
        readers(&harness, 12);
        harness.memory.state().death = death;
        harness.produce(&message(""));
        harness.run();
        harness
    };
    let trace = whole(None).memory.state().trace.clone();
    assert!(trace.len() > 60, "{trace:?}");
    for n in 1..=trace.len() {
        for death in [Death::Before(n), Death::After(n)] {
            let harness = whole(Some(death));
            let case = format!("{death:?} ({})", trace[n - 1]);
            let made = match death {
                Death::Before(_) => &trace[..n - 1],
                Death::After(_) => &trace[..n],
            };
            // Between a POST and its record a repetition cannot be excluded.
            let may_repeat = made.iter().rfind(|name| matches!(**name, "post" | "record")) == Some(&"post");
            for id in (0..12).map(|n| format!("s{n}")) {
                let posts = harness.posts_to(&id);
                assert!(posts == 1 || may_repeat && posts == 2, "{id}: {posts} posts, {case}");
                assert_eq!(delivery(&harness, &id).map(|it| it.0), Some(State::Sent), "{id}, {case}");
            }
        }
    }
}

#[test]
fn fifty_thousand_get_it_once_though_who_hands_it_on_is_killed_ten_times() {
    const RECIPIENTS: usize = 50_000;
    let mut rng = StdRng::seed_from_u64(17);
    let mut harness = Harness::new();
    readers(&harness, RECIPIENTS);
    harness.hold_recipients_back();
    harness.produce_in_bulk(&message(""));
    for _ in 0..10 {
        harness.memory.revive();
        // Some four effects a page, and five hundred pages.
        let at = rng.random_range(1..180);
        let death = if rng.random_bool(0.5) { Death::Before(at) } else { Death::After(at) };
        harness.memory.state().death = Some(death);
        harness.run_until(|it| it.memory.state().death.is_none());
    }
    harness.run();
    let handed_on: u64 = harness.memory.state().progress.values().map(|part| part.recipients).sum();
    assert_eq!(handed_on, RECIPIENTS as u64);
    assert!(harness.held_back() > RECIPIENTS, "killed between sending and noting, pages were sent again");
    let sent = harness.deliver_held_back();
    assert_eq!(sent.len(), RECIPIENTS, "each once");
}

#[test]
fn whoever_crosses_another_on_a_part_comes_back_for_the_other_may_die() {
    let mut harness = Harness::new();
    readers(&harness, 40);
    harness.produce(&message(""));
    harness.run_until(|it| it.travelling().iter().any(|body| body.contains("\"expand\"")));
    // One message, delivered twice: the first of its workers dies when the second has moved the part on.
    let part = harness.travelling().into_iter().find(|body| body.contains("\"shard\":8")).expect("part 8");
    let id = harness.produce_retry(&part);
    let incoming = harness.incoming_of(&id);
    let key = (current_run(&harness), 8);
    let moved = redial_core::audience::Progress { recipients: 1, ..Default::default() };
    harness.memory.state().crossing = Some((key, moved));
    assert_eq!(harness.invoke_with(vec![incoming]), [id], "it is not acknowledged");
}

#[test]
fn with_acknowledgements_what_is_too_long_for_a_recipient_is_refused_before_it_is_handed_on() {
    let mut seen = [false; 2];
    for spare in (60..260).step_by(4) {
        let mut harness = Harness::new();
        readers(&harness, 1);
        harness.produce(&message(r#","acks":true"#).replace("hello", &"x".repeat(3_993 - spare)));
        harness.run();
        let end = harness.entry("n1").map(|entry| (entry.state, entry.reason));
        let fits = harness.posts_to("s0") == 1;
        let expected =
            if fits { (State::Expanded, None) } else { (State::Failed, Some(Reason::PayloadTooLarge)) };
        assert_eq!(end, Some(expected), "{spare} bytes are left");
        seen[usize::from(fits)] = true;
    }
    assert_eq!(seen, [true, true]);
}

#[test]
fn the_same_message_twice_is_one_and_another_content_under_its_id_a_conflict() {
    let mut harness = Harness::new();
    readers(&harness, 20);
    harness.produce(&message(""));
    harness.produce(&message(""));
    harness.run();
    harness.produce(&message("").replace("hello", "other"));
    harness.run();
    all_got_it_once(&harness, 20, "");
    assert_eq!(harness.memory.state().dead_letters.get(&Reason::IdConflict), Some(&1));
}

#[test]
fn a_called_off_message_is_handed_to_nobody_else_and_who_waits_for_a_retry_does_not_get_it() {
    let mut harness = Harness::new();
    readers(&harness, 3);
    harness.memory.state().usual_answer = Some(answered(503));
    harness.produce(&message(""));
    harness.run_until(|it| (0..3).all(|n| it.posts_to(&format!("s{n}")) >= 1));
    let posts: Vec<usize> = (0..3).map(|n| harness.posts_to(&format!("s{n}"))).collect();
    let now = harness.now();
    let run = current_run(&harness);
    harness.memory.state().runs.get_mut(&run).expect("opened").cancelled_at = Some(now);
    harness.run();
    for (n, posts) in posts.into_iter().enumerate() {
        let (id, off) = (format!("s{n}"), Some((State::FailedNoRetries, Some(Reason::Cancelled))));
        assert_eq!((harness.posts_to(&id), delivery(&harness, &id)), (posts, off));
    }
    harness.subscribe("s9");
    harness.amend("s9", |it| it.tags = tags(&["news"]));
    for part in Expansion::all(run) {
        let again =
            part.outgoing(redial_core::lane::Lane::Transactional, redial_core::route::DelaySeconds::ZERO);
        harness.produce_retry(&again.body);
    }
    harness.run();
    assert_eq!(harness.posts_to("s9"), 0);
}

#[test]
fn a_scheduled_message_waits_and_a_late_one_is_expired() {
    let mut harness = Harness::new();
    readers(&harness, 2);
    let start = harness.now();
    harness.produce(&message(r#","deliver_at":"2026-11-21T13:00:00Z""#));
    harness.run();
    all_got_it_once(&harness, 2, "scheduled");
    assert!(
        harness.memory.state().sent.iter().all(|push| push.at >= start.plus(Duration::from_secs(3 * 3600)))
    );

    let mut harness = Harness::new();
    readers(&harness, 2);
    harness.produce(&message(r#","ttl":60"#));
    harness.memory.pass(Duration::from_secs(61));
    harness.run();
    assert_eq!(harness.state_of("n1"), Some(State::Expired));
    assert_eq!(harness.posts_to("s0"), 0);
}

#[test]
fn a_rate_spreads_an_audience() {
    let mut harness = Harness::new();
    readers(&harness, 320);
    let start = harness.now();
    harness.produce_in_bulk(&message("").replace(r#""tag":"news""#, r#""tag":"news","rate":"16/s""#));
    harness.run();
    all_got_it_once(&harness, 320, "paced");
    let state = harness.memory.state();
    let within = |secs| {
        let end = start.plus(Duration::from_secs(secs));
        state.sent.iter().filter(|push| push.at < end).count()
    };
    // Ten seconds' worth comes at once; then as much every ten seconds.
    assert!(within(5) <= 160, "{}", within(5));
    assert!(within(15) <= 320 && within(15) > 160, "{}", within(15));
}

#[test]
fn poison_of_an_audience_is_kept_whole_and_a_part_s_poison_goes_on() {
    let mut harness = Harness::new();
    readers(&harness, 1);
    harness.memory.state().subscriptions.get_mut(&Harness::subscription_key("s0")).expect("stored").state =
        Standing::Active;
    harness.memory.state().usual_answer = Some(answered(503));
    harness.produce(&message(""));
    harness.run_until(|it| it.posts_to("s0") == 1);
    let body =
        harness.travelling().into_iter().find(|body| body.contains("retry_count")).expect("it travels");
    harness.drop_travelling();
    harness.poison(&body);
    let kept = harness.memory.state().bodies.values().next().expect("kept").body.clone();
    assert!(kept.contains(r#""payload":"hello""#), "{kept}");
    let part = Expansion { run: current_run(&harness), shard: 3 };
    let part = part.outgoing(redial_core::lane::Lane::Bulk, redial_core::route::DelaySeconds::ZERO).body;
    harness.poison(&part);
    assert!(harness.memory.state().outbox.iter().any(|it| it.body == part));
}
