//! The functions' processes are killed at every call that they make to AWS, on every road: before the call is carried out, and
//! after it was carried out and before its answer arrives. Nothing is lost, every delivery ends as it would have, and nothing is
//! sent twice unless the death fell between the POST and its record.
//!
//! A proxy stands between the function and the emulator, and each effect of a function is one call. The test is the event source mapping, with a visibility time-out of its own, a little longer than a lease.
//!
//! The cases only wait, so many are under way at once: each of a few stages (a copy of the stack's resources, and a process of
//! each function) takes one case after the other until none is left. Nothing is shared between two cases of one moment.

mod roads;
mod stage;
mod verdict;

use std::cell::RefCell;
use std::collections::VecDeque;

use futures_util::future::join_all;
use redial_tests::hosted::Which;
use redial_tests::test_stack::TestStack;

use roads::{Road, roads};
use stage::Stage;

/// Cases under way at once. They wait nearly all of their time.
const STAGES: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Death {
    of: Which,
    /// At which of its calls, from 1.
    call: usize,
    /// Whether that call was carried out.
    carried_out: bool,
}

/// A road, and the death on it.
struct Case {
    road: Road,
    death: Death,
    /// Shown with a failure.
    description: String,
}

#[tokio::test]
async fn killed_at_any_call_every_road_ends_and_sends_once() {
    let stack = TestStack::up().await;
    let numbers: Vec<usize> = (0..STAGES).collect();
    let mut stages = join_all(numbers.iter().map(|number| Stage::set(&stack, *number))).await;

    // First without a death, to see that the road is what it should be, and to count its calls.
    let all = RefCell::new(VecDeque::from(roads()));
    let cases = RefCell::new(Vec::new());
    let problems = RefCell::new(Vec::new());
    join_all(stages.iter_mut().map(async |stage| {
        loop {
            let Some(road) = all.borrow_mut().pop_front() else { break };
            let seen = stage.travel(&stack, &road, None).await;
            problems.borrow_mut().extend(verdict::problems(&road, None, &seen));
            cases.borrow_mut().extend(deaths(&road, stage));
        }
    }))
    .await;
    let found: Vec<String> = problems.take();
    assert!(found.is_empty(), "without any death: {}", found.join("\n"));

    // The slowest first, so that none of them is what all others wait for in the end.
    let mut cases = cases.into_inner();
    cases.sort_by_key(|case| std::cmp::Reverse(case.road.slowness));
    let count = cases.len();
    let cases = RefCell::new(VecDeque::from(cases));
    let (between, lived) = (RefCell::new(0), RefCell::new(0));
    join_all(stages.iter_mut().map(async |stage| {
        loop {
            let Some(case) = cases.borrow_mut().pop_front() else { break };
            let seen = stage.travel(&stack, &case.road, Some(case.death)).await;
            *between.borrow_mut() += usize::from(seen.fell_between);
            *lived.borrow_mut() += usize::from(seen.lived_on);
            let found = verdict::problems(&case.road, Some(case.death), &seen);
            problems
                .borrow_mut()
                .extend(found.into_iter().map(|problem| format!("{}: {problem}", case.description)));
        }
    }))
    .await;
    let problems = problems.take();
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
    let posts: usize = roads().iter().map(|road| road.posts).sum();
    assert!(between.take() >= posts, "of each POST a death falls between it and its record");
    let lived = lived.take();
    assert!(lived * 20 < count, "{lived} of {count} calls to die at were not made");
    assert!(count > 150, "{count} deaths are too few to be all of them");
}

/// Every death on a road that this stage has just travelled alive.
fn deaths(road: &Road, stage: &Stage) -> Vec<Case> {
    let mut cases = Vec::new();
    for of in [Which::Dispatch, Which::Cleanup] {
        for call in stage.calls(of) {
            for carried_out in [false, true] {
                let moment = if carried_out { "after" } else { "before" };
                let description =
                    format!("{}, {of:?} killed {moment} call {} {}", road.name, call.number, call.operation);
                let death = Death { of, call: call.number, carried_out };
                cases.push(Case { road: road.clone(), death, description });
            }
        }
    }
    cases
}
