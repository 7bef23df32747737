//! Every message is there twice, as a producer's repeated SendMessage or a crash leaves it, and a worker dies at any effect, or is held
//! up while another one works on the copy. Nothing is lost, and a second POST falls between a POST and its record only.

use std::pin::pin;
use std::time::Duration;

use redial_core::endpoint::Origin;
use redial_core::ledger::State;
use redial_core::protection::{Cooldowns, OriginState};
use redial_engine::ports::StoredOrigin;
use redial_engine::protection::Guard;
use redial_testkit::memory::Death;
use redial_testkit::memory::sender::answered;

use crate::harness::{Harness, until_stalled};
use crate::roads::{Road, roads};

/// How the copies of a message come to the workers.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// All of them in one batch; else the second is hidden until a worker dies.
    together: bool,
    newest_first: bool,
}

const ARRIVALS: [Arrival; 4] = [
    Arrival { together: true, newest_first: false },
    Arrival { together: true, newest_first: true },
    Arrival { together: false, newest_first: false },
    Arrival { together: false, newest_first: true },
];

fn prepared(road: &Road, arrival: Arrival) -> Harness {
    let mut harness = Harness::new();
    let message = road.to.prepare(&harness, road.answers.clone(), road.fields);
    harness.newest_first = arrival.newest_first;
    harness.copies = true;
    let first = harness.produce(&message);
    if !arrival.together {
        harness.hide_all_but(&first);
    }
    harness
}

/// A delivery that ended as its road does. After a POST that no record followed it may be made once more.
fn assert_ended(harness: &Harness, road: &Road, may_repeat: bool, what: &str) {
    let entry = harness.entry("m").expect("it is in the ledger");
    let posts = harness.posts_to("m");
    assert!(entry.state.is_terminal(), "{what}: lost in {entry:?}");
    if may_repeat {
        assert!((road.posts..=road.posts + 2).contains(&posts), "{what}: {posts} posts");
    } else {
        assert_eq!(posts, road.posts, "{what}");
        assert_eq!((entry.state, entry.reason), (road.ends, road.reason), "{what}");
        let state = harness.memory.state();
        if road.dead_letter {
            assert_eq!((state.bodies.len(), state.described.len()), (1, 1), "{what}");
        }
    }
    assert!(harness.memory.state().parked.is_empty(), "{what}");
    assert!(harness.queued().is_empty(), "{what}");
    assert!(harness.redriven.is_empty(), "{what}");
}

#[test]
fn every_road_travelled_twice_ends_whatever_effect_kills_a_worker() {
    let mut deaths = 0;
    for (road, arrival) in roads().iter().flat_map(|road| ARRIVALS.map(|arrival| (road, arrival))) {
        let trace = {
            let mut harness = prepared(road, arrival);
            harness.run();
            assert_ended(&harness, road, false, road.name);
            harness.memory.state().trace.clone()
        };
        for n in 1..=trace.len() {
            for death in [Death::Before(n), Death::After(n)] {
                deaths += 1;
                let mut harness = prepared(road, arrival);
                harness.memory.state().death = Some(death);
                harness.run();
                let made = match death {
                    Death::Before(_) => &trace[..n - 1],
                    Death::After(_) => &trace[..n],
                };
                let last = made.iter().rfind(|name| matches!(**name, "post" | "record"));
                let what = format!("{}, {arrival:?}, {death:?} ({}) of {trace:?}", road.name, trace[n - 1]);
                assert_ended(&harness, road, last == Some(&"post"), &what);
            }
        }
    }
    assert!(deaths > 1_000, "{deaths} deaths are too few to be all of them");
}

/// One worker is held up before its `n`-th effect while another one works on the copy, which may die at an effect of its own. Then
/// the first one goes on, or dies there. Returns whether it was held up, and whether the other one died.
fn two_workers(road: &Road, n: usize, dies: Option<Death>, goes_on: bool) -> (bool, bool) {
    let mut harness = prepared(road, ARRIVALS[0]);
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
    let posted =
        |made: &[&str]| made.iter().rfind(|name| matches!(**name, "post" | "record")) == Some(&"post");
    let begun = harness.memory.state().effects;
    // Killed here, after its POST, it is not on record. Going on, it records, but too late if the other one has taken its lease over.
    let mut made = harness.memory.state().trace.clone();
    if was_held_up {
        made.remove(n - 1);
    }
    let mut may_repeat = was_held_up && posted(&made) && !goes_on;
    memory.state().death = dies.map(|death| after(death, begun));
    let back = until_stalled(other.deliver(&another, second));
    memory.state().death = None;
    let died = back.is_none();
    may_repeat |= died && posted(&harness.memory.state().trace[begun..]);
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
    let what = format!("{}, held up at {n}, {dies:?}, {goes_on}", road.name);
    assert_ended(&harness, road, may_repeat, &what);
    (was_held_up, died)
}

fn after(death: Death, effects: usize) -> Death {
    match death {
        Death::Before(n) => Death::Before(effects + n),
        Death::After(n) => Death::After(effects + n),
    }
}

#[test]
fn two_workers_that_meet_at_any_effect_lose_nothing() {
    let mut meetings = 0;
    for road in roads() {
        for goes_on in [true, false] {
            for n in 1.. {
                let (was_held_up, _) = two_workers(&road, n, None, goes_on);
                if !was_held_up {
                    break;
                }
                meetings += 1;
                for m in 1.. {
                    let (_, died) = two_workers(&road, n, Some(Death::After(m)), goes_on);
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

/// Copies `sqs-1` and `sqs-2` of a message; the second was answered 503, which was recorded and not handed off.
fn recorded_and_not_handed_off() -> Harness {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.memory.state().answers.insert(Harness::endpoint("m"), vec![answered(503)]);
    harness.copies = true;
    harness.produce(&Harness::message("m", ""));
    harness.copies = false;
    let second = harness.receive(&["sqs-2".to_owned()]);
    harness.memory.fail("send", 1, redial_testkit::memory::PortErrorKind::Broken);
    let back = harness.invoke_with(second);
    assert_eq!(back, ["sqs-2"]);
    assert_eq!(harness.state_of("m"), Some(State::Retrying));
    harness
}

#[test]
fn a_copy_that_is_judged_as_done_takes_no_other_with_it() {
    for order in [["sqs-1", "sqs-2"], ["sqs-2", "sqs-1"]] {
        let mut harness = recorded_and_not_handed_off();
        let ids = order.map(str::to_owned);
        let batch = harness.receive(&ids);
        let back = harness.invoke_with(batch);
        harness.acknowledge(&ids, &back);
        harness.run();
        assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 2), "{order:?}");
    }
}

#[test]
fn a_copy_that_a_breaker_defers_takes_no_other_with_it() {
    for order in [["sqs-1", "sqs-2"], ["sqs-2", "sqs-1"]] {
        let mut harness = recorded_and_not_handed_off();
        hold_back(&mut harness, Duration::from_secs(60));
        let ids = order.map(str::to_owned);
        let batch = harness.receive(&ids);
        let back = harness.invoke_with(batch);
        assert_eq!(back, ids[1..], "the follower is judged by itself");
        harness.acknowledge(&ids, &back);
        harness.run();
        assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 2), "{order:?}");
    }
}

#[test]
fn two_copies_that_are_deferred_into_one_bucket_both_wait_there() {
    let mut harness = recorded_and_not_handed_off();
    hold_back(&mut harness, Duration::from_secs(3_600));
    for id in ["sqs-1", "sqs-2"] {
        let ids = [id.to_owned()];
        let batch = harness.receive(&ids);
        let back = harness.invoke_with(batch);
        harness.acknowledge(&ids, &back);
    }
    assert_eq!(harness.memory.state().parked.len(), 2);
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 2));
}

/// Opens the breaker of the push service for so long, and lets another worker go on, which reads that.
fn hold_back(harness: &mut Harness, lasting: Duration) {
    harness.replace_worker(3);
    let now = harness.now();
    let mut state = OriginState::default();
    let mut rng = redial_engine::ports::Randomness::rng(&harness.memory);
    state.open(lasting, now, &Cooldowns::default(), &mut rng);
    let origin = Origin::parse("https://push.example").expect("valid");
    harness.memory.state().origins.insert(origin, StoredOrigin { version: 1, state });
}
