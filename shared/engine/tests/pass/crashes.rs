//! A worker is killed at every effect of every road, before it and after it. Nothing is lost, the delivery ends as it would have,
//! and nothing is sent twice unless the death fell between the POST and its record.

use redial_core::reason::Reason;
use redial_core::subscription::State as Standing;
use redial_testkit::memory::Death;
use redial_testkit::memory::sender::answered;

use crate::harness::Harness;
use crate::roads::{Road, roads};

fn travelled(road: &Road, death: Option<Death>, prepare: fn(&Harness)) -> Harness {
    let mut harness = Harness::new();
    let message = road.to.prepare(&harness, road.answers.clone(), road.fields);
    prepare(&harness);
    harness.memory.state().death = death;
    harness.produce(&message);
    harness.run();
    harness
}

/// Kills the worker at every effect of these roads, in harnesses prepared like this; returns how often it was killed.
pub(crate) fn killed_at_every_effect(roads: Vec<Road>, prepare: fn(&Harness)) -> u32 {
    let mut deaths = 0;
    for road in roads {
        let trace = travelled(&road, None, prepare).memory.state().trace.clone();
        for n in 1..=trace.len() {
            for death in [Death::Before(n), Death::After(n)] {
                deaths += 1;
                let harness = travelled(&road, Some(death), prepare);
                let case = format!("{}, {death:?} ({}) of {trace:?}", road.name, trace[n - 1]);
                let posts = harness.posts_to("m");
                let made = match death {
                    Death::Before(_) => &trace[..n - 1],
                    Death::After(_) => &trace[..n],
                };
                let last = made.iter().rfind(|name| matches!(**name, "post" | "record"));
                let may_repeat = last == Some(&"post");
                let entry = harness.entry("m").expect("it is in the ledger");
                if may_repeat {
                    assert!(posts >= road.posts, "{case}: {posts} posts");
                    // One attempt more, which a 401 makes two posts.
                    assert!(posts <= road.posts + 2, "{case}: {posts} posts");
                } else {
                    assert_eq!(posts, road.posts, "{case}");
                    assert_eq!((entry.state, entry.reason), (road.ends, road.reason), "{case}");
                }
                let state = harness.memory.state();
                if entry.reason == Some(Reason::Gone) {
                    let mut subscriptions = state.subscriptions.values();
                    assert!(subscriptions.all(|it| it.state != Standing::Active), "{case}");
                }
                assert!(state.webhooks.iter().all(|it| it.id == "m" && it.body == b"hello m"), "{case}");
                assert!(entry.state.is_terminal(), "{case}: {entry:?}");
                assert!(state.parked.is_empty(), "{case}");
                if road.dead_letter && !may_repeat {
                    assert_eq!((state.bodies.len(), state.described.len()), (1, 1), "{case}");
                }
            }
        }
    }
    deaths
}

#[test]
fn killed_at_any_effect_every_road_still_ends_and_sends_twice_only_between_post_and_record() {
    let deaths = killed_at_every_effect(roads(), |_| {});
    assert!(deaths > 200, "{deaths} deaths are too few to be all of them");
}

#[test]
fn a_repetition_that_cannot_be_excluded_is_recorded_as_in_doubt() {
    let road = &roads()[0];
    let trace = travelled(road, None, |_| {}).memory.state().trace.clone();
    let post = trace.iter().position(|name| *name == "post").expect("it posts") + 1;
    let harness = travelled(road, Some(Death::After(post)), |_| {});
    assert_eq!(harness.posts_to("m"), 2);
    assert!(harness.entry("m").expect("in the ledger").in_doubt);
}

#[test]
fn what_was_recorded_before_the_hash_key_was_rotated_is_still_carried_out_after_it() {
    let mut harness = Harness::new();
    harness.subscribe_hook("m");
    harness.memory.state().answers.insert(Harness::hook("m"), vec![answered(410)]);
    harness.produce(&Harness::message("m", ""));
    let trace = {
        let mut rehearsal = Harness::new();
        rehearsal.subscribe_hook("m");
        rehearsal.memory.state().answers.insert(Harness::hook("m"), vec![answered(410)]);
        rehearsal.produce(&Harness::message("m", ""));
        rehearsal.run();
        rehearsal.memory.state().trace.clone()
    };
    let record = trace.iter().position(|name| *name == "record").expect("it records") + 1;
    harness.memory.state().death = Some(Death::After(record));
    harness.run_until(|it| it.entry("m").is_some_and(|entry| entry.state.is_terminal()));
    assert_eq!(
        harness.subscription("m").state,
        Standing::Active,
        "its worker died before it switched it off"
    );
    harness.rotate_hash_key();
    harness.run();
    assert_eq!(harness.subscription("m").state, Standing::Disabled);
    assert_eq!(harness.posts_to("m"), 1);
}

#[test]
fn where_the_policy_forbids_a_repetition_a_crash_ends_in_a_dead_letter() {
    let road = Road { fields: r#","retry":{"retry_in_doubt":false}"#, ..roads().remove(0) };
    let trace = travelled(&road, None, |_| {}).memory.state().trace.clone();
    let post = trace.iter().position(|name| *name == "post").expect("it posts") + 1;
    let harness = travelled(&road, Some(Death::After(post)), |_| {});
    assert_eq!(harness.posts_to("m"), 1);
    assert_eq!(harness.memory.state().bodies.len(), 1);
}
