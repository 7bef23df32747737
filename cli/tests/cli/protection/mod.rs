//! Breakers and limits: what an operator sees of the origins that are posted to, and changes.
//!
//! | file | what |
//! |---|---|
//! | `breakers`, `limits` | the commands on a stack whose functions are placeholders |
//! | `steer` | the real functions follow them |
//! | `page` | the page for operators: every command on it, and its numbers |

mod breakers;
mod limits;
mod page;
mod steer;

use redial_adapters::protection_dynamo::DynamoProtection;
use redial_core::endpoint::Origin;

use crate::prelude::*;

#[tokio::test]
async fn an_operator_sees_and_changes_what_workers_share() {
    let stack = TestStack::idle().await;
    steps! {
        breakers::without_origins_every_breaker_is_closed(&stack);
        limits::limits_are_set_listed_and_removed(&stack);
        breakers::breakers_are_opened_and_closed(&stack);
        breakers::breakers_are_listed_as_workers_left_them(&stack);
        breakers::concurrent_operators_overwrite_no_change(&stack);
        breakers::an_operator_is_warned_where_breakers_are_off(&stack);
    }
}

fn protection(stack: &TestStack) -> DynamoProtection {
    DynamoProtection::new(stack.dynamodb.clone(), stack.description().tables.control.clone())
}

fn origin(text: &str) -> Origin {
    Origin::parse(text).expect("an origin")
}

/// The row of an origin in `breakers list --all`.
fn listed(stack: &TestStack, origin: &str) -> Option<Value> {
    let all = stack.json("breakers list --all");
    all["origins"].as_array().expect("a list").iter().find(|it| it["origin"] == origin).cloned()
}
