//! `redial status --summary` on stacks.
//!
//! | file | what |
//! |---|---|
//! | `at_rest` | a stack whose functions are placeholders, so that messages stay where they were put |
//! | `at_work` | the real functions: what waits, what is parked and which origin fails, as they leave it |

mod at_rest;
mod at_work;

use crate::prelude::*;

/// The summary as a JSON document.
fn document(stack: &TestStack) -> Value {
    let line = stack.shown("status --summary --json");
    assert_eq!(line.lines().count(), 1, "{line}");
    parsed(&line)
}

/// One of the document's queues.
fn queue<'a>(document: &'a Value, lane: Option<&str>, queue: &str) -> &'a Value {
    let queues = document["queues"].as_array().expect("a list");
    queues.iter().find(|it| it["lane"].as_str() == lane && it["queue"] == queue).expect("it is listed")
}

/// What is parked of a lane and due within a span.
fn parked<'a>(document: &'a Value, lane: &str, within: &str) -> &'a Value {
    let lanes = document["parked"]["lanes"].as_array().expect("a list");
    let lane = lanes.iter().find(|it| it["lane"] == lane).expect("it is listed");
    lane["due"].as_array().expect("a list").iter().find(|it| it["within"] == within).expect("it is listed")
}
