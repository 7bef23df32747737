//! Cancelling entries of a table, in each state and while another worker changes it.

use std::time::Duration;

use redial_core::ledger::State;
use redial_core::ledger::cancel::Cancelled;
use redial_engine::ports::{ClaimAnswer, Deliveries as _, Inserted, Ledger as _};
use serde_json::{Value, json};

use super::*;
use crate::deliveries_dynamo::DynamoDeliveries;
use crate::fake_table::FakeTable;
use crate::fixtures::delivery;
use crate::ledger_dynamo::DynamoLedger;
use crate::ledger_dynamo::tests::{at, claim, fingerprint};
use crate::stub_dynamo::StubDynamo;

const KEY: &str = "acme#m1";

fn deliveries(table: &FakeTable) -> DynamoDeliveries {
    DynamoDeliveries::new(table.client(), "deliveries".to_owned())
}

fn number(number: i64) -> Value {
    json!({"N": number.to_string()})
}

/// What a worker left: an attempt whose lease ends `lease_secs` seconds from now, or what followed it.
fn stored(state: State, lease_secs: i64) -> Value {
    let text = |text: &str| json!({"S": text});
    json!({
        "tenant": text("acme"), "id": text("m1"), "state": text(state.label()), "lineage": number(0), "attempt": number(1),
        "fingerprint": text(fingerprint("content").as_str()), "lease_token": text("other"),
        "lease_until": number(at().as_ms() + lease_secs * 1_000), "source_message": text("sqs-1"), "place": number(2),
        "not_before": number(at().as_ms() + 60_000), "status": number(503), "reason": text("server_error"),
        "channel": text("webhook"), "created_at": number(at().as_ms()), "updated_at": number(at().as_ms()),
        "expires_at": number(at().as_secs() + 86_400 * 15), "attempt_00": text("{}"),
    })
}

fn holding(item: &Value) -> FakeTable {
    let table = FakeTable::default();
    table.write(KEY, "", item);
    table
}

async fn cancelled(table: &FakeTable) -> Cancellation {
    deliveries(table).cancel(&delivery("m1"), at()).await.expect("the table answers")
}

#[tokio::test]
async fn each_state_is_cancelled_or_stays_as_it_is() {
    for state in State::ALL {
        for lease_secs in [-1, 40] {
            let before = stored(state, lease_secs);
            let table = holding(&before);
            let answer = cancelled(&table).await;
            let after = table.item(KEY, "").expect("it is kept");
            let is_attempted = state == State::Sending && lease_secs > 0;
            if state.is_terminal() || is_attempted {
                assert_eq!(after, before, "{state}");
                assert!(matches!(
                    (answer, state),
                    (Cancellation::BeingAttempted { until: Some(_) }, State::Sending)
                        | (Cancellation::Cancelled(_), State::Cancelled)
                        | (Cancellation::Ended(_), _)
                ));
                continue;
            }
            let in_doubt = state == State::Sending;
            let expected = Cancelled { at: at(), in_doubt, is_known: true };
            assert_eq!(answer, Cancellation::Cancelled(expected), "{state}");
            let changed =
                ["state", "reason", "source_message", "in_doubt", "updated_at", "expires_at", "not_before"];
            for (name, value) in before.as_object().expect("attributes") {
                let is_kept = !changed.contains(&name.as_str());
                assert!(!is_kept || after[name] == *value, "{state}: {name}");
            }
            assert_eq!(
                (&after["state"], &after["source_message"]),
                (&json!({"S": "cancelled"}), &json!({"S": ""}))
            );
            assert_eq!((&after["reason"], &after["not_before"]), (&json!({"S": "cancelled"}), &Value::Null));
            assert_eq!(after["in_doubt"], json!({"BOOL": in_doubt}));
            // The same request again has the same answer, and writes nothing.
            assert_eq!(cancelled(&table).await, answer);
            assert_eq!(table.item(KEY, ""), Some(after));
        }
    }
}

#[tokio::test]
async fn what_no_worker_has_seen_gets_an_entry_and_what_is_forgotten_a_new_one() {
    let expected = Cancelled { at: at(), in_doubt: false, is_known: false };
    let table = FakeTable::default();
    assert_eq!(cancelled(&table).await, Cancellation::Cancelled(expected));
    let fresh = table.item(KEY, "").expect("an entry");

    let mut forgotten = stored(State::Sent, 0);
    forgotten["expires_at"] = number(at().as_secs());
    forgotten["displayed_at"] = number(1);
    forgotten["in_doubt"] = json!({"BOOL": true});
    let table = holding(&forgotten);
    assert_eq!(cancelled(&table).await, Cancellation::Cancelled(expected));
    assert_eq!(table.item(KEY, "").as_ref(), Some(&fresh), "nothing is left of what was forgotten");

    let mut item: crate::table::attributes::Item = Default::default();
    for (name, value) in fresh.as_object().expect("attributes") {
        let text = value["S"].as_str().map(s);
        item.insert(name.clone(), text.unwrap_or_else(|| n(value["N"].as_str().expect("a number"))));
    }
    assert_eq!(entry(&item), Some(cancel::unknown(delivery("m1"), at())));
}

/// A table whose item another worker changes before it is written, so often.
fn changing(mut times: usize, to: &'static [State]) -> StubDynamo {
    let mut state = to.iter();
    StubDynamo::new(move |operation, _| match operation {
        "BatchGetItem" => {
            let mut item = stored(*state.next().unwrap_or(&State::Retrying), -1);
            item["pk"] = json!({"S": KEY});
            Ok(json!({"Responses": {"deliveries": [item]}}))
        }
        "UpdateItem" if times > 0 => {
            times -= 1;
            Err(crate::stub_dynamo::error("ConditionalCheckFailedException"))
        }
        _ => Ok(json!({})),
    })
}

#[tokio::test(start_paused = true)]
async fn a_change_in_between_is_judged_again() {
    let cancel = async |stub: &StubDynamo| {
        let deliveries = DynamoDeliveries::new(stub.client(), "deliveries".to_owned());
        deliveries.cancel(&delivery("m1"), at()).await
    };
    let stub = changing(1, &[State::Retrying, State::Sent]);
    assert_eq!(cancel(&stub).await, Ok(Cancellation::Ended(State::Sent)), "a worker was faster");
    let stub = changing(2, &[State::Queued, State::Retrying, State::Retrying]);
    assert!(matches!(cancel(&stub).await, Ok(Cancellation::Cancelled(_))));
    let stub = changing(usize::MAX, &[]);
    assert_eq!(cancel(&stub).await.expect_err("it never holds").code, "Contention");
}

#[tokio::test]
async fn an_attempt_counts_as_sent_if_its_closed_batch_lists_it() {
    for listed in [true, false] {
        let table = holding(&stored(State::Sending, -1));
        if listed {
            let success = json!({"S": r#"{"at":1000,"s":201}"#});
            table.write(
                "batch#other",
                "",
                &json!({"p2": success, "expires_at": number(at().as_secs() + 1_000)}),
            );
        }
        match cancelled(&table).await {
            Cancellation::Ended(state) => assert!(listed && state == State::Sent),
            Cancellation::Cancelled(cancelled) => assert!(!listed && cancelled.in_doubt),
            other @ (Cancellation::BeingAttempted { .. } | Cancellation::OnPage) => panic!("{other:?}"),
        }
        assert!(table.item("batch#other", "").is_some_and(|batch| batch["closed"].is_object()));
    }
    // While its worker has time, nothing is closed.
    let table = holding(&stored(State::Sending, 40));
    cancelled(&table).await;
    assert_eq!(table.item("batch#other", ""), None);
}

#[tokio::test]
async fn an_unknown_release_s_entry_is_an_error_and_is_not_overwritten() {
    let mut other = stored(State::Queued, 0);
    other["state"] = json!({"S": "levitating"});
    let table = holding(&other);
    let error = deliveries(&table).cancel(&delivery("m1"), at()).await.expect_err("it is not guessed at");
    assert_eq!(error.code, "Unreadable");
    assert_eq!(table.item(KEY, ""), Some(other));
}

/// A ledger whose inserts find this entry; with the statements that were tried after it.
async fn claims_on(cancelled: Value) -> (ClaimAnswer, Vec<String>) {
    let stub = StubDynamo::new(move |operation, call| match operation {
        "BatchGetItem" => Ok(json!({"Responses": {"deliveries": [cancelled]}})),
        _ => {
            let text = call["Statements"][0]["Statement"].as_str().expect("a statement");
            let code = json!({"Error": {"Code": "DuplicateItem"}});
            Ok(json!({"Responses": [if text.starts_with("INSERT") { code } else { json!({}) }]}))
        }
    });
    let ledger = DynamoLedger::new(stub.client(), "deliveries".to_owned());
    let answer = ledger.claim(vec![claim("m1")], at()).await.remove(0).expect("the table answers");
    let calls = stub.calls("BatchExecuteStatement").into_iter();
    (answer, calls.map(|call| call["Statements"][0].to_string()).collect())
}

#[tokio::test]
async fn the_first_claim_meets_a_cancellation_and_a_copy_s_does_nothing() {
    let met = |source: &str| {
        let mut item = stored(State::Cancelled, -1);
        item["pk"] = json!({"S": KEY});
        item["attempt"] = number(0);
        item["source_message"] = json!({"S": source});
        item
    };
    let (answer, statements) = claims_on(met("")).await;
    let ClaimAnswer::HandOffAgain(entry) = answer else { panic!("{answer:?}") };
    assert_eq!((entry.state, entry.source_message.as_str()), (State::Cancelled, "sqs-1"));
    assert_eq!(statements.len(), 2, "an insert, and the swap that says which message has met it");
    assert!(
        !statements[1].contains("expires_at") && !statements[1].contains("updated_at"),
        "{}",
        statements[1]
    );
    let (answer, statements) = claims_on(met("sqs-1")).await;
    assert!(
        matches!(answer, ClaimAnswer::HandOffAgain(_)) && statements.len() == 1,
        "its acknowledgement was lost"
    );
    assert_eq!(claims_on(met("sqs-2")).await.0, ClaimAnswer::Done);
}

#[tokio::test]
async fn the_api_takes_no_message_under_a_cancelled_id() {
    let mut unseen = stored(State::Cancelled, -1);
    unseen["pk"] = json!({"S": KEY});
    let stub = StubDynamo::new(move |operation, _| match operation {
        "BatchGetItem" => Ok(json!({"Responses": {"deliveries": [unseen]}})),
        _ => Ok(json!({"Responses": [{"Error": {"Code": "DuplicateItem"}}]})),
    });
    let deliveries = DynamoDeliveries::new(stub.client(), "deliveries".to_owned());
    let new = redial_engine::ports::NewDelivery {
        key: delivery("m1"),
        fingerprint: fingerprint("content"),
        channel: None,
        endpoint_hash: None,
        subscription: None,
        given: Default::default(),
        not_before: None,
    };
    let answers = deliveries.insert(vec![new], at().plus(Duration::from_secs(1))).await;
    assert!(matches!(answers[0], Ok(Inserted::Duplicate { state: State::Cancelled, .. })), "{answers:?}");
}
