//! Notes, and which statements are tried for them.

use std::time::Duration;

use redial_core::channel::Channel;
use redial_core::identity::{Attempt, IdSource, Lineage, Turn};
use redial_core::ledger::HeldBy;
use redial_engine::ports::Ledger as _;
use serde_json::{Value, json};

use super::*;
use crate::delivery_item::entry;
use crate::fixtures::{delivery, given as given_in_a_message};
use crate::ledger_dynamo::DynamoLedger;
use crate::ledger_dynamo::tests::{at, fingerprint, stored};
use crate::stub_dynamo::StubDynamo;
use crate::table::attributes::{Item, n};

fn hold(attempt: u32) -> Hold {
    Hold {
        key: delivery("m1"),
        turn: Turn { lineage: Lineage(0), attempt: Attempt(attempt) },
        by: HeldBy::Schedule,
        until: at().plus(Duration::from_secs(7_200)),
        fingerprint: fingerprint("content"),
        id_source: IdSource::Producer,
        source_message: "sqs-1".to_owned(),
        channel: Channel::Webhook,
        endpoint_hash: None,
        subscription: None,
        given: given_in_a_message(),
        kept_until: None,
    }
}

/// The statements that are tried for a note, of which the first so many fail.
async fn tried(attempt: u32, mut failing: usize) -> Vec<Value> {
    let stub = StubDynamo::new(move |operation, _| {
        if operation == "BatchGetItem" {
            let mut ended = stored(State::Sent, "another");
            ended["pk"] = json!({"S": delivery("m1").to_string()});
            return Ok(json!({"Responses": {"deliveries": [ended]}}));
        }
        let code = json!({"Error": {"Code": "ConditionalCheckFailed"}});
        let fails = failing > 0;
        failing = failing.saturating_sub(1);
        Ok(json!({"Responses": [if fails { code } else { json!({}) }]}))
    });
    let ledger = DynamoLedger::new(stub.client(), "deliveries".to_owned());
    let is_noted = failing < steps(&hold(attempt));
    let answers = ledger.hold(vec![hold(attempt)], at()).await;
    let [Ok(answer)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(answer.as_ref().map(|entry| entry.state), (!is_noted).then_some(State::Sent));
    assert_eq!(stub.calls("BatchGetItem").len(), usize::from(!is_noted));
    let calls = stub.calls("BatchExecuteStatement").into_iter();
    calls.map(|call| call["Statements"][0].clone()).collect()
}

#[tokio::test]
async fn a_message_without_an_entry_gets_one_that_can_be_found() {
    let tried = tried(0, 0).await;
    let [insert] = tried.as_slice() else { panic!("{tried:?}") };
    let names = insert["Statement"].as_str().expect("a text").split('\'').skip(1).step_by(2);
    let values = insert["Parameters"].as_array().expect("values");
    let item: Item = names
        .zip(values)
        .map(|(name, value)| {
            let text = value["S"].as_str().map(s);
            (name.to_owned(), text.unwrap_or_else(|| n(value["N"].as_str().expect("a number"))))
        })
        .collect();
    assert_eq!(entry(&item), Some(hold(0).entry(at())));
    assert!(item.contains_key("found_by") && item.contains_key("channel"));
}

#[tokio::test]
async fn an_entry_is_noted_on_in_the_states_of_one_that_waits_and_in_no_other() {
    let states = |tried: &[Value]| -> Vec<String> {
        let of = |statement: &Value| {
            let parameters = statement["Parameters"].as_array().expect("values");
            parameters.last().and_then(|state| state["S"].as_str()).unwrap_or_default().to_owned()
        };
        tried.iter().map(of).collect()
    };
    let first = tried(0, 9).await;
    assert_eq!(states(&first[1..]), ["queued", "deferred"]);
    assert!(first[1]["Statement"].to_string().contains("found_by"));
    assert!(
        first[1]["Parameters"].to_string().contains(fingerprint("content").as_str()),
        "of its content alone"
    );
    let retry = tried(1, 9).await;
    assert_eq!(states(&retry), ["retrying"]);
    let text = retry[0]["Statement"].as_str().expect("a text");
    assert!(!text.contains("\"updated_at\"") && !text.contains("found_by"), "{text}");
    assert!(text.contains("SET \"held_by\"") && text.ends_with("AND \"state\" = ?"), "{text}");
}

#[tokio::test]
async fn what_holds_a_message_back_is_read_until_something_else_does() {
    for (not_before, expected) in [(7_200, Some(HeldBy::Origin)), (7_201, None)] {
        let until = at().plus(Duration::from_secs(7_200));
        let mut item: Item = Default::default();
        let held_entry = Hold { by: HeldBy::Origin, ..hold(0) }.entry(at());
        for (name, value) in unclaimed(&held_entry, None) {
            item.insert(name.to_owned(), value);
        }
        item.insert("held_by".to_owned(), held(HeldBy::Origin, until));
        item.insert("not_before".to_owned(), ms(at().plus(Duration::from_secs(not_before))));
        assert_eq!(entry(&item).expect("an entry").held_by, expected);
    }
}
