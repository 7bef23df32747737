//! One receiver of a shared host that fails, against the others of that host.

use std::cell::Cell;

use redial_adapters::protection_dynamo::DynamoProtection;
use redial_core::protection::{Circuit, Phase};
use redial_tests::prelude::*;

const RECEIVERS: usize = 12;

/// Messages to the failing one in a round of one to each other.
const FLOOD: usize = 3;

#[tokio::test]
async fn a_failing_receiver_of_a_shared_host_is_held_back_alone() {
    let stack = TestStack::up_with_env([("BREAKER", "on"), ("BREAKER_COOLDOWN_SECONDS", "900")]).await;
    let protection = DynamoProtection::new(stack.dynamodb.clone(), stack.tables().control.clone());
    stack.webhooks.always("/receiver0", Answer::status(500));
    let message = |id: String, receiver: usize| {
        let url = stack.webhooks.url(&format!("/receiver{receiver}"));
        json!({"tenant": stack.tenant, "id": id, "to": {"webhook": {"url": url}}, "payload": "x"}).to_string()
    };
    let rounds = Cell::new(0);
    let round = async || {
        let round = rounds.replace(rounds.get() + 1);
        let to_each = (1..RECEIVERS).map(|n| message(format!("well{n}-{round}"), n));
        let to_one = (0..FLOOD).map(|n| message(format!("bad{n}-{round}"), 0));
        stack.send_all(to_each.chain(to_one)).await;
        round
    };
    stack
        .until("the receiver is held back", async || {
            round().await;
            let circuits = protection.circuits().await.expect("the table answers");
            let mut phases = circuits.iter().filter_map(|(circuit, stored)| match circuit {
                Circuit::Recipient(_) => Some(stored.state.breaker().phase(System.now())),
                Circuit::Origin(_) => None,
            });
            phases.any(|phase| matches!(phase, Phase::Open { .. })).then_some(())
        })
        .await;
    // Each worker has to see ten failures itself, and believes what it read for a second and a half. In a round without this breaker each
    // of its messages is posted.
    let posts = || stack.webhooks.requests("/receiver0").len();
    let before = posts();
    let after = stack
        .until("the others are sent to, and it is not", async || {
            let before = posts();
            let last = round().await;
            for n in 1..RECEIVERS {
                stack.until_state(&format!("well{n}-{last}"), "sent").await;
            }
            System.sleep(Duration::from_secs(2)).await;
            let after = posts() - before;
            (after < FLOOD).then_some(after)
        })
        .await;
    println!(
        "tried: {} messages to a failing receiver, {before} posts until it was held back, then {after} in a round",
        rounds.get() * FLOOD
    );
    assert_eq!(protection.origins().await.expect("the table answers").len(), 1);
    let origin = protection.origins().await.expect("the table answers");
    assert!(
        origin.iter().all(|(_, stored)| matches!(stored.state.breaker().phase(System.now()), Phase::Closed))
    );
}
