//! What is written for the index and read from it.

use std::time::Duration;

use redial_core::identity::{Attempt, DeliveryId, Lineage, Turn};
use redial_core::ledger::listing::{Filter, SHARDS};
use redial_core::ledger::{Record, State, cancel};
use redial_core::time::Timestamp;
use redial_engine::ports::{Claim, Deliveries as _, Ledger as _, Settlement};
use serde_json::{Value, json};

use super::*;
use crate::deliveries_dynamo::DynamoDeliveries;
use crate::fixtures::delivery;
use crate::ledger_dynamo::DynamoLedger;
use crate::ledger_dynamo::tests::{at, claim};
use crate::stub_dynamo::StubDynamo;

/// The statements of a ledger that takes each at once.
async fn statements(of: impl AsyncFnOnce(DynamoLedger)) -> Vec<String> {
    let stub = StubDynamo::new(|_, call| {
        let count = call["Statements"].as_array().map_or(0, Vec::len);
        Ok(json!({"Responses": vec![json!({}); count]}))
    });
    of(DynamoLedger::new(stub.client(), "deliveries".to_owned())).await;
    let calls = stub.calls("BatchExecuteStatement");
    let all = calls.iter().flat_map(|call| call["Statements"].as_array().cloned().unwrap_or_default());
    all.map(|statement| statement.to_string()).collect()
}

fn record(state: State) -> Record {
    let turn = Turn { lineage: Lineage(0), attempt: Attempt(1) };
    let success =
        redial_core::ledger::batch::Success { at: at(), status: Some(201), headers: Default::default() };
    let entry = cancel::unknown(delivery("m1"), at());
    Record { turn, state, place: None, verdict: None, kept_until: None, ..success.record(&entry) }
}

#[tokio::test]
async fn what_succeeds_at_once_never_touches_the_index() {
    let all = statements(async |ledger: DynamoLedger| {
        ledger.claim(vec![claim("m1")], at()).await;
        ledger.record(vec![record(State::Sent)]).await;
    })
    .await;
    assert_eq!(all.len(), 2);
    assert!(!all.concat().contains("found_"), "{all:?}");
}

#[tokio::test]
async fn a_retry_is_in_the_index_until_it_is_claimed_and_an_end_stays() {
    for state in State::ALL {
        let all = statements(async |ledger: DynamoLedger| {
            ledger.record(vec![record(state)]).await;
        })
        .await;
        assert_eq!(all[0].contains("SET \\\"found_by\\\" = ?"), state.is_listed(), "{state}: {}", all[0]);
        assert!(!all[0].contains("REMOVE"), "its claim has removed it: {}", all[0]);
    }
    let retry = |settlement: Option<Settlement>| {
        let claim = claim("m1");
        let mut ask = claim.ask.clone();
        ask.turn.attempt = Attempt(1);
        ask.state = settlement.map_or(State::Sending, |end| end.state);
        Claim { ask, settlement, ..claim }
    };
    let all = statements(async |ledger: DynamoLedger| {
        ledger.claim(vec![retry(None)], at()).await;
        ledger.claim(vec![retry(Some(Settlement { state: State::Expired, reason: None }))], at()).await;
    })
    .await;
    assert!(all[0].contains("REMOVE \\\"found_by\\\" REMOVE \\\"found_at\\\""), "{}", all[0]);
    // One that ends without an attempt goes from one place in the index to another.
    assert!(all[1].contains("SET \\\"found_by\\\"") && !all[1].contains("REMOVE"), "{}", all[1]);
    assert!(all[1].contains("acme#expired#"), "{}", all[1]);
}

fn listing(filter: Filter, after: Option<Position>, limit: usize) -> Listing {
    let since = at().minus(Duration::from_secs(3600));
    Listing { tenant: delivery("m1").tenant, filter, since, tags: Vec::new(), after, limit }
}

fn position(secs: u64, id: &str) -> Position {
    Position { at: at().minus(Duration::from_secs(secs)), id: DeliveryId::parse(id).expect("an id") }
}

/// An index of these, and the entries of all, in these states.
fn indexed(of: &'static [(u64, &'static str, State)]) -> StubDynamo {
    StubDynamo::new(move |operation, call| {
        let text = call.to_string();
        let values = &call["ExpressionAttributeValues"];
        let value = |name: &str| values[name]["S"].as_str().unwrap_or_default().to_owned();
        let is_found = |(secs, id, state): &&(u64, &str, State)| {
            let (position, key) = (position(*secs, id), delivery(id));
            let sort = position.to_sort();
            let name = redial_core::ledger::listing::partition_of(&key, *state);
            value(":by") == name && value(":since") <= sort && sort <= value(":until")
        };
        match operation {
            "Query" => {
                assert_eq!(
                    (&call["IndexName"], &call["ScanIndexForward"]),
                    (&json!("by_state"), &json!(false))
                );
                assert_eq!(call["ConsistentRead"], Value::Null, "an index has no consistent reads");
                assert!(
                    value(":since") <= value(":until"),
                    "DynamoDB refuses a range that ends before it begins"
                );
                let mut found: Vec<_> =
                    of.iter().filter(is_found).map(|(secs, id, _)| position(*secs, id)).collect();
                found.sort_by(|one, other| other.cmp(one));
                found.truncate(call["Limit"].as_u64().map_or(0, |limit| limit as usize));
                let item = |position: Position| json!({"found_at": {"S": position.to_sort()}});
                Ok(json!({"Items": found.into_iter().map(item).collect::<Vec<_>>()}))
            }
            _ => {
                let named = |id: &str| text.contains(&format!("\"acme#{id}\""));
                let items = of.iter().filter(|(_, id, _)| named(id)).map(|(secs, id, _)| {
                    // What was indexed as cancelled is no longer so.
                    entry_of(id, State::Retrying, at().minus(Duration::from_secs(*secs)))
                });
                Ok(json!({"Responses": {"deliveries": items.collect::<Vec<_>>()}}))
            }
        }
    })
}

fn entry_of(id: &str, state: State, updated_at: Timestamp) -> Value {
    let text = |text: &str| json!({"S": text});
    let number = |number: i64| json!({"N": number.to_string()});
    let fingerprint = cancel::unknown(delivery(id), at()).fingerprint;
    json!({
        "pk": text(&format!("acme#{id}")), "tenant": text("acme"), "id": text(id), "state": text(state.label()),
        "lineage": number(0), "attempt": number(0), "fingerprint": text(fingerprint.as_str()), "lease_token": text("t"),
        "lease_until": number(0), "source_message": text("sqs-1"), "created_at": number(updated_at.as_ms()),
        "updated_at": number(updated_at.as_ms()), "expires_at": number(4_000_000_000),
    })
}

const THREE: &[(u64, &str, State)] = &[
    (10, "a", State::Retrying),
    (20, "b", State::Retrying),
    (20, "c", State::Retrying),
    (5000, "old", State::Retrying),
];

#[tokio::test]
async fn pages_follow_one_another_without_a_gap_or_a_repetition() {
    for limit in 1..=4 {
        let stub = indexed(THREE);
        let deliveries = DynamoDeliveries::new(stub.client(), "deliveries".to_owned());
        let (mut ids, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let listed = deliveries.list(&listing(Filter::Retrying, after, limit)).await.expect("it answers");
            assert!(listed.records.len() <= limit);
            ids.extend(listed.records.iter().map(|record| record.entry.key.id.to_string()));
            pages += 1;
            match listed.next {
                None => break,
                next => after = next,
            }
        }
        assert_eq!(ids, ["a", "c", "b"], "the latest first, of those since: limit {limit}");
        assert_eq!(pages, 3_usize.div_ceil(limit), "limit {limit}");
        assert_eq!(stub.calls("Query").len(), pages * SHARDS as usize);
    }
}

/// A listing's usual beginning moves on while its reader takes time over a page.
#[tokio::test]
async fn nothing_is_listed_after_what_is_older_than_its_beginning() {
    let stub = indexed(THREE);
    let deliveries = DynamoDeliveries::new(stub.client(), "deliveries".to_owned());
    let after = Some(position(5000, "old"));
    let listed = deliveries.list(&listing(Filter::Retrying, after, 1)).await.expect("it answers");
    assert_eq!((listed.records, listed.next), (Vec::new(), None));
    assert!(stub.calls("Query").is_empty());
}

#[tokio::test]
async fn what_an_index_that_is_behind_shows_is_left_out() {
    let stub = indexed(&[(10, "a", State::Cancelled)]);
    let deliveries = DynamoDeliveries::new(stub.client(), "deliveries".to_owned());
    let listed = deliveries.list(&listing(Filter::Cancelled, None, 10)).await.expect("it answers");
    assert_eq!((listed.records, listed.next), (Vec::new(), None), "it is retrying by now");
}
