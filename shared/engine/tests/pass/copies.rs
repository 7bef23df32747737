//! Every message is there twice, as a producer's repeated SendMessage or a crash leaves it, and a worker dies at any effect, or is held
//! up while another one works on the copy. Nothing is lost, and a second POST falls between a POST and its record only.

use std::pin::pin;
use std::time::Duration;

use redial_core::endpoint::Origin;
use redial_core::ledger::State;
use redial_core::protection::{Cooldowns, OriginState};
use redial_engine::deliver::deliver;
use redial_engine::ports::{Clock, StoredOrigin};
use redial_engine::protection::Settings;
use redial_testkit::memory::Death;
use redial_testkit::memory::sender::answered;

use crate::roads::{Road, roads};
use crate::universe::{Universe, until_stalled};

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

fn prepared(road: &Road, arrival: Arrival) -> Universe {
    let mut universe = Universe::new();
    let message = road.to.prepare(&universe, road.answers.clone(), road.fields);
    universe.newest_first = arrival.newest_first;
    universe.copies = true;
    let first = universe.produce(&message);
    if !arrival.together {
        universe.hide_all_but(&first);
    }
    universe
}

/// A delivery that ended as its road does. After a POST that no record followed it may be made once more.
fn assert_ended(universe: &Universe, road: &Road, may_repeat: bool, what: &str) {
    let entry = universe.entry("m").expect("it is in the ledger");
    let posts = universe.posts_to("m");
    assert!(entry.state.is_terminal(), "{what}: lost in {entry:?}");
    if may_repeat {
        assert!((road.posts..=road.posts + 2).contains(&posts), "{what}: {posts} posts");
    } else {
        assert_eq!(posts, road.posts, "{what}");
        assert_eq!((entry.state, entry.reason), (road.ends, road.reason), "{what}");
        let state = universe.world.state();
        if road.letter {
            assert_eq!((state.bodies.len(), state.described.len()), (1, 1), "{what}");
        }
    }
    assert!(universe.world.state().parked.is_empty(), "{what}");
    assert!(universe.queued().is_empty(), "{what}");
    assert!(universe.redriven.is_empty(), "{what}");
}

#[test]
fn every_road_travelled_twice_ends_whatever_effect_kills_a_worker() {
    let mut deaths = 0;
    for (road, arrival) in roads().iter().flat_map(|road| ARRIVALS.map(|arrival| (road, arrival))) {
        let trace = {
            let mut universe = prepared(road, arrival);
            universe.run();
            assert_ended(&universe, road, false, road.name);
            universe.world.state().trace.clone()
        };
        for n in 1..=trace.len() {
            for death in [Death::Before(n), Death::After(n)] {
                deaths += 1;
                let mut universe = prepared(road, arrival);
                universe.world.state().death = Some(death);
                universe.run();
                let made = match death {
                    Death::Before(_) => &trace[..n - 1],
                    Death::After(_) => &trace[..n],
                };
                let last = made.iter().rfind(|name| matches!(**name, "post" | "record"));
                let what = format!("{}, {arrival:?}, {death:?} ({}) of {trace:?}", road.name, trace[n - 1]);
                assert_ended(&universe, road, last == Some(&"post"), &what);
            }
        }
    }
    assert!(deaths > 1_000, "{deaths} deaths are too few to be all of them");
}

/// One worker is held up before its `n`-th effect while another one works on the copy, which may die at an effect of its own. Then
/// the first one goes on, or dies there. Returns whether it was held up, and whether the other one died.
fn two_workers(road: &Road, n: usize, dies: Option<Death>, goes_on: bool) -> (bool, bool) {
    let mut universe = prepared(road, ARRIVALS[0]);
    let ids = universe.queued();
    let (first, second) = (universe.receive(&ids[..1]), universe.receive(&ids[1..]));
    let one = universe.world.clone();
    let other = universe.world.with_worker(Settings::default(), 7);
    let settings = universe.settings().clone();
    let (invocation, another) = (universe.invocation(), universe.invocation());
    one.state().held_up_at = Some(n);
    let mut slow = pin!(deliver(&one, &settings, &invocation, first));
    let mut acknowledged = until_stalled(&mut slow);
    let was_held_up = acknowledged.is_none();
    let posted =
        |made: &[&str]| made.iter().rfind(|name| matches!(**name, "post" | "record")) == Some(&"post");
    let begun = universe.world.state().effects;
    // Killed here, after its POST, nobody knows of it. Going on, it records, but too late if the other one has taken its lease over.
    let mut made = universe.world.state().trace.clone();
    if was_held_up {
        made.remove(n - 1);
    }
    let mut may_repeat = was_held_up && posted(&made) && !goes_on;
    other.state().death = dies.map(|death| after(death, begun));
    let back = until_stalled(deliver(&other, &settings, &another, second));
    other.state().death = None;
    let died = back.is_none();
    may_repeat |= died && posted(&universe.world.state().trace[begun..]);
    if let Some(back) = back {
        universe.acknowledge(&ids[1..], &back);
    }
    one.resume();
    if was_held_up && goes_on {
        acknowledged = until_stalled(&mut slow);
    }
    if let Some(back) = acknowledged {
        universe.acknowledge(&ids[..1], &back);
    }
    universe.run();
    let what = format!("{}, held up at {n}, {dies:?}, {goes_on}", road.name);
    assert_ended(&universe, road, may_repeat, &what);
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
fn recorded_and_not_handed_off() -> Universe {
    let mut universe = Universe::new();
    universe.subscribe("m");
    universe.world.state().answers.insert(Universe::endpoint("m"), vec![answered(503)]);
    universe.copies = true;
    universe.produce(&Universe::message("m", ""));
    universe.copies = false;
    let second = universe.receive(&["sqs-2".to_owned()]);
    universe.world.fail("send", 1, redial_testkit::memory::PortErrorKind::Broken);
    let back = universe.invoke_with(second);
    assert_eq!(back, ["sqs-2"]);
    assert_eq!(universe.state_of("m"), Some(State::Retrying));
    universe
}

#[test]
fn a_copy_that_is_judged_as_done_takes_no_other_with_it() {
    for order in [["sqs-1", "sqs-2"], ["sqs-2", "sqs-1"]] {
        let mut universe = recorded_and_not_handed_off();
        let ids = order.map(str::to_owned);
        let batch = universe.receive(&ids);
        let back = universe.invoke_with(batch);
        universe.acknowledge(&ids, &back);
        universe.run();
        assert_eq!((universe.state_of("m"), universe.posts_to("m")), (Some(State::Sent), 2), "{order:?}");
    }
}

#[test]
fn a_copy_that_a_breaker_defers_takes_no_other_with_it() {
    for order in [["sqs-1", "sqs-2"], ["sqs-2", "sqs-1"]] {
        let mut universe = recorded_and_not_handed_off();
        hold_back(&mut universe, Duration::from_secs(60));
        let ids = order.map(str::to_owned);
        let batch = universe.receive(&ids);
        let back = universe.invoke_with(batch);
        assert_eq!(back, ids[1..], "the follower is judged by itself");
        universe.acknowledge(&ids, &back);
        universe.run();
        assert_eq!((universe.state_of("m"), universe.posts_to("m")), (Some(State::Sent), 2), "{order:?}");
    }
}

#[test]
fn two_copies_that_are_deferred_into_one_bucket_both_wait_there() {
    let mut universe = recorded_and_not_handed_off();
    hold_back(&mut universe, Duration::from_secs(3_600));
    for id in ["sqs-1", "sqs-2"] {
        let ids = [id.to_owned()];
        let batch = universe.receive(&ids);
        let back = universe.invoke_with(batch);
        universe.acknowledge(&ids, &back);
    }
    assert_eq!(universe.world.state().parked.len(), 2);
    universe.run();
    assert_eq!((universe.state_of("m"), universe.posts_to("m")), (Some(State::Sent), 2));
}

/// Opens the breaker of the push service for so long, and lets another worker go on, which reads that.
fn hold_back(universe: &mut Universe, lasting: Duration) {
    universe.world = universe.world.with_worker(Settings::default(), 3);
    let now = universe.world.now();
    let mut state = OriginState::default();
    let mut rng = redial_engine::ports::Randomness::rng(&universe.world);
    state.open(lasting, now, &Cooldowns::default(), &mut rng);
    let origin = Origin::parse("https://push.example").expect("valid");
    universe.world.state().origins.insert(origin, StoredOrigin { version: 1, state });
}
