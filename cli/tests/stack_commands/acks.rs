//! What browsers tell of deliveries, in the ledger's real table: it stands beside what workers write there, and `status` shows it.

use std::time::Duration;

use redial_adapters::{acks_dynamo::DynamoAcks, ledger_dynamo::DynamoLedger, system::System};
use redial_core::{
    ack::AckEvent,
    channel::Channel,
    endpoint::HashKeys,
    identity::IdSource,
    identity::{Attempt, Lineage, Turn},
    ledger::{Ask, DEDUPE_WINDOW, Record, State},
    reason::Reason,
    time::Timestamp,
};
use redial_engine::ports::{
    Acknowledged, Acks as _, Claim, ClaimAnswer, Clock as _, Ledger as _, LedgerReader as _, PortError,
};
use serde_json::Value;

use super::{World, json, key, stdout};

fn turn(attempt: u32) -> Turn {
    Turn { lineage: Lineage(0), attempt: Attempt(attempt) }
}

fn claim(id: &str, attempt: u32, now: Timestamp) -> Claim {
    let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
    Claim {
        channel: Channel::WebPush,
        ask: Ask {
            key: key(id),
            turn: turn(attempt),
            lease_token: "token".to_owned(),
            lease_until: now.plus(Duration::from_secs(40)),
            source_message: format!("m{attempt}"),
            fingerprint: keys.fingerprint(b"content"),
            id_source: IdSource::Producer,
            state: State::Sending,
        },
        endpoint_hash: Some(keys.fingerprint(b"endpoint")),
        subscription: None,
        settlement: None,
    }
}

fn record(id: &str, attempt: u32, state: State, now: Timestamp) -> Record {
    Record {
        key: key(id),
        turn: turn(attempt),
        lease_token: "token".to_owned(),
        state,
        status: None,
        verdict: Some("retry"),
        reason: (state == State::Retrying).then_some(Reason::ServerError),
        not_sent: None,
        provider_word: None,
        headers: Vec::new(),
        not_before: None,
        in_doubt: false,
        kept_until: Some(now.plus(Duration::from_secs(35 * 86_400))),
        now,
    }
}

async fn attempt(ledger: &DynamoLedger, id: &str, number: u32, state: State, now: Timestamp) {
    let claimed = ledger.claim(vec![claim(id, number, now)], now).await;
    assert_eq!(claimed, [Ok(ClaimAnswer::Granted { in_doubt: false, at: now })]);
    for fence in ledger.record(vec![record(id, number, state, now)]).await {
        fence.expect("the claim is ours");
    }
}

/// When the ledger forgets a delivery, in epoch seconds.
async fn forgotten_at(world: &World, id: &str) -> i64 {
    let table = world.stack.description().tables.deliveries.clone();
    let pk = aws_sdk_dynamodb::types::AttributeValue::S(key(id).to_string());
    let got = world.dynamo().get_item().table_name(table).key("pk", pk).consistent_read(true).send().await;
    let item = got.expect("the table answers").item.expect("it is there");
    item["expires_at"].as_n().expect("a number").parse().expect("a number")
}

#[tokio::test]
async fn acknowledgements_in_any_order_stand_beside_the_delivery_and_status_shows_them() {
    let world = World::up().await;
    let table = world.stack.description().tables.deliveries.clone();
    let ledger = DynamoLedger::new(world.dynamo(), table.clone());
    let acks = DynamoAcks::new(world.dynamo(), table);
    // Whole seconds, for expiries are; and of now, for `status` does not show what is forgotten.
    let now = Timestamp::from_secs(System.now().as_secs());
    let after = |secs| now.plus(Duration::from_secs(secs));
    let tell = async |id: &str, event, at| -> Result<Acknowledged, PortError> {
        acks.acknowledge(&key(id), event, at).await
    };
    let status = |id: &str| world.redial(&["status", id, "--tenant", "acme", "--json"], "");

    // The first attempt arrived although no answer came back.
    attempt(&ledger, "d1", 0, State::Retrying, now).await;
    assert_eq!(tell("d1", AckEvent::Clicked, after(1)).await, Ok(Acknowledged::First));
    assert_eq!(tell("d1", AckEvent::Displayed, after(2)).await, Ok(Acknowledged::First));
    assert_eq!(tell("d1", AckEvent::Clicked, after(3)).await, Ok(Acknowledged::Again));
    let shown = json(&stdout(&status("d1")));
    assert_eq!(shown["state"], "retrying", "it is not changed by it");

    attempt(&ledger, "d1", 1, State::Sent, after(4)).await;
    let late = after(20 * 86_400);
    assert_eq!(tell("d1", AckEvent::Closed, late).await, Ok(Acknowledged::First));
    let shown = json(&stdout(&status("d1")));
    assert_eq!(shown["state"], "sent");
    for (field, at) in [("displayed_at", after(2)), ("clicked_at", after(1)), ("closed_at", late)] {
        assert_eq!(shown[field], at.to_rfc3339(), "{field}");
    }
    let words = stdout(&world.redial(&["status", "d1", "--tenant", "acme"], ""));
    assert!(words.contains(&format!("  displayed     {}\n", after(2).to_rfc3339())), "{words}");

    // It is kept for as long as its token is good, where that is longer than usual.
    assert_eq!(forgotten_at(&world, "d1").await, after(4 + 35 * 86_400).as_ms() / 1000);
    assert!(after(4).plus(DEDUPE_WINDOW) < late);

    // What is forgotten is not made anew.
    assert_eq!(tell("d2", AckEvent::Displayed, now).await, Ok(Acknowledged::Unknown));
    assert_eq!(status("d2").status.code(), Some(1));

    attempt(&ledger, "d3", 0, State::Sent, now).await;
    let shown = json(&stdout(&status("d3")));
    for field in ["displayed_at", "clicked_at", "closed_at"] {
        assert_eq!(shown.get(field), Some(&Value::Null), "{field}");
    }
}

#[tokio::test]
async fn a_claim_writes_over_an_entry_that_has_expired_and_is_still_there() {
    let world = World::up().await;
    let table = world.stack.description().tables.deliveries.clone();
    let ledger = DynamoLedger::new(world.dynamo(), table.clone());
    let now = Timestamp::from_secs(System.now().as_secs());
    let once = now.minus(Duration::from_secs(40 * 86_400));
    attempt(&ledger, "d1", 0, State::Retrying, once).await;
    attempt(&ledger, "d1", 1, State::Sent, once).await;
    let acks = DynamoAcks::new(world.dynamo(), table);
    let told = acks.acknowledge(&key("d1"), AckEvent::Displayed, once).await;
    assert_eq!(told, Ok(Acknowledged::First));
    assert_eq!(forgotten_at(&world, "d1").await, once.as_secs() + 35 * 86_400, "five days ago");
    let status = || world.redial(&["status", "d1", "--tenant", "acme", "--json"], "");
    assert_eq!(status().status.code(), Some(1));
    assert_eq!(ledger.get(&key("d1")).await, Ok(None));

    attempt(&ledger, "d1", 0, State::Sent, now).await;
    let shown = json(&stdout(&status()));
    assert_eq!((&shown["state"], &shown["displayed_at"]), (&"sent".into(), &Value::Null), "{shown}");
    assert_eq!(shown["created_at"], now.to_rfc3339(), "{shown}");
    assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(1), "{shown}");
    let entry = ledger.get(&key("d1")).await.expect("the table answers").expect("it is known again");
    assert_eq!((entry.status, entry.reason, entry.in_doubt), (None, None, false));
}
