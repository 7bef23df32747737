//! Messages to audiences: each recipient gets the message once, whoever dies while it is handed on.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use redial_core::audience::{Expansion, RecipientRef, RunKey};
use redial_core::identity::SubscriptionId;
use redial_core::ledger::State;
use redial_core::reason::Reason;
use redial_core::subscription::State as Standing;
use redial_core::tag::{Tag, Tags};
use redial_engine::ports::Clock;
use redial_testkit::memory::Death;
use redial_testkit::memory::sender::answered;

use crate::universe::Universe;

pub(crate) fn tags(names: &[&str]) -> Tags {
    Tags::new(names.iter().filter_map(|name| Tag::parse(name)).collect()).expect("valid")
}

/// So many subscriptions with the tag `news`, and one without.
pub(crate) fn readers(universe: &Universe, n: usize) {
    for id in (0..n).map(|n| format!("s{n}")) {
        universe.subscribe(&id);
        universe.amend(&id, |it| it.tags = tags(&["news"]));
    }
    universe.subscribe("other");
    universe.amend("other", |it| it.tags = tags(&["sport"]));
}

pub(crate) fn message(more: &str) -> String {
    format!(r#"{{"tenant":"acme","id":"n1","to":{{"audience":{{"tag":"news"}}}},"payload":"hello"{more}}}"#)
}

/// The run that the id of [`message`] finds.
pub(crate) fn current_run(universe: &Universe) -> RunKey {
    let message = Universe::key("n1").id;
    let state = universe.world.state();
    let of_message = state.runs.values().filter(|run| run.message == message);
    of_message.max_by_key(|run| run.opened_at).expect("opened").key.clone()
}

/// What the recipient's own delivery came to.
pub(crate) fn delivery(universe: &Universe, subscription: &str) -> Option<(State, Option<Reason>)> {
    let id = SubscriptionId::parse(subscription).expect("valid");
    let own = RecipientRef::new(&current_run(universe), id).id;
    universe.entry(own.as_str()).map(|entry| (entry.state, entry.reason))
}

fn all_got_it_once(universe: &Universe, n: usize, told: &str) {
    for id in (0..n).map(|n| format!("s{n}")) {
        assert_eq!(universe.posts_to(&id), 1, "{id}, {told}");
        assert_eq!(delivery(universe, &id), Some((State::Sent, None)), "{id}, {told}");
    }
    assert_eq!(universe.posts_to("other"), 0, "{told}");
    assert_eq!(universe.state_of("n1"), Some(State::Expanded), "{told}");
}

#[test]
fn each_bearer_of_the_tag_gets_it_once_and_nobody_else() {
    let mut universe = Universe::new();
    readers(&universe, 250);
    universe.produce_in_bulk(&message(""));
    universe.run();
    all_got_it_once(&universe, 250, "");
    let state = universe.world.state();
    assert!(state.sent.iter().all(|push| push.payload == b"hello"));
    let handed_on: u64 = state.progress.values().map(|part| part.recipients).sum();
    assert_eq!((handed_on, state.progress.values().filter(|part| part.done).count()), (250, 16));
}

#[test]
fn what_travels_to_a_recipient_refers_to_the_payload_and_a_dead_letter_holds_it() {
    let mut universe = Universe::new();
    readers(&universe, 1);
    universe.world.state().usual_answer = Some(answered(503));
    universe.produce(&message(r#","retry":{"max_retries":1}"#));
    universe.run_until(|it| it.travelling().iter().any(|body| body.contains("\"retry_count\":1")));
    let travelling = universe.travelling();
    assert!(travelling.iter().all(|body| !body.contains("hello")), "{travelling:?}");
    universe.run();
    assert_eq!(delivery(&universe, "s0"), Some((State::Failed, Some(Reason::RetriesExhausted))));
    let state = universe.world.state();
    let body = state.bodies.values().next().expect("a dead letter");
    assert!(body.body.contains(r#""payload":"hello""#) && !body.body.contains("audience"), "{}", body.body);
}

#[test]
fn killed_at_any_effect_everybody_gets_it_once() {
    let whole = |death| {
        let mut universe = Universe::new();
        readers(&universe, 12);
        universe.world.state().death = death;
        universe.produce(&message(""));
        universe.run();
        universe
    };
    let trace = whole(None).world.state().trace.clone();
    assert!(trace.len() > 60, "{trace:?}");
    for n in 1..=trace.len() {
        for death in [Death::Before(n), Death::After(n)] {
            let universe = whole(Some(death));
            let told = format!("{death:?} ({})", trace[n - 1]);
            let made = match death {
                Death::Before(_) => &trace[..n - 1],
                Death::After(_) => &trace[..n],
            };
            // Between a POST and its record nobody can know.
            let may_repeat = made.iter().rfind(|name| matches!(**name, "post" | "record")) == Some(&"post");
            for id in (0..12).map(|n| format!("s{n}")) {
                let posts = universe.posts_to(&id);
                assert!(posts == 1 || may_repeat && posts == 2, "{id}: {posts} posts, {told}");
                assert_eq!(delivery(&universe, &id).map(|it| it.0), Some(State::Sent), "{id}, {told}");
            }
        }
    }
}

#[test]
fn fifty_thousand_get_it_once_though_who_hands_it_on_is_killed_ten_times() {
    const RECIPIENTS: usize = 50_000;
    let mut rng = StdRng::seed_from_u64(17);
    let mut universe = Universe::new();
    readers(&universe, RECIPIENTS);
    universe.hold_recipients_back();
    universe.produce_in_bulk(&message(""));
    for _ in 0..10 {
        universe.world.revive();
        // Some four effects a page, and five hundred pages.
        let at = rng.random_range(1..180);
        let death = if rng.random_bool(0.5) { Death::Before(at) } else { Death::After(at) };
        universe.world.state().death = Some(death);
        universe.run_until(|it| it.world.state().death.is_none());
    }
    universe.run();
    let handed_on: u64 = universe.world.state().progress.values().map(|part| part.recipients).sum();
    assert_eq!(handed_on, RECIPIENTS as u64);
    assert!(universe.held_back() > RECIPIENTS, "killed between sending and noting, pages were sent again");
    let sent = universe.deliver_held_back();
    assert_eq!(sent.len(), RECIPIENTS, "each once");
}

#[test]
fn whoever_crosses_another_on_a_part_comes_back_for_the_other_may_die() {
    let mut universe = Universe::new();
    readers(&universe, 40);
    universe.produce(&message(""));
    universe.run_until(|it| it.travelling().iter().any(|body| body.contains("\"expand\"")));
    // One message, delivered twice: the first of its workers dies when the second has moved the part on.
    let part = universe.travelling().into_iter().find(|body| body.contains("\"shard\":8")).expect("part 8");
    let id = universe.produce_retry(&part);
    let incoming = universe.incoming_of(&id);
    let key = (current_run(&universe), 8);
    let moved = redial_core::audience::Progress { recipients: 1, ..Default::default() };
    universe.world.state().crossing = Some((key, moved));
    assert_eq!(universe.invoke_with(vec![incoming]), [id], "it is not acknowledged");
}

#[test]
fn with_acknowledgements_what_is_too_long_for_a_recipient_is_refused_before_it_is_handed_on() {
    let mut seen = [false; 2];
    for spare in (60..260).step_by(4) {
        let mut universe = Universe::new();
        readers(&universe, 1);
        universe.produce(&message(r#","acks":true"#).replace("hello", &"x".repeat(3_993 - spare)));
        universe.run();
        let told = universe.entry("n1").map(|entry| (entry.state, entry.reason));
        let fits = universe.posts_to("s0") == 1;
        let expected =
            if fits { (State::Expanded, None) } else { (State::Failed, Some(Reason::PayloadTooLarge)) };
        assert_eq!(told, Some(expected), "{spare} bytes are left");
        seen[usize::from(fits)] = true;
    }
    assert_eq!(seen, [true, true]);
}

#[test]
fn the_same_message_twice_is_one_and_another_content_under_its_id_a_conflict() {
    let mut universe = Universe::new();
    readers(&universe, 20);
    universe.produce(&message(""));
    universe.produce(&message(""));
    universe.run();
    universe.produce(&message("").replace("hello", "other"));
    universe.run();
    all_got_it_once(&universe, 20, "");
    assert_eq!(universe.world.state().dead_letters.get(&Reason::IdConflict), Some(&1));
}

#[test]
fn a_called_off_message_is_handed_to_nobody_else_and_who_waits_for_a_retry_does_not_get_it() {
    let mut universe = Universe::new();
    readers(&universe, 3);
    universe.world.state().usual_answer = Some(answered(503));
    universe.produce(&message(""));
    universe.run_until(|it| (0..3).all(|n| it.posts_to(&format!("s{n}")) >= 1));
    let posts: Vec<usize> = (0..3).map(|n| universe.posts_to(&format!("s{n}"))).collect();
    let now = universe.world.now();
    let run = current_run(&universe);
    universe.world.state().runs.get_mut(&run).expect("opened").cancelled_at = Some(now);
    universe.run();
    for (n, posts) in posts.into_iter().enumerate() {
        let (id, off) = (format!("s{n}"), Some((State::FailedNoRetries, Some(Reason::Cancelled))));
        assert_eq!((universe.posts_to(&id), delivery(&universe, &id)), (posts, off));
    }
    universe.subscribe("s9");
    universe.amend("s9", |it| it.tags = tags(&["news"]));
    for part in Expansion::all(run) {
        let again =
            part.outgoing(redial_core::lane::Lane::Transactional, redial_core::route::DelaySeconds::ZERO);
        universe.produce_retry(&again.body);
    }
    universe.run();
    assert_eq!(universe.posts_to("s9"), 0);
}

#[test]
fn a_scheduled_message_waits_and_a_late_one_is_expired() {
    let mut universe = Universe::new();
    readers(&universe, 2);
    let start = universe.world.now();
    universe.produce(&message(r#","deliver_at":"2026-11-21T13:00:00Z""#));
    universe.run();
    all_got_it_once(&universe, 2, "scheduled");
    assert!(
        universe.world.state().sent.iter().all(|push| push.at >= start.plus(Duration::from_secs(3 * 3600)))
    );

    let mut universe = Universe::new();
    readers(&universe, 2);
    universe.produce(&message(r#","ttl":60"#));
    universe.world.pass(Duration::from_secs(61));
    universe.run();
    assert_eq!(universe.state_of("n1"), Some(State::Expired));
    assert_eq!(universe.posts_to("s0"), 0);
}

#[test]
fn a_rate_spreads_an_audience() {
    let mut universe = Universe::new();
    readers(&universe, 320);
    let start = universe.world.now();
    universe.produce_in_bulk(&message("").replace(r#""tag":"news""#, r#""tag":"news","rate":"16/s""#));
    universe.run();
    all_got_it_once(&universe, 320, "paced");
    let state = universe.world.state();
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
    let mut universe = Universe::new();
    readers(&universe, 1);
    universe.world.state().subscriptions.get_mut(&Universe::subscription_key("s0")).expect("stored").state =
        Standing::Active;
    universe.world.state().usual_answer = Some(answered(503));
    universe.produce(&message(""));
    universe.run_until(|it| it.posts_to("s0") == 1);
    let body =
        universe.travelling().into_iter().find(|body| body.contains("retry_count")).expect("it travels");
    universe.drop_travelling();
    universe.poison(&body);
    let kept = universe.world.state().bodies.values().next().expect("kept").body.clone();
    assert!(kept.contains(r#""payload":"hello""#), "{kept}");
    let part = Expansion { run: current_run(&universe), shard: 3 };
    let part = part.outgoing(redial_core::lane::Lane::Bulk, redial_core::route::DelaySeconds::ZERO).body;
    universe.poison(&part);
    assert!(universe.world.state().outbox.iter().any(|it| it.body == part));
}
