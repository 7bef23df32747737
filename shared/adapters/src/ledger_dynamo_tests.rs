//! The ledger on a DynamoDB whose statements fail one by one.

use redial_core::channel::Channel;
use redial_core::endpoint::HashKeys;
use redial_core::identity::IdSource;
use redial_core::ledger::Ask;
use serde_json::{Value, json};

use super::*;
use crate::stub_dynamo::{Answer, StubDynamo, error, now};

/// The errors of a statement that may pass, as `BatchStatementErrorCodeEnum` spells them.
const PASSING: [&str; 5] = [
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
    "InternalServerError",
    "RequestLimitExceeded",
    "TransactionConflict",
];

/// Those that do not.
const LASTING: [&str; 4] =
    ["AccessDenied", "ItemCollectionSizeLimitExceeded", "ResourceNotFound", "ValidationError"];

const TOKEN: &str = "invocation-1";

fn key(id: &str) -> DeliveryKey {
    DeliveryKey { tenant: Tenant::parse("acme").expect("valid"), id: DeliveryId::parse(id).expect("valid") }
}

fn at() -> Timestamp {
    Timestamp::from_secs(1_800_000_000)
}

fn fingerprint() -> EndpointHash {
    HashKeys::parse("k1:0123456789abcdef").expect("valid").fingerprint(b"content")
}

fn record(id: &str) -> Record {
    Record {
        key: key(id),
        turn: Turn::default(),
        lease_token: TOKEN.to_owned(),
        state: State::Sent,
        status: Some(201),
        verdict: None,
        reason: None,
        not_sent: None,
        provider_word: None,
        headers: Vec::new(),
        not_before: None,
        in_doubt: false,
        kept_until: None,
        now: at(),
    }
}

fn claim(id: &str) -> Claim {
    Claim {
        ask: Ask {
            key: key(id),
            turn: Turn::default(),
            lease_token: TOKEN.to_owned(),
            lease_until: at(),
            source_message: "sqs-1".to_owned(),
            fingerprint: fingerprint(),
            id_source: IdSource::Producer,
            state: State::Sending,
        },
        channel: Channel::WebPush,
        endpoint_hash: None,
        subscription: None,
        settlement: None,
    }
}

fn ledger(stub: &StubDynamo) -> DynamoLedger {
    DynamoLedger::new(stub.client(), "deliveries".to_owned())
}

fn is_about(statement: &Value, id: &str) -> bool {
    statement["Parameters"].to_string().contains(&format!("\"acme#{id}\""))
}

/// Answers the statements of a call; each with `Some(code)` fails.
fn statements(call: &Value, fails: impl FnMut(&Value) -> Option<&'static str>) -> Answer {
    let all = call["Statements"].as_array().expect("statements");
    let answers = all.iter().map(fails).map(|code| match code {
        None => json!({}),
        Some(code) => json!({"Error": {"Code": code}}),
    });
    Ok(json!({"Responses": answers.collect::<Vec<_>>()}))
}

/// Fails the statements about `b` with `code` for the first `times` times.
fn failing(code: &'static str, mut times: usize) -> StubDynamo {
    StubDynamo::new(move |_, call| {
        statements(call, |statement| {
            let fails = is_about(statement, "b") && times > 0;
            times -= usize::from(fails);
            fails.then_some(code)
        })
    })
}

fn sizes(stub: &StubDynamo) -> Vec<usize> {
    let calls = stub.calls("BatchExecuteStatement");
    calls.iter().map(|call| call["Statements"].as_array().map_or(0, Vec::len)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_record_is_written_again_after_a_passing_error() {
    for code in PASSING {
        let (stub, began) = (failing(code, 6), now());
        let records = ["a", "b", "c"].map(record).to_vec();
        assert_eq!(ledger(&stub).record(records).await, vec![Ok(Fence::Held); 3], "{code}");
        assert_eq!(sizes(&stub), [3, 1, 1, 1, 1, 1, 1], "only the failed record is written again: {code}");
        assert!(now() > began, "with pauses: {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_made_again_after_a_passing_error() {
    for code in PASSING {
        let (stub, began) = (failing(code, 3), now());
        let claims = ["a", "b", "c"].map(claim).to_vec();
        let granted = Ok(ClaimAnswer::Granted { in_doubt: false, at: at() });
        assert_eq!(ledger(&stub).claim(claims, at()).await, vec![granted; 3], "{code}");
        assert_eq!(sizes(&stub), [3, 1, 1, 1], "{code}");
        assert!(now() > began, "with pauses: {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_statement_is_not_tried_again_after_a_lasting_error() {
    for code in LASTING {
        let (stub, began) = (failing(code, usize::MAX), now());
        let recorded = ledger(&stub).record(["a", "b"].map(record).to_vec()).await;
        assert_eq!(recorded[0], Ok(Fence::Held), "{code}");
        assert_eq!(recorded[1].as_ref().map_err(|error| error.code.as_str()), Err(code));
        assert_eq!((sizes(&stub), now()), (vec![2], began), "{code}");
    }
}

/// The item after `state` was written under this token.
fn stored(state: State, token: &str) -> Value {
    let text = |text: &str| json!({"S": text});
    let number = |number: i64| json!({"N": number.to_string()});
    json!({
        "pk": text("acme#b"), "tenant": text("acme"), "id": text("b"), "state": text(state.label()),
        "lineage": number(0), "attempt": number(0), "fingerprint": text(fingerprint().as_str()),
        "lease_token": text(token), "lease_until": number(at().as_ms()), "source_message": text("sqs-1"),
        "created_at": number(at().as_ms()), "updated_at": number(at().as_ms()),
        "expires_at": number(at().as_secs() + 86_400),
    })
}

/// Refuses every condition; `item` is in the table.
fn refusing(item: Value) -> StubDynamo {
    StubDynamo::new(move |operation, call| match operation {
        "BatchGetItem" => Ok(json!({"Responses": {"deliveries": [item.clone()]}})),
        _ => statements(call, |_| Some("ConditionalCheckFailed")),
    })
}

#[tokio::test(start_paused = true)]
async fn an_own_record_whose_answer_was_lost_is_recognised() {
    let recorded = async |item| ledger(&refusing(item)).record(vec![record("b")]).await;
    assert_eq!(recorded(stored(State::Sent, TOKEN)).await, [Ok(Fence::Held)]);
    assert_eq!(recorded(stored(State::Sent, "invocation-2")).await, [Ok(Fence::Lost)]);
    assert_eq!(recorded(stored(State::Queued, TOKEN)).await, [Ok(Fence::Lost)]);
}

#[tokio::test(start_paused = true)]
async fn one_invalid_statement_leaves_the_others_of_its_call_alone() {
    let stub = StubDynamo::new(|_, call| {
        let all = call["Statements"].as_array().expect("statements");
        if all.iter().any(|statement| is_about(statement, "b")) {
            return Err(error("ValidationException"));
        }
        statements(call, |_| None)
    });
    let recorded = ledger(&stub).record(["a", "b", "c"].map(record).to_vec()).await;
    assert_eq!((&recorded[0], &recorded[2]), (&Ok(Fence::Held), &Ok(Fence::Held)));
    assert_eq!(recorded[1].as_ref().expect_err("invalid").code, "ValidationException");
}
