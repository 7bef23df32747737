//! Every message is there twice, as a producer's repeated SendMessage or a crash leaves it, and a worker dies at any effect, or is held
//! up while another one works on the copy. Nothing is lost, and a second POST falls between a POST and its record only.

use std::pin::pin;
use std::time::Duration;

use redial_core::ledger::State;
use redial_engine::protection::Guard;
use redial_memory::senders::answered;
use redial_memory::{Death, PortErrorKind};

use crate::crashes::{kill_at_every_effect, may_repeat};
use crate::harness::{Harness, origin, until_stalled};
use crate::scenarios::{Scenario, to_a_browser};

/// How the copies of a message come to the workers.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// All of them in one batch; else the second is hidden until a worker dies.
    together: bool,
    newest_first: bool,
}

const TOGETHER: Arrival = Arrival { together: true, newest_first: false };

const ARRIVALS: [Arrival; 4] = [
    TOGETHER,
    Arrival { newest_first: true, ..TOGETHER },
    Arrival { together: false, ..TOGETHER },
    Arrival { together: false, newest_first: true },
];

fn prepared(scenario: &Scenario, arrival: Arrival) -> Harness {
    let mut harness = Harness::new();
    let message = harness.message_for(scenario.to, scenario.fields);
    harness.will_answer("m", scenario.answers.clone());
    harness.newest_first = arrival.newest_first;
    harness.copies = true;
    let first = harness.produce(&message);
    if !arrival.together {
        harness.hide_all_but(&first);
    }
    harness
}

#[test]
fn every_message_that_is_there_twice_ends_as_one_whatever_effect_kills_a_worker() {
    let mut deaths = 0;
    for (scenario, arrival) in
        to_a_browser().iter().flat_map(|scenario| ARRIVALS.map(|arrival| (scenario, arrival)))
    {
        let run = |death| {
            let harness = prepared(scenario, arrival);
            harness.state().death = death;
            harness.run_to_the_end()
        };
        deaths += kill_at_every_effect(run, |harness, may_repeat, case| {
            scenario.assert_ended(harness, may_repeat, &format!("{arrival:?}, {case}"));
        });
    }
    assert!(deaths > 1_000, "{deaths} deaths are too few to be all of them");
}

/// One worker is held up before its `n`-th effect while another one works on the copy, which may die after an effect of its own. Then
/// the first one goes on, or dies there. Returns whether it was held up, and whether the other one died.
fn two_workers(scenario: &Scenario, n: usize, dies: Option<usize>, goes_on: bool) -> (bool, bool) {
    let mut harness = prepared(scenario, TOGETHER);
    let ids = harness.queued();
    let (first, second) = (harness.receive(&ids[..1]), harness.receive(&ids[1..]));
    let memory = harness.memory.clone();
    let one = memory.dispatch(harness.worker.settings.clone(), Guard::default());
    let other = harness.another_worker(7);
    let (invocation, another) = (harness.invocation(), harness.invocation());
    memory.state().held_up_at = Some(n);
    let mut slow = pin!(one.deliver(&invocation, first));
    let mut acknowledged = until_stalled(&mut slow);
    let was_held_up = acknowledged.is_none();
    let begun = harness.state().effects;
    // Killed here, after its POST, it is not on record. Going on, it records, but too late if the other one has taken its lease over.
    let mut made = harness.state().trace.clone();
    if was_held_up {
        made.remove(n - 1);
    }
    let mut repeats = was_held_up && may_repeat(&made) && !goes_on;
    memory.state().death = dies.map(|n| Death::After(begun + n));
    let back = until_stalled(other.deliver(&another, second));
    memory.state().death = None;
    let died = back.is_none();
    repeats |= died && may_repeat(&harness.state().trace[begun..]);
    if let Some(back) = back {
        harness.acknowledge(&ids[1..], &back);
    }
    memory.resume();
    if was_held_up && goes_on {
        acknowledged = until_stalled(&mut slow);
    }
    if let Some(back) = acknowledged {
        harness.acknowledge(&ids[..1], &back);
    }
    harness.run();
    let case = format!("held up at {n}, killed after {dies:?}, {goes_on}");
    scenario.assert_ended(&harness, repeats, &case);
    (was_held_up, died)
}

#[test]
fn two_workers_that_meet_at_any_effect_lose_nothing() {
    let mut meetings = 0;
    for scenario in to_a_browser() {
        for goes_on in [true, false] {
            for n in 1.. {
                let (was_held_up, _) = two_workers(&scenario, n, None, goes_on);
                if !was_held_up {
                    break;
                }
                meetings += 1;
                for m in 1.. {
                    let (_, died) = two_workers(&scenario, n, Some(m), goes_on);
                    if !died {
                        break;
                    }
                    meetings += 1;
                }
            }
        }
    }
    assert!(meetings > 500, "{meetings} are too few to be all of them");
}

/// Copies `sqs-1` and `sqs-2` of a message; the second was answered 503, which was recorded and not handed off. The breaker of the push
/// service may be open for a given time: then another worker goes on, which reads that.
fn recorded_and_not_handed_off(breaker_is_open_for: Option<Duration>) -> Harness {
    let mut harness = Harness::new();
    harness.will_answer("m", vec![answered(503)]);
    harness.copies = true;
    harness.push("m", "");
    harness.copies = false;
    harness.memory.fail("send", 1, PortErrorKind::Broken);
    assert!(!harness.acknowledges("sqs-2"));
    assert_eq!(harness.state_of("m"), Some(State::Retrying));
    if let Some(lasting) = breaker_is_open_for {
        harness.replace_worker(3);
        harness.open_breaker(&origin("https://push.example"), lasting);
    }
    harness
}

/// Delivers these in one batch; returns those that come back.
fn deliver(harness: &mut Harness, ids: &[&str]) -> Vec<String> {
    let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let batch = harness.receive(&ids);
    let back = harness.invoke_with(batch);
    harness.acknowledge(&ids, &back);
    back
}

#[test]
fn a_copy_that_is_done_or_deferred_takes_no_other_with_it() {
    for breaker_is_open_for in [None, Some(Duration::from_secs(60))] {
        for order in [["sqs-1", "sqs-2"], ["sqs-2", "sqs-1"]] {
            let mut harness = recorded_and_not_handed_off(breaker_is_open_for);
            let back = deliver(&mut harness, &order);
            if breaker_is_open_for.is_some() {
                // The first receive is sent on; what was received before waits by its visibility, and the follower with it.
                let sent_on = usize::from(order[0] == "sqs-1");
                assert_eq!(back, order[sent_on..], "the follower is judged by itself");
            }
            harness.run();
            let end = (harness.state_of("m"), harness.posts_to("m"));
            assert_eq!(end, (Some(State::Sent), 2), "{order:?}, {breaker_is_open_for:?}");
        }
    }
}

#[test]
fn two_copies_that_are_deferred_into_one_bucket_both_wait_there() {
    let mut harness = Harness::new();
    harness.copies = true;
    harness.push("m", "");
    harness.open_breaker(&origin("https://push.example"), Duration::from_secs(3_600));
    for id in ["sqs-1", "sqs-2"] {
        deliver(&mut harness, &[id]);
    }
    assert_eq!(harness.state().parked.len(), 2);
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 1));
}

#[test]
fn what_was_recorded_and_not_handed_off_waits_for_no_breaker() {
    for (id, retries) in [("sqs-1", 0), ("sqs-2", 1)] {
        let mut harness = recorded_and_not_handed_off(Some(Duration::from_secs(3_600)));
        let before = harness.effects("send");
        assert!(deliver(&mut harness, &[id]).is_empty(), "{id}");
        assert!(harness.state().parked.is_empty(), "{id}");
        assert_eq!(harness.effects("send") - before, retries, "{id}");
        harness.run();
        assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 2), "{id}");
    }
}
