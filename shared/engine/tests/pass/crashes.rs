//! A worker is killed at every effect of every scenario, before it and after it. Nothing is lost, the delivery ends as it would have,
//! and nothing is sent twice unless the death fell between the POST and its record.

use redial_core::ledger::State;
use redial_core::subscription;
use redial_memory::Death;
use redial_memory::senders::answered;

use crate::harness::{Harness, Whom};
use crate::scenarios::{Scenario, to_a_browser};

/// Whether a POST was made that no record followed: it may be made again.
pub(crate) fn may_repeat(made: &[&str]) -> bool {
    made.iter().rfind(|name| matches!(**name, "post" | "record")) == Some(&"post")
}

/// Makes a run unharmed, and then once for each death: before and after each of its effects. Each is checked, with whether a POST may
/// have been repeated, and what to call the case. Returns the number of deaths.
pub(crate) fn kill_at_every_effect(
    run: impl Fn(Option<Death>) -> Harness,
    check: impl Fn(&Harness, bool, &str),
) -> usize {
    let unharmed = run(None);
    check(&unharmed, false, "unharmed");
    let trace = unharmed.state().trace.clone();
    for n in 1..=trace.len() {
        for (death, made) in [(Death::Before(n), &trace[..n - 1]), (Death::After(n), &trace[..n])] {
            let case = format!("{death:?} ({}) of {trace:?}", trace[n - 1]);
            check(&run(Some(death)), may_repeat(made), &case);
        }
    }
    2 * trace.len()
}

/// Kills the worker at every effect of these scenarios, in harnesses amended like this; returns how often it was killed.
pub(crate) fn killed_at_every_effect(scenarios: &[Scenario], amend: impl Fn(&Harness)) -> usize {
    let killed = |scenario: &Scenario| {
        let run = |death| {
            let harness = scenario.prepared();
            amend(&harness);
            harness.state().death = death;
            harness.run_to_the_end()
        };
        kill_at_every_effect(run, |harness, may_repeat, case| {
            scenario.assert_ended(harness, may_repeat, case);
        })
    };
    scenarios.iter().map(killed).sum()
}

#[test]
fn killed_at_any_effect_every_scenario_still_ends_and_sends_twice_only_between_post_and_record() {
    let deaths = killed_at_every_effect(&to_a_browser(), |_| {});
    assert!(deaths > 200, "{deaths} deaths are too few to be all of them");
}

#[test]
fn a_possible_repetition_is_recorded_as_in_doubt_or_forbidden() {
    for (fields, posts, end) in
        [("", 2, State::Sent), (r#","retry":{"retry_in_doubt":false}"#, 1, State::Failed)]
    {
        let harness = Harness::prepared(Whom::Browser, vec![], fields);
        harness.will_die(Death::AfterNext("post"));
        let harness = harness.run_to_the_end();
        let entry = harness.entry("m").expect("in the ledger");
        assert_eq!((harness.posts_to("m"), entry.state, entry.in_doubt), (posts, end, true));
        assert_eq!(harness.bodies(), usize::from(end == State::Failed));
    }
}

#[test]
fn a_dead_letter_counts_the_attempt_that_may_have_arrived() {
    for (fields, is_erased) in [(r#","retry":{"retry_in_doubt":false}"#, false), ("", true)] {
        let mut harness = Harness::prepared(Whom::Browser, vec![], fields);
        let id = harness.queued().remove(0);
        harness.dies_over(&id, "post");
        if is_erased {
            harness.state().subscriptions.clear();
        }
        harness.run();
        let attempts: Vec<u32> = harness.state().described.values().map(|it| it.attempts).collect();
        assert_eq!((harness.posts_to("m"), attempts), (1, vec![1]), "{fields}");
    }
}

#[test]
fn what_was_recorded_before_the_hash_key_was_rotated_is_still_carried_out_after_it() {
    for (dies_after, state) in
        [("record", subscription::State::Active), ("switch_off", subscription::State::Disabled)]
    {
        let mut harness = Harness::prepared(Whom::Hook, vec![answered(410)], "");
        harness.state().has_events = true;
        let id = harness.queued().remove(0);
        harness.dies_over(&id, dies_after);
        assert_eq!(harness.subscription("m").state, state);
        harness.rotate_hash_key();
        harness.run();
        assert_eq!(harness.subscription("m").state, subscription::State::Disabled);
        assert_eq!(harness.posts_to("m"), 1);
        let announced = harness.events.iter().filter(|event| event["state"] == "disabled");
        assert_eq!(announced.count(), 1, "{dies_after}");
    }
}
