//! The functions' processes are killed at every call that they make to AWS, in every scenario: before the call is carried out, and
//! after it was carried out and before its answer arrives. Nothing is lost, every delivery ends as it would have, and nothing is
//! sent twice unless the death fell between the POST and its record.
//!
//! A proxy stands between the function and the emulator, and each effect of a function is one call. The test is the event source
//! mapping, with a visibility time-out of its own, a little longer than a lease. The cases only wait, and many run at once, each in an
//! environment of its own that takes one case after the other.

mod environment;
mod problems;
mod scenarios;

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::VecDeque,
    fmt::{self, Display},
};

use futures_util::future::join_all;
use redial_testkit::proxy::Call;
use redial_tests::{hosted::Which, test_stack::TestStack};

use environment::{Environment, Seen};
use problems::problems;
use scenarios::{Scenario, scenarios};

const ENVIRONMENTS: usize = 32;

/// How often cases are run again for the deaths that their scenario has not had.
const ROUNDS: usize = 3;

#[derive(Clone)]
struct Death {
    of: Which,
    /// At which of its calls of this operation, from 1. Which reads are made depends on the time that has passed, so calls are not counted
    /// together.
    call: usize,
    operation: String,
    /// Whether that call was carried out.
    carried_out: bool,
}

#[derive(Clone)]
struct Case {
    scenario: Scenario,
    death: Option<Death>,
}

impl Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scenario.name)?;
        let Some(Death { of, call, operation, carried_out }) = &self.death else { return Ok(()) };
        let moment = if *carried_out { "after" } else { "before" };
        write!(f, ", {of:?} killed {moment} call {call} {operation}")
    }
}

#[tokio::test]
async fn killed_at_any_call_every_scenario_ends_and_sends_once() {
    let stack = TestStack::up().await;
    let mut environments = join_all((0..ENVIRONMENTS).map(|number| Environment::start(&stack, number))).await;

    // First without a death, to see that the scenario ends as it should, and to count its calls.
    let alive = scenarios().into_iter().map(|scenario| Case { scenario, death: None }).collect();
    let alive = run_all(&stack, &mut environments, alive).await;
    let found: Vec<String> = alive.iter().flat_map(problems).collect();
    assert!(found.is_empty(), "without any death: {}", found.join("\n"));

    // The slowest first, so that none of them is what all others wait for in the end.
    let mut cases: Vec<Case> = alive.iter().flat_map(deaths).collect();
    cases.sort_by_key(|case| Reverse(case.scenario.slowness));
    let count = cases.len();
    assert!(count > 150, "{count} deaths are too few to be all of them");
    let mut seen = run_all(&stack, &mut environments, cases.clone()).await;
    // Which calls are made depends on how fast the machine is: where the one to die at was not made, the case is run again.
    let lived: Vec<Case> = seen.iter().filter(|seen| seen.lived_on).map(|seen| seen.case.clone()).collect();
    assert!(lived.len() * 10 < count, "{} of {count} calls to die at were not made", lived.len());
    seen.extend(run_all(&stack, &mut environments, lived).await);
    // A POST whose answer comes too late is followed by another one: then a call that was to come after a POST is before it.
    for _ in 0..ROUNDS {
        let again: Vec<Case> = cases.iter().filter(|case| misses_a_death(case, &seen)).cloned().collect();
        seen.extend(run_all(&stack, &mut environments, again).await);
    }
    let found: Vec<String> = seen.iter().flat_map(problems).collect();
    assert!(found.is_empty(), "{} problems\n{}", found.len(), found.join("\n"));
    for Scenario { name, posts, .. } in scenarios() {
        let between = deaths_between(name, &seen);
        assert!(between >= posts, "{name}: {between} deaths between {posts} posts and their records");
    }
}

/// In how many cases of a scenario a process died between a POST and its record.
fn deaths_between(scenario: &str, seen: &[Seen]) -> usize {
    seen.iter().filter(|seen| seen.case.scenario.name == scenario && seen.fell_between).count()
}

/// Whether it may have such a death, and its scenario has too few.
fn misses_a_death(case: &Case, seen: &[Seen]) -> bool {
    let Scenario { name, posts, .. } = case.scenario;
    let records = |death: &Death| death.operation == "BatchExecuteStatement" && !death.carried_out;
    case.death.as_ref().is_some_and(records) && deaths_between(name, seen) < posts
}

/// Runs the cases, as many at once as there are environments.
async fn run_all(stack: &TestStack, environments: &mut [Environment], cases: Vec<Case>) -> Vec<Seen> {
    let (cases, seen) = (RefCell::new(VecDeque::from(cases)), RefCell::new(Vec::new()));
    let next = || cases.borrow_mut().pop_front();
    join_all(environments.iter_mut().map(async |environment| {
        while let Some(case) = next() {
            let one = environment.run(stack, case).await;
            seen.borrow_mut().push(one);
        }
    }))
    .await;
    seen.into_inner()
}

/// Every death in a case that was run without one.
fn deaths(alive: &Seen) -> Vec<Case> {
    let calls =
        alive.calls.iter().flat_map(|(of, call)| [false, true].map(|carried_out| (*of, call, carried_out)));
    let is_earlier = |(other, earlier): &&(Which, Call), of: Which, call: &Call| {
        *other == of && earlier.operation == call.operation && earlier.number <= call.number
    };
    let death = |(of, call, carried_out): (Which, &Call, bool)| {
        let nth = alive.calls.iter().filter(|it| is_earlier(it, of, call)).count();
        let death = Death { of, call: nth, operation: call.operation.clone(), carried_out };
        Case { death: Some(death), ..alive.case.clone() }
    };
    calls.map(death).collect()
}
