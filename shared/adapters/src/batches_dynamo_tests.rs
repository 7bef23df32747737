//! Successes that are recorded together, on a DynamoDB that refuses, fails, or lists them.

use redial_core::ledger::{Fence, Place, Record, State};
use redial_engine::ports::{Claim, ClaimAnswer, Ledger as _};
use serde_json::{Value, json};

use super::*;
use crate::ledger_dynamo::DynamoLedger;
use crate::ledger_dynamo::tests::{at, claim, fingerprint};
use crate::stub_dynamo::{StubDynamo, error};

const TOKEN: &str = "invocation-1";

fn ledger(stub: &StubDynamo) -> DynamoLedger {
    DynamoLedger::new(stub.client(), "deliveries".to_owned())
}

fn sent(id: &str, place: Place) -> Record {
    let entry = entry(&serde_item(id, place, at())).expect("an entry");
    Success { at: at(), status: Some(201), headers: Default::default() }.record(&entry)
}

/// What a claim under the token wrote.
fn claimed(id: &str, place: Place, lease_until: Timestamp) -> Value {
    let text = |text: &str| json!({"S": text});
    let number = |number: i64| json!({"N": number.to_string()});
    json!({
        "pk": text(&format!("acme#{id}")), "tenant": text("acme"), "id": text(id), "state": text("sending"),
        "lineage": number(0), "attempt": number(0), "fingerprint": text(fingerprint("content").as_str()),
        "lease_token": text(TOKEN), "lease_until": number(lease_until.as_ms()), "source_message": text("sqs-1"),
        "place": number(place.into()), "created_at": number(at().as_ms()), "updated_at": number(at().as_ms()),
        "expires_at": number(at().as_secs() + 86_400 * 15),
    })
}

fn serde_item(id: &str, place: Place, lease_until: Timestamp) -> Item {
    let item = claimed(id, place, lease_until);
    let fields = item.as_object().expect("attributes").iter().map(|(name, value)| {
        let text = value["S"].as_str().map(s);
        let number = || crate::table::attributes::n(value["N"].as_str().expect("a number"));
        (name.clone(), text.unwrap_or_else(number))
    });
    fields.collect()
}

/// The batch of the token, which lists these places.
fn listing(places: &[Place]) -> Value {
    let mut item = json!({"pk": {"S": format!("batch#{TOKEN}")}, "expires_at": {"N": "1900000000"}});
    for place in places {
        let success = Success { at: at(), status: Some(201), headers: Default::default() };
        item[format!("p{place}")] = json!({"S": success.to_text()});
    }
    item
}

/// A table with the entry of delivery `a` at place 0, and a batch that lists these places.
fn table(listed: &'static [Place], lease_until: Timestamp) -> StubDynamo {
    let mut is_taken_over = false;
    StubDynamo::new(move |operation, call| {
        let keys = call.to_string();
        match operation {
            "BatchGetItem" => {
                let own = keys.contains("acme#a").then(|| claimed("a", 0, lease_until));
                let batch = (keys.contains("batch#") && !listed.is_empty()).then(|| listing(listed));
                Ok(json!({"Responses": {"deliveries": own.into_iter().chain(batch).collect::<Vec<_>>()}}))
            }
            "UpdateItem" => {
                is_taken_over = true;
                let mut closed = listing(listed);
                closed["closed"] = json!({"N": "1"});
                Ok(json!({"Attributes": closed}))
            }
            _ => {
                let is_swap = keys.contains("UPDATE");
                assert!(!is_swap || is_taken_over, "the batch is closed first: {keys}");
                let code = json!({"Error": {"Code": "ConditionalCheckFailed"}});
                Ok(json!({"Responses": [if is_swap { json!({}) } else { code }]}))
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn the_successes_of_a_wave_are_one_update() {
    let stub = StubDynamo::new(|_, _| Ok(json!({})));
    let records = vec![sent("a", 0), sent("b", 4), sent("c", 9)];
    assert_eq!(ledger(&stub).record(records).await, vec![Ok(Fence::Held); 3]);
    assert_eq!(stub.calls("BatchExecuteStatement"), Vec::<Value>::new());
    let [update] = stub.calls("UpdateItem").try_into().expect("one update");
    assert_eq!(update["Key"], json!({"pk": {"S": "batch#invocation-1"}}));
    assert_eq!(update["UpdateExpression"], "SET p0 = :p0, p4 = :p4, p9 = :p9, expires_at = :e");
    assert_eq!(update["ExpressionAttributeValues"][":p4"], json!({"S": r#"{"at":1800000000000,"s":201}"#}));
}

#[tokio::test(start_paused = true)]
async fn one_success_and_what_is_no_plain_one_are_recorded_by_themselves() {
    let others = [
        vec![sent("a", 0)],
        vec![sent("a", 0), Record { state: State::Queued, verdict: None, ..sent("b", 1) }],
        vec![sent("a", 0), Record { in_doubt: true, ..sent("b", 1) }],
    ];
    for records in others {
        let answers = vec![json!({}); records.len()];
        let stub = StubDynamo::new(move |_, _| Ok(json!({"Responses": answers})));
        let fences = vec![Ok(Fence::Held); records.len()];
        assert_eq!(ledger(&stub).record(records).await, fences);
        assert_eq!((stub.calls("UpdateItem").len(), stub.calls("BatchExecuteStatement").len()), (0, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn where_a_batch_is_closed_or_fails_each_success_has_its_own_fence() {
    for code in ["ConditionalCheckFailedException", "AccessDeniedException", "InternalServerError"] {
        let stub = StubDynamo::new(move |operation, call| match operation {
            "UpdateItem" => {
                let mut refused = error(code);
                refused["Item"] = listing(&[7]);
                refused["Item"]["closed"] = json!({"N": "1"});
                Err(refused)
            }
            "BatchGetItem" => Ok(json!({"Responses": {"deliveries": []}})),
            _ => {
                let fenced = json!({"Error": {"Code": "ConditionalCheckFailed"}});
                let all = call["Statements"].as_array().expect("statements").iter();
                let answers =
                    all.map(|it| if it.to_string().contains("acme#b") { fenced.clone() } else { json!({}) });
                Ok(json!({"Responses": answers.collect::<Vec<_>>()}))
            }
        });
        let recorded = ledger(&stub).record(vec![sent("a", 0), sent("b", 1)]).await;
        assert_eq!(recorded, [Ok(Fence::Held), Ok(Fence::Lost)], "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_batch_that_expires_later_keeps_all_of_it() {
    let mut tries = 0;
    let stub = StubDynamo::new(move |_, _| {
        tries += 1;
        if tries > 1 {
            return Ok(json!({}));
        }
        let mut refused = error("ConditionalCheckFailedException");
        refused["Item"] = listing(&[7]);
        Err(refused)
    });
    assert_eq!(ledger(&stub).record(vec![sent("a", 0), sent("b", 1)]).await, vec![Ok(Fence::Held); 2]);
    let updates = stub.calls("UpdateItem");
    let expires = |update: &Value| update["ExpressionAttributeValues"][":e"]["N"].clone();
    assert_eq!(updates.iter().map(expires).collect::<Vec<_>>()[1], "1900000000");
}

#[tokio::test(start_paused = true)]
async fn a_claim_takes_what_a_batch_lists_for_sent() {
    let hour = std::time::Duration::from_secs(3600);
    // By the message that was sent, by another copy of it, while the lease goes on or after it.
    for lease_until in [at().minus(hour), at().plus(hour)] {
        for (source, is_again) in [("sqs-1", true), ("sqs-2", false)] {
            let stub = table(&[0, 3], lease_until);
            let mut asked = claim("a");
            asked.ask.lease_token = "invocation-2".to_owned();
            asked.ask.source_message = source.to_owned();
            let [answer] = ledger(&stub).claim(vec![asked], at()).await.try_into().expect("one answer");
            let answer = answer.expect("an answer");
            if let ClaimAnswer::HandOffAgain(entry) = &answer {
                assert_eq!((is_again, entry.state, entry.status), (true, State::Sent, Some(201)));
            } else {
                assert_eq!((answer, is_again), (ClaimAnswer::Done, false));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_closes_the_batch_before_it_takes_an_attempt_over() {
    let hour = std::time::Duration::from_secs(3600);
    let other = || {
        let mut asked = claim("a");
        asked.ask.lease_token = "invocation-2".to_owned();
        asked
    };
    for listed in [&[][..], &[3]] {
        let stub = table(listed, at().minus(hour));
        let granted = Ok(ClaimAnswer::Granted { in_doubt: true, at: at() });
        assert_eq!(ledger(&stub).claim(vec![other()], at()).await, [granted]);
        assert_eq!(stub.calls("UpdateItem").len(), 1);
        // A lease that goes on closes nothing.
        let stub = table(listed, at().plus(hour));
        let leased = Ok(ClaimAnswer::Leased { until: at().plus(hour) });
        assert_eq!(ledger(&stub).claim(vec![other()], at()).await, [leased]);
        assert_eq!(stub.calls("UpdateItem").len(), 0);
    }
    // A replay keeps the success in the history.
    let stub = table(&[0], at().plus(hour));
    let mut replay = other();
    replay.ask.turn.lineage.0 = 1;
    assert_eq!(
        ledger(&stub).claim(vec![replay], at()).await,
        [Ok(ClaimAnswer::Granted { in_doubt: false, at: at() })]
    );
    let swap = stub.calls("BatchExecuteStatement").pop().expect("a swap").to_string();
    assert!(swap.contains("attempt_00") && swap.contains(r#"\"v\":\"sent\""#), "{swap}");
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_a_batch_lists_reads_as_sent() {
    for (listed, state) in [(&[0][..], State::Sent), (&[1], State::Sending), (&[], State::Sending)] {
        let stub = table(listed, at());
        let items = resolved(
            &Table::new(stub.client(), "deliveries".to_owned()),
            vec![item([("pk", s("acme#a"))])],
            Patience::brief(),
        )
        .await;
        let [Ok(Some(item))] = items.as_slice() else { panic!("{items:?}") };
        let entry = entry(item).expect("an entry");
        assert_eq!(
            (entry.state, item.contains_key("attempt_00")),
            (state, state == State::Sent),
            "{listed:?}"
        );
        assert_eq!(entry.expires_at, at().plus(std::time::Duration::from_secs(86_400 * 15)), "its own");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_writes_the_expiry_that_its_success_would_have() {
    let stub = StubDynamo::new(|_, _| Ok(json!({"Responses": [{}]})));
    let kept_until = at().plus(std::time::Duration::from_secs(40 * 86_400));
    let asked = Claim { kept_until: Some(kept_until), ..claim("a") };
    let granted = Ok(ClaimAnswer::Granted { in_doubt: false, at: at() });
    assert_eq!(ledger(&stub).claim(vec![asked], at()).await, [granted]);
    let call = stub.calls("BatchExecuteStatement").pop().expect("a claim");
    let values = call["Statements"][0]["Parameters"].as_array().expect("values");
    assert!(values.contains(&json!({"N": kept_until.as_secs().to_string()})), "{call}");
}
