//! Messages to audiences: each recipient gets the message once, even if workers die.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use redial_core::audience::{Expansion, Progress, RunKey, shard_of};
use redial_core::identity::SubscriptionId;
use redial_core::lane::Lane;
use redial_core::ledger::State;
use redial_core::reason::Reason;
use redial_core::route::DelaySeconds;
use redial_core::tag::{Tag, Tags};
use redial_memory::Death;
use redial_memory::senders::answered;

use crate::harness::Harness;

pub(crate) fn tags(names: &[&str]) -> Tags {
    Tags::new(names.iter().filter_map(|name| Tag::parse(name)).collect()).expect("valid")
}

/// A harness with `n` subscriptions with the tag `news`, and one without.
pub(crate) fn with_readers(n: usize) -> Harness {
    let harness = Harness::new();
    for id in (0..n).map(|n| format!("s{n}")) {
        harness.subscribe(&id);
        harness.amend(&id, |it| it.tags = tags(&["news"]));
    }
    harness.subscribe("other");
    harness.amend("other", |it| it.tags = tags(&["sport"]));
    harness
}

pub(crate) fn message(more: &str) -> String {
    format!(r#"{{"tenant":"acme","id":"n1","to":{{"audience":{{"tag":"news"}}}},"payload":"hello"{more}}}"#)
}

/// The run that the id of [`message`] finds.
pub(crate) fn current_run(harness: &Harness) -> RunKey {
    let message = Harness::key("n1").id;
    let state = harness.state();
    let of_message = state.runs.values().filter(|run| run.message == message);
    of_message.max_by_key(|run| run.opened_at).expect("opened").key.clone()
}

/// What the recipient's own delivery came to.
pub(crate) fn delivery(harness: &Harness, subscription: &str) -> (State, Option<Reason>) {
    let id = SubscriptionId::parse(subscription).expect("valid");
    let run = current_run(harness);
    let recipient = harness.state().recipient(&run, &id);
    harness.ended(recipient.id.as_str())
}

fn all_got_it_once(harness: &Harness, n: usize, case: &str) {
    for id in (0..n).map(|n| format!("s{n}")) {
        assert_eq!(harness.posts_to(&id), 1, "{id}, {case}");
        assert_eq!(delivery(harness, &id), (State::Sent, None), "{id}, {case}");
    }
    assert_eq!(harness.posts_to("other"), 0, "{case}");
    assert_eq!(harness.state_of("n1"), Some(State::Expanded), "{case}");
}

#[test]
fn exactly_the_bearers_of_the_tag_get_it_once_each() {
    let mut harness = with_readers(250);
    harness.produce_in_bulk(&message(""));
    harness.run();
    all_got_it_once(&harness, 250, "");
    let state = harness.state();
    assert!(state.sent.iter().all(|push| push.payload == b"hello"));
    let handed_on: u64 = state.progress.values().map(|part| part.recipients).sum();
    assert_eq!((handed_on, state.progress.values().filter(|part| part.done).count()), (250, 16));
}

#[test]
fn an_audience_of_an_urgent_message_keeps_out_of_the_transactional_lane() {
    let mut harness = with_readers(250);
    harness.produce(&message(""));
    harness.run_until(|it| {
        assert_eq!(it.retries_in(Lane::Transactional), 0);
        it.state().sent.len() == 250
    });
    harness.run();
    all_got_it_once(&harness, 250, "");
}

#[test]
fn what_travels_to_a_recipient_refers_to_the_payload_and_a_dead_letter_holds_it() {
    let mut harness = with_readers(1);
    harness.state().usual_answer = Some(answered(503));
    harness.produce(&message(r#","retry":{"max_retries":1}"#));
    harness.run_until(|it| it.travelling().iter().any(|body| body.contains("\"retry_count\":1")));
    assert!(harness.travelling().iter().all(|body| !body.contains("hello")));
    harness.run();
    assert_eq!(delivery(&harness, "s0"), (State::Failed, Some(Reason::RetriesExhausted)));
    let state = harness.state();
    let body = state.bodies.values().next().expect("a dead letter");
    assert!(body.body.contains(r#""payload":"hello""#) && !body.body.contains("audience"), "{}", body.body);
}

#[test]
fn fifty_thousand_get_it_once_though_who_hands_it_on_is_killed_ten_times() {
    const RECIPIENTS: usize = 50_000;
    let mut rng = StdRng::seed_from_u64(17);
    let mut harness = with_readers(RECIPIENTS);
    harness.hold_recipients_back();
    harness.produce_in_bulk(&message(""));
    for _ in 0..10 {
        harness.memory.revive();
        // Some four effects a page, and five hundred pages.
        let at = rng.random_range(1..180);
        let death = if rng.random_bool(0.5) { Death::Before(at) } else { Death::After(at) };
        harness.will_die(death);
        harness.run_until(|it| it.state().death.is_none());
    }
    harness.run();
    let handed_on: u64 = harness.state().progress.values().map(|part| part.recipients).sum();
    assert_eq!(handed_on, RECIPIENTS as u64);
    assert!(harness.held_back() > RECIPIENTS, "killed between sending and noting, pages were sent again");
    let sent = harness.deliver_held_back();
    assert_eq!(sent.len(), RECIPIENTS, "each once");
}

#[test]
fn one_that_crosses_another_on_a_part_comes_back_for_the_other_may_die() {
    let mut harness = with_readers(40);
    harness.produce(&message(""));
    harness.run_until(|it| it.travelling().iter().any(|body| body.contains("\"expand\"")));
    // One message, delivered twice: the first of its workers dies when the second has moved the part on.
    let part = harness.travelling().into_iter().find(|body| body.contains("\"shard\":8")).expect("part 8");
    let id = harness.produce_retry(&part);
    let key = (current_run(&harness), 8);
    let moved = Progress { recipients: 1, ..Default::default() };
    harness.state().crossing = Some((key, moved));
    assert!(!harness.acknowledges(&id));
}

#[test]
fn a_payload_too_long_for_acknowledgements_is_refused_before_the_hand_off() {
    let mut seen = [false; 2];
    for spare in (60..260).step_by(4) {
        let mut harness = with_readers(1);
        harness.deliver(&message(r#","acks":true"#).replace("hello", &"x".repeat(3_993 - spare)));
        let end = harness.ended("n1");
        let fits = harness.posts_to("s0") == 1;
        let expected =
            if fits { (State::Expanded, None) } else { (State::Failed, Some(Reason::PayloadTooLarge)) };
        assert_eq!(end, expected, "{spare} bytes are left");
        seen[usize::from(fits)] = true;
    }
    assert_eq!(seen, [true, true]);
}

#[test]
fn the_same_message_twice_is_one_and_another_content_under_its_id_a_conflict() {
    let mut harness = with_readers(20);
    harness.produce(&message(""));
    harness.deliver(&message(""));
    harness.deliver(&message("").replace("hello", "other"));
    all_got_it_once(&harness, 20, "");
    assert_eq!(harness.dead_letters(Reason::IdConflict), 1);
}

#[test]
fn a_cancelled_message_reaches_no_further_recipient_and_is_not_retried() {
    let mut harness = with_readers(3);
    harness.state().usual_answer = Some(answered(503));
    harness.produce(&message(""));
    harness.run_until(|it| (0..3).all(|n| it.posts_to(&format!("s{n}")) >= 1));
    let posts: Vec<usize> = (0..3).map(|n| harness.posts_to(&format!("s{n}"))).collect();
    let (now, run) = (harness.now(), current_run(&harness));
    harness.state().runs.get_mut(&run).expect("opened").cancelled_at = Some(now);
    harness.run();
    for (n, posts) in posts.into_iter().enumerate() {
        let (id, off) = (format!("s{n}"), (State::FailedNoRetries, Some(Reason::Cancelled)));
        assert_eq!((harness.posts_to(&id), delivery(&harness, &id)), (posts, off));
    }
    harness.subscribe("s9");
    harness.amend("s9", |it| it.tags = tags(&["news"]));
    for part in Expansion::all(run) {
        harness.produce_retry(&part.outgoing(Lane::Transactional, DelaySeconds::ZERO).body);
    }
    harness.run();
    assert_eq!(harness.posts_to("s9"), 0);
}

#[test]
fn a_scheduled_message_waits_and_a_late_one_is_expired() {
    let mut harness = with_readers(2);
    let start = harness.now();
    harness.deliver(&message(r#","deliver_at":"2026-11-21T13:00:00Z""#));
    all_got_it_once(&harness, 2, "scheduled");
    assert!(harness.state().sent.iter().all(|push| push.at >= start.plus(Duration::from_secs(3 * 3600))));

    let mut harness = with_readers(2);
    harness.produce(&message(r#","ttl":60"#));
    harness.pass(Duration::from_secs(61));
    harness.run();
    assert_eq!(harness.state_of("n1"), Some(State::Expired));
    assert_eq!(harness.posts_to("s0"), 0);
}

#[test]
fn a_rate_spreads_an_audience() {
    let mut harness = with_readers(320);
    let start = harness.now();
    harness.produce_in_bulk(&message("").replace(r#""tag":"news""#, r#""tag":"news","rate":"16/s""#));
    harness.run();
    all_got_it_once(&harness, 320, "paced");
    let state = harness.state();
    let within = |secs| {
        let end = start.plus(Duration::from_secs(secs));
        state.sent.iter().filter(|push| push.at < end).count()
    };
    // Ten seconds' worth comes at once; then as much every ten seconds.
    assert!(within(5) <= 160, "{}", within(5));
    assert!(within(15) <= 320 && within(15) > 160, "{}", within(15));
}

#[test]
fn members_that_the_ttl_leaves_out_have_a_log_line_of_their_part() {
    let mut harness = with_readers(320);
    let paced = message(r#","ttl":15"#).replace(r#""tag":"news""#, r#""tag":"news","rate":"1/s""#);
    harness.produce_in_bulk(&paced);
    harness.run();
    let run = current_run(&harness);
    let state = harness.state();
    assert!(!state.audiences_expired.is_empty());
    for (part, recipients) in &state.audiences_expired {
        let progress = state.progress.get(&(run.clone(), part.shard)).cloned().unwrap_or_default();
        assert_eq!((&part.run, *recipients, progress.done), (&run, progress.recipients, false));
    }
    let unfinished = state.progress.values().filter(|it| !it.done && it.recipients > 0).count();
    let begun = state.audiences_expired.iter().filter(|(_, recipients)| *recipients > 0).count();
    assert_eq!(begun, unfinished);
}

#[test]
fn poison_of_an_audience_is_kept_whole_and_a_part_s_poison_goes_on() {
    let mut harness = with_readers(1);
    harness.state().usual_answer = Some(answered(503));
    harness.produce(&message(""));
    harness.run_until(|it| it.posts_to("s0") == 1);
    let body = harness.travelling().remove(0);
    assert!(body.contains("retry_count"));
    harness.drop_travelling();
    harness.poison(&body);
    let kept = harness.state().bodies.values().next().expect("kept").body.clone();
    assert!(kept.contains(r#""payload":"hello""#), "{kept}");
    let part = Expansion { run: current_run(&harness), shard: 3 };
    let part = part.outgoing(Lane::Bulk, DelaySeconds::ZERO).body;
    harness.poison(&part);
    assert!(harness.state().outbox.iter().any(|it| it.body == part));
}

#[test]
fn an_audience_whose_worker_died_is_opened_from_the_quarantine() {
    for dies_before in ["audiences.open", "send"] {
        let mut harness = with_readers(3);
        harness.state().has_events = true;
        let id = harness.produce(&message(""));
        harness.dies_over(&id, dies_before);
        harness.drop_travelling();
        harness.try_poison_as(&id, &message("")).expect("nothing fails");
        harness.run();
        all_got_it_once(&harness, 3, dies_before);
        let ends = harness.events.iter().filter(|event| event["id"] == "n1");
        let ends: Vec<_> = ends.map(|event| event["state"].clone()).collect();
        assert_eq!((harness.bodies(), ends), (0, vec!["expanded".into()]), "{dies_before}");
        // Another copy of it, to which all parts have come meanwhile.
        harness.try_poison_as(&id, &message("")).expect("nothing fails");
        harness.run();
        all_got_it_once(&harness, 3, dies_before);
    }
}

#[test]
fn a_slower_copy_of_a_page_sends_nothing_to_those_behind_it() {
    let mut harness = with_readers(40);
    harness.produce_in_bulk(&message("").replace(r#""tag":"news""#, r#""tag":"news","rate":"90/h""#));
    let rests_before_another = |(key, part): (&(RunKey, u8), &Progress)| {
        let first = part.after.clone().filter(|_| part.rests_until.is_some())?;
        let ids = (0..40).filter_map(|n| SubscriptionId::parse(&format!("s{n}")));
        let is_behind = |id: SubscriptionId| shard_of(&id) == key.1 && id > first;
        ids.into_iter().any(is_behind).then(|| (key.clone(), first.clone()))
    };
    let resting = |it: &Harness| it.state().progress.iter().find_map(rests_before_another);
    harness.run_until(|it| resting(it).is_some());
    let ((run, shard), first) = resting(&harness).expect("one rests");
    // A copy read the progress before the part was moved, and the members after the first one had lost the tag.
    harness.amend(first.as_str(), |it| it.tags = tags(&[]));
    let part = harness.state().progress.remove(&(run.clone(), shard)).expect("it rests");
    let before = harness.state().outbox.len();
    let copy = harness
        .produce_retry(&Expansion { run: run.clone(), shard }.outgoing(Lane::Bulk, DelaySeconds::ZERO).body);
    harness.acknowledges(&copy);
    let state = harness.state();
    assert!(state.outbox[before..].iter().all(|it| !it.body.contains("\"recipient\":")));
    let moved = &state.progress[&(run, shard)];
    assert_eq!((&moved.after, moved.done), (&part.after, false));
    assert!(moved.rests_until >= part.rests_until);
}

#[test]
fn of_a_part_s_copies_the_certainly_later_ones_come_back() {
    let mut harness = with_readers(40);
    harness.produce_in_bulk(&message("").replace(r#""tag":"news""#, r#""tag":"news","rate":"90/h""#));
    let rests = |it: &Harness| {
        it.state().progress.iter().find(|it| it.1.rests_until.is_some()).map(|it| it.0.clone())
    };
    harness.run_until(|it| rests(it).is_some());
    let (run, shard) = rests(&harness).expect("one rests");
    let part = Expansion { run: run.clone(), shard }.outgoing(Lane::Bulk, DelaySeconds::ZERO).body;
    let other = Expansion { run, shard: (shard + 1) % 16 }.outgoing(Lane::Bulk, DelaySeconds::ZERO).body;
    let other = harness.produce_retry(&other);
    let ids = [0, 1, 500, 700].map(|ms| {
        harness.pass(Duration::from_millis(ms));
        harness.produce_retry(&part)
    });
    let of_all: Vec<String> = ids.iter().rev().chain([&other]).cloned().collect();
    let batch = harness.receive(&of_all);
    let mut back = harness.invoke_with(batch);
    back.retain(|id| *id != other);
    back.sort();
    let mut newest = ids[2..].to_vec();
    newest.sort();
    assert_eq!(back, newest, "of {ids:?}");
}

#[test]
fn a_joining_recipient_is_sent_to_and_lengthens_the_part_s_rest() {
    let mut harness = with_readers(40);
    let ids: Vec<_> = (0..40).filter_map(|n| SubscriptionId::parse(&format!("s{n}"))).collect();
    let mut of_part: Vec<_> = ids.iter().filter(|id| shard_of(id) == shard_of(&ids[0])).cloned().collect();
    of_part.sort();
    let [joins, recorded, ..] = &of_part[..] else { panic!("a part of two") };
    harness.amend(joins.as_str(), |it| it.tags = tags(&[]));
    harness.produce_in_bulk(&message("").replace(r#""tag":"news""#, r#""tag":"news","rate":"90/h""#));
    let at = |it: &Harness| {
        it.state().progress.iter().find(|((_, shard), _)| *shard == shard_of(&ids[0])).map(|it| it.1.clone())
    };
    harness.run_until(|it| at(it).is_some_and(|part| part.rests_until.is_some()));
    let alone = at(&harness).expect("it rests");
    assert_eq!(alone.after.as_ref(), Some(recorded));
    // A copy that read the progress before that page was sent, and its members after another had joined.
    harness.amend(joins.as_str(), |it| it.tags = tags(&["news"]));
    let run = current_run(&harness);
    harness.state().progress.remove(&(run.clone(), shard_of(&ids[0])));
    let expansion = Expansion { run, shard: shard_of(&ids[0]) };
    let copy = harness.produce_retry(&expansion.outgoing(Lane::Bulk, DelaySeconds::ZERO).body);
    harness.acknowledges(&copy);
    let both = at(&harness).expect("it rests");
    assert_eq!((both.after.as_ref(), both.recipients), (Some(recorded), 2));
    let [alone, both] = [alone, both].map(|it| it.rests_until.expect("others follow").since(harness.now()));
    assert_eq!(both, alone * 2);
}

#[test]
fn a_copy_of_a_part_s_message_sends_no_page_before_its_rate_does() {
    let mut harness = with_readers(40);
    harness.produce_in_bulk(&message("").replace(r#""tag":"news""#, r#""tag":"news","rate":"90/h""#));
    harness.run_until(|it| it.state().progress.values().any(|part| part.rests_until.is_some()));
    let (rests, until) = {
        let state = harness.state();
        let part = state.progress.iter().find(|(_, part)| part.rests_until.is_some());
        let ((run, shard), part) = part.expect("one rests");
        (Expansion { run: run.clone(), shard: *shard }, part.rests_until.expect("it rests"))
    };
    assert_eq!(until.since(harness.now()).as_secs(), 640);
    let copy = harness.produce_retry(&rests.outgoing(Lane::Bulk, DelaySeconds::ZERO).body);
    let before = harness.state().progress.clone();
    assert!(!harness.acknowledges(&copy), "the message for the next page may be lost");
    assert_eq!(harness.state().progress, before);
    harness.run();
    all_got_it_once(&harness, 40, "paced");
}

#[test]
fn a_rate_that_is_slower_than_sqs_delays_is_kept() {
    let mut harness = with_readers(40);
    let start = harness.now();
    let slow = message(r#","ttl":2419200"#).replace(r#""tag":"news""#, r#""tag":"news","rate":"1/h""#);
    harness.produce_in_bulk(&slow);
    harness.run();
    all_got_it_once(&harness, 40, "paced");
    // One of each part comes at once; then as many every sixteen hours.
    let rest = start.plus(Duration::from_secs(16 * 3600));
    let at_once = harness.state().sent.iter().filter(|push| push.at < rest).count();
    assert!(at_once <= 16, "{at_once}");
}
