//! What a delivery costs in calls, and what becomes of a batch of which one claim fails.

use std::collections::BTreeMap;
use std::time::Duration;

use redial_adapters::control_dynamo::DynamoControl;
use redial_adapters::subscriptions_dynamo::DynamoSubscriptions;
use redial_core::endpoint::Endpoint;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::recipient::Recipient;
use redial_core::subscription::Subscription;
use redial_core::time::Timestamp;
use redial_testkit::proxy::{AwsService, Fault};
use redial_testkit::push_service::Subscriber;
use redial_testkit::runtime_api::{SqsRecord, sqs_event};
use redial_tests::deployment::{Deployment, Item, text};
use redial_tests::hosted::{Function, Which};
use redial_tests::scenery::Scenery;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(30);

/// A record of the scenery's ingest queue.
fn record(scenery: &Scenery, id: &str, body: String) -> SqsRecord {
    let queue = scenery.queues.ingest.rsplit('/').next().unwrap_or_default();
    let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    SqsRecord::new(format!("sqs-{id}"), body)
        .sent_timestamp_ms(u64::try_from(now).expect("it fits"))
        .queue_arn(format!("arn:aws:sqs:us-east-1:000000000000:{queue}"))
}

/// Five messages that carry their subscription, and five to stored ones.
async fn ten(it: &Deployment, scenery: &Scenery, batch: &str, browser: &Subscriber) -> Vec<SqsRecord> {
    let tables = &scenery.tables;
    let control = DynamoControl::new(it.dynamodb.clone(), tables.control.clone());
    let store = DynamoSubscriptions::new(
        it.dynamodb.clone(),
        tables.subscriptions.clone(),
        tables.audiences.clone(),
        control,
        it.webhook_keys().await,
    );
    let mut records = Vec::new();
    for n in 0..10 {
        let id = format!("{batch}-{n}");
        let mut message = Deployment::message(&id, browser, "hello");
        if n % 2 == 0 {
            let target = PushTarget {
                endpoint: Endpoint::parse(&browser.endpoint).expect("valid"),
                keys: PushKeys::parse(&browser.p256dh, &browser.auth).expect("valid"),
                vapid_key_id: None,
            };
            let key = SubscriptionKey {
                tenant: Tenant::parse("acme").expect("valid"),
                id: SubscriptionId::parse(&id).expect("valid"),
            };
            let subscription = Subscription::new(key, Recipient::WebPush(target));
            store.put(&subscription, Timestamp::from_secs(1_800_000_000)).await.expect("it is stored");
            message["to"] = json!({"subscription": id});
        }
        records.push(record(scenery, &id, message.to_string()));
    }
    records
}

async fn entry(it: &Deployment, scenery: &Scenery, id: &str) -> Option<Item> {
    let items = it.scan(&scenery.tables.deliveries).await;
    items.into_iter().find(|item| text(item, "id") == Some(id))
}

fn failures(answer: &Value) -> Vec<&str> {
    let failures = answer["batchItemFailures"].as_array().map(Vec::as_slice).unwrap_or_default();
    failures.iter().filter_map(|failure| failure["itemIdentifier"].as_str()).collect()
}

/// Once in `POLICY_CACHE_SECONDS` a worker reads its tenants' policies, once in half a minute its limits, and every second and a
/// half how its origins are: each is one call more, as the cold batch has them. What the cold batch has read of the first two still
/// holds for the warm one; how origins are is not asked here, because that would depend on the second.
#[tokio::test]
async fn ten_messages_on_the_warm_success_path_make_three_calls_over_one_connection_with_one_token() {
    let it = Deployment::up().await;
    let scenery = Scenery::copy(&it, "calls").await;
    let policies_last = [("POLICY_CACHE_SECONDS", "60")];
    let dispatch = Function::start(&it, Which::Dispatch, &scenery, &policies_last, LIMIT).await;
    let browser = it.subscriber();
    let cold = ten(&it, &scenery, "cold", &browser).await;
    assert!(failures(&dispatch.invoke(sqs_event(cold)).await.expect("it answers")).is_empty());
    // Its subscriptions, its tenant's policies, and the limits of its tenant and origin.
    assert_eq!(dispatch.proxy.count(&AwsService::DynamoDb, "BatchGetItem"), 3);

    let warm = ten(&it, &scenery, "warm", &browser).await;
    dispatch.proxy.reset();
    assert!(failures(&dispatch.invoke(sqs_event(warm)).await.expect("it answers")).is_empty());
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    for call in dispatch.proxy.calls() {
        *calls.entry(call.operation).or_default() += 1;
    }
    // One read of the stored subscriptions, one batch of claims, one of records.
    let counted: Vec<(&str, usize)> = calls.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert!(calls.values().sum::<usize>() <= 5, "{counted:?}");
    assert_eq!(counted, [("BatchExecuteStatement", 2), ("BatchGetItem", 1)]);

    // Two write units a delivery: its claim and its record.
    let lines: Vec<String> = dispatch.logs().into_iter().map(|line| line.text).collect();
    let metrics = lines.iter().rfind(|line| line.contains("\"Deliveries\"")).expect("metrics are written");
    let metrics: Value = serde_json::from_str(metrics).expect("they are JSON");
    assert_eq!((&metrics["Deliveries"], &metrics["ApiCalls"]), (&json!(10), &json!(3)), "{metrics}");
    assert_eq!(metrics["WriteUnits"], json!(20), "{metrics}");

    let counts = it.push.counts();
    assert_eq!((counts.requests, counts.tls_connections, counts.tokens), (20, 1, 1));
}

/// What protects an origin that is well: one reading of its state, and no write.
#[tokio::test]
async fn the_protection_of_an_origin_that_is_well_adds_one_read_to_a_batch() {
    let it = Deployment::up().await;
    let scenery = Scenery::copy(&it, "protected").await;
    let dispatch = Function::start(
        &it,
        Which::Dispatch,
        &scenery,
        &[("POLICY_CACHE_SECONDS", "60"), ("BREAKER", "on")],
        LIMIT,
    )
    .await;
    let browser = it.subscriber();
    for batch in ["cold", "warm"] {
        dispatch.proxy.reset();
        let records = ten(&it, &scenery, batch, &browser).await;
        assert!(failures(&dispatch.invoke(sqs_event(records)).await.expect("it answers")).is_empty());
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    for call in dispatch.proxy.calls() {
        *calls.entry(call.operation).or_default() += 1;
    }
    let counted: Vec<(&str, usize)> = calls.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(counted, [("BatchExecuteStatement", 2), ("BatchGetItem", 2)]);
}

#[tokio::test]
async fn of_a_batch_of_ten_a_failed_claim_comes_back_alone_and_a_malformed_body_is_stored() {
    let it = Deployment::up().await;
    let scenery = Scenery::copy(&it, "batch").await;
    let dispatch = Function::start(&it, Which::Dispatch, &scenery, &[], LIMIT).await;
    dispatch.ready().await;
    let browser = it.subscriber();
    let mut records = ten(&it, &scenery, "m", &browser).await;
    records[9] = record(&scenery, "broken", "{\"tenant\":\"acme\"".to_owned());
    dispatch.proxy.reset();
    let is_claim = |call: &redial_testkit::proxy::Call| {
        call.service == AwsService::DynamoDb && call.operation == "BatchExecuteStatement"
    };
    // One that does not pass: a claim that is throttled is made again.
    let code = "AccessDenied".to_owned();
    dispatch.proxy.once(is_claim, Fault::FailStatement { index: 3, code });

    let answer = dispatch.invoke(sqs_event(records.clone())).await.expect("it answers");
    assert_eq!(failures(&answer), ["sqs-m-3"], "{answer}");
    assert!(!dispatch.proxy.has_unused_faults());
    assert_eq!(it.push.received(&browser.endpoint).len(), 8);
    assert_eq!(dispatch.proxy.count(&AwsService::Sqs, "ChangeMessageVisibilityBatch"), 1, "within seconds");
    let letters = it.scan(&scenery.tables.dead_letters).await;
    assert!(letters.iter().any(|letter| text(letter, "body") == Some("{\"tenant\":\"acme\"")));

    let again = dispatch.invoke(sqs_event([records.remove(3)])).await.expect("it answers");
    assert!(failures(&again).is_empty(), "{again}");
    assert_eq!(it.push.received(&browser.endpoint).len(), 9, "nothing twice");
    for n in 0..9 {
        let stored = entry(&it, &scenery, &format!("m-{n}")).await.expect("it is in the ledger");
        assert_eq!(text(&stored, "state"), Some("sent"), "{n}");
    }
}

#[tokio::test]
async fn a_throttled_claim_and_a_throttled_record_make_no_second_post() {
    let it = Deployment::up().await;
    let scenery = Scenery::copy(&it, "throttled").await;
    let dispatch = Function::start(&it, Which::Dispatch, &scenery, &[], LIMIT).await;
    dispatch.ready().await;
    let browser = it.subscriber();
    let records = ten(&it, &scenery, "m", &browser).await;
    dispatch.proxy.reset();
    let statements = |statement: &'static str| {
        move |call: &redial_testkit::proxy::Call| {
            let is_of_ten = |call: Value| call["Statements"].as_array().is_some_and(|all| all.len() > 1);
            call.operation == "BatchExecuteStatement"
                && String::from_utf8_lossy(&call.body).contains(statement)
                && call.json().is_some_and(is_of_ten)
        }
    };
    let fails = |index, code: &str| Fault::FailStatement { index, code: code.to_owned() };
    dispatch.proxy.once(statements("INSERT"), fails(3, "ThrottlingError"));
    dispatch.proxy.once(statements("UPDATE"), fails(1, "ProvisionedThroughputExceeded"));

    let answer = dispatch.invoke(sqs_event(records.clone())).await.expect("it answers");
    assert!(failures(&answer).is_empty(), "{answer}");
    assert!(!dispatch.proxy.has_unused_faults());
    let again = dispatch.invoke(sqs_event(records)).await.expect("it answers");
    assert!(failures(&again).is_empty(), "{again}");
    assert_eq!(it.push.received(&browser.endpoint).len(), 10, "nothing twice");
    for n in 0..10 {
        let stored = entry(&it, &scenery, &format!("m-{n}")).await.expect("it is in the ledger");
        assert_eq!(text(&stored, "state"), Some("sent"), "{n}");
    }
}

#[tokio::test]
async fn entries_that_sqs_refuses_come_back_and_their_hand_off_is_repeated() {
    let it = Deployment::up().await;
    let scenery = Scenery::copy(&it, "entries").await;
    let dispatch = Function::start(&it, Which::Dispatch, &scenery, &[], LIMIT).await;
    dispatch.ready().await;
    let browser = it.subscriber();
    it.push.always(&browser.endpoint, redial_testkit::push_service::Answer::status(503));
    let records = ten(&it, &scenery, "m", &browser).await;
    dispatch.proxy.reset();
    let is_send = |call: &redial_testkit::proxy::Call| call.operation == "SendMessageBatch";
    dispatch.proxy.once(is_send, Fault::FailEntry { index: 4 });

    let answer = dispatch.invoke(sqs_event(records.clone())).await.expect("it answers");
    let back = failures(&answer);
    assert_eq!(back.len(), 1, "{answer}");
    let again: Vec<_> =
        (0..10).filter(|n| back[0] == format!("sqs-m-{n}")).map(|n| records[n].clone()).collect();
    let answer = dispatch.invoke(sqs_event(again)).await.expect("it answers");
    assert!(failures(&answer).is_empty(), "{answer}");
    assert_eq!(it.push.received(&browser.endpoint).len(), 10, "nothing is sent again");
    assert_eq!(it.depth(&scenery.queues.retry).await, 10, "all ten retries are on their way");
}
