//! The ledger on a DynamoDB whose statements fail one by one.

use std::time::Duration;

use redial_core::channel::Channel;
use redial_core::endpoint::{Endpoint, EndpointHash};
use redial_core::identity::{IdSource, SubscriptionId};
use redial_core::ledger::{Ask, Given};
use redial_core::reason::Reason;
use redial_core::time::Ttl;
use serde_json::{Value, json};

use super::*;
use crate::delivery_item::{GIVEN, bytes_after_failures};
use crate::fake_table::FakeTable;
use crate::fixtures::{self, delivery, hash_keys};
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

pub(crate) fn at() -> Timestamp {
    Timestamp::from_secs(1_800_000_000)
}

pub(crate) fn fingerprint(content: &str) -> EndpointHash {
    hash_keys().fingerprint(content.as_bytes())
}

pub(crate) fn record(id: &str) -> Record {
    Record {
        key: delivery(id),
        turn: Turn::default(),
        lease_token: TOKEN.to_owned(),
        place: None,
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

pub(crate) fn claim(id: &str) -> Claim {
    Claim {
        ask: Ask {
            key: delivery(id),
            turn: Turn::default(),
            lease_token: TOKEN.to_owned(),
            lease_until: at(),
            source_message: "sqs-1".to_owned(),
            fingerprint: fingerprint("content"),
            id_source: IdSource::Producer,
            state: State::Sending,
        },
        channel: Channel::WebPush,
        endpoint_hash: None,
        subscription: None,
        given: Given::default(),
        place: Some(0),
        kept_until: None,
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
async fn a_statement_is_tried_again_alone_after_a_passing_error() {
    for code in PASSING {
        let (stub, began) = (failing(code, 6), now());
        let recorded = ledger(&stub).record(["a", "b", "c"].map(record).to_vec()).await;
        assert_eq!((recorded, sizes(&stub)), (vec![Ok(Fence::Held); 3], vec![3, 1, 1, 1, 1, 1, 1]), "{code}");
        assert!(now() > began, "with pauses: {code}");

        let (stub, began) = (failing(code, 3), now());
        let claimed = ledger(&stub).claim(["a", "b", "c"].map(claim).to_vec(), at()).await;
        let granted = Ok(ClaimAnswer::Granted { in_doubt: false, at: at() });
        assert_eq!((claimed, sizes(&stub)), (vec![granted; 3], vec![3, 1, 1, 1]), "{code}");
        assert!(now() > began, "with pauses: {code}");
    }
    for code in LASTING {
        let (stub, began) = (failing(code, usize::MAX), now());
        let recorded = ledger(&stub).record(["a", "b"].map(record).to_vec()).await;
        assert_eq!(recorded, [Ok(Fence::Held), Err(aws_error::of_code("BatchExecuteStatement", code))]);
        assert_eq!((sizes(&stub), now()), (vec![2], began), "{code}");
    }
}

/// The item after `state` was written under this token.
pub(crate) fn stored(state: State, token: &str) -> Value {
    let text = |text: &str| json!({"S": text});
    let number = |number: i64| json!({"N": number.to_string()});
    json!({
        "pk": text("acme#b"), "tenant": text("acme"), "id": text("b"), "state": text(state.label()),
        "lineage": number(0), "attempt": number(0), "fingerprint": text(fingerprint("content").as_str()),
        "lease_token": text(token), "lease_until": number(at().as_ms()), "source_message": text("sqs-1"),
        "created_at": number(at().as_ms()), "updated_at": number(at().as_ms()),
        "expires_at": number(at().as_secs() + 86_400),
    })
}

#[tokio::test(start_paused = true)]
async fn an_own_record_whose_answer_was_lost_is_recognised() {
    for (state, token, fence) in [
        (State::Sent, TOKEN, Fence::Held),
        (State::Sent, "invocation-2", Fence::Lost),
        (State::Queued, TOKEN, Fence::Lost),
    ] {
        let stub = StubDynamo::new(move |operation, call| match operation {
            "BatchGetItem" => Ok(json!({"Responses": {"deliveries": [stored(state, token)]}})),
            _ => statements(call, |_| Some("ConditionalCheckFailed")),
        });
        assert_eq!(ledger(&stub).record(vec![record("b")]).await, [Ok(fence)], "{state:?} {token}");
    }
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

/// The names that the last statement of a claim on this entry sets and removes.
async fn swapped(stored: Value, claim: Claim) -> [Vec<String>; 2] {
    let stub = StubDynamo::new(move |operation, call| match operation {
        "BatchGetItem" => Ok(json!({"Responses": {"deliveries": [stored]}})),
        _ => {
            let is_usual = call["Statements"].to_string().contains("INSERT");
            statements(call, |_| is_usual.then_some("DuplicateItem"))
        }
    });
    let claimed = ledger(&stub).claim(vec![claim], at()).await;
    assert!(matches!(claimed[0], Ok(ClaimAnswer::Granted { .. })), "{claimed:?}");
    let calls = stub.calls("BatchExecuteStatement");
    let last =
        calls.last().expect("a call")["Statements"][0]["Statement"].as_str().expect("a text").to_owned();
    let names = |word: &str| {
        let before = format!(" {word} \"");
        last.split(&before).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
    };
    [names("SET"), names("REMOVE")]
}

#[tokio::test(start_paused = true)]
async fn a_claim_writes_what_its_message_says_of_itself_and_when_it_is_dispatched() {
    let given = fixtures::given();
    let mut queued = stored(State::Queued, "http-api");
    for (name, value) in crate::delivery_item::given(&given) {
        queued[name] =
            value.as_n().map_or_else(|_| json!({"S": value.as_s().expect("text")}), |n| json!({"N": n}));
    }
    let names = |names: &[String]| -> Vec<String> {
        names.iter().filter(|name| GIVEN.contains(&name.as_str()) || *name == DISPATCHED).cloned().collect()
    };
    let all: Vec<String> = GIVEN.into_iter().chain([DISPATCHED]).map(str::to_owned).collect();
    let [set, removed] = swapped(queued.clone(), Claim { given: given.clone(), ..claim("b") }).await;
    assert_eq!((names(&set), names(&removed)), (all, Vec::new()));
    // What another message of the delivery said, this one does not.
    let [set, removed] = swapped(queued.clone(), claim("b")).await;
    assert_eq!(
        (names(&set), names(&removed)),
        (vec![DISPATCHED.to_owned()], GIVEN.map(str::to_owned).to_vec())
    );
    // An end without an attempt, of one whose claim was given back.
    queued[DISPATCHED] = json!({"N": "1"});
    let end = Ask { state: State::Expired, ..claim("b").ask };
    let [set, removed] = swapped(queued, Claim { ask: end, given, ..claim("b") }).await;
    assert_eq!(names(&set), GIVEN.map(str::to_owned));
    assert_eq!(names(&removed), [DISPATCHED]);
}

const UUID: &str = "0b6e0c1e-7a7f-4d8e-9c55-8f3a1d2b4c6d";

/// The entry's size as DynamoDB counts it ("Item sizes and formats"): names, texts, a byte for two digits of a number and one more, one for a
/// truth or a NULL.
async fn size(ledger: &DynamoLedger) -> usize {
    let item = ledger.table.get_each(vec![entry_key(&delivery(UUID))], Patience::brief()).await.remove(0);
    let of = |value: &AttributeValue| match (value.as_s(), value.as_n()) {
        (Ok(text), _) => text.len(),
        (_, Ok(digits)) => digits.len().div_ceil(2) + 1,
        (Err(_), Err(_)) => 1,
    };
    let item = item.expect("it is read").expect("an entry");
    item.iter().map(|(name, value)| name.len() + of(value)).sum()
}

/// The sizes of an entry after the claim of its first attempt, and after the record of each failure. Ids are UUIDs, and
/// nothing is given but a TTL.
async fn sizes_after_failures(failures: u32) -> Vec<usize> {
    let endpoint = Endpoint::parse("https://push.example/x").expect("valid");
    let claim_of = |attempt| {
        let ask = Ask {
            turn: Turn { attempt: Attempt(attempt), ..Turn::default() },
            lease_token: format!("{UUID}.0123abcd"),
            source_message: UUID.to_owned(),
            ..claim(UUID).ask
        };
        Claim {
            ask,
            endpoint_hash: Some(hash_keys().endpoint(&endpoint)),
            subscription: SubscriptionId::parse(UUID),
            given: Given { ttl: Some(Ttl::from_secs(86_400)), ..Given::default() },
            ..claim(UUID)
        }
    };
    let table = FakeTable::default();
    let ledger = DynamoLedger::new(table.client(), "deliveries".to_owned());
    let mut sizes = Vec::new();
    for attempt in 0..failures {
        let claim = claim_of(attempt);
        let failed = Record {
            turn: claim.ask.turn,
            lease_token: claim.ask.lease_token.clone(),
            state: State::Retrying,
            status: Some(503),
            verdict: Some("retry"),
            reason: Some(Reason::ServerError),
            not_before: Some(at().plus(Duration::from_secs(4))),
            ..record(UUID)
        };
        let granted = ledger.claim(vec![claim], at()).await;
        assert_eq!(granted, [Ok(ClaimAnswer::Granted { in_doubt: false, at: at() })]);
        if attempt == 0 {
            sizes.push(size(&ledger).await);
        }
        assert_eq!(ledger.record_carried(vec![failed]).await, [Ok(Fence::Held)]);
        sizes.push(size(&ledger).await);
    }
    sizes
}

#[tokio::test]
async fn an_entry_is_longer_than_a_kilobyte_from_its_third_failure_on() {
    let sizes = sizes_after_failures(20).await;
    for (failures, size) in (1..).zip(&sizes[1..]) {
        let calculated = bytes_after_failures(failures) as usize;
        assert!(calculated.abs_diff(*size) < 16, "{failures}: {calculated}, {size}");
    }
    let units: Vec<usize> = sizes.iter().map(|size| size.div_ceil(1_024)).collect();
    assert_eq!((&units[..3], &units[3..13]), (&[1; 3][..], &[2; 10][..]), "{sizes:?}");
    assert_eq!(units[13..], [3; 8], "{sizes:?}");
}
