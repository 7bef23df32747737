//! What a delivery costs in calls, and what becomes of a batch of which one claim fails.

use redial_core::{recipient::Recipient, subscription::Subscription};
use redial_testkit::{
    proxy::{AwsService, Call, Fault},
    runtime_api::{SqsRecord, sqs_event},
};
use redial_tests::{hosted::Function, prelude::*, resources::Resources, test_stack::charges_statements};

async fn dispatch_on(stack: &TestStack, name: &str, changed: &[(&str, &str)]) -> (Resources, Function) {
    let resources = Resources::copy(stack, name).await;
    let dispatch = Function::dispatch(stack, &resources, changed).await;
    (resources, dispatch)
}

/// Five messages that carry their subscription, and five to a stored one.
async fn ten(stack: &TestStack, resources: &Resources, batch: &str, browser: &Subscriber) -> Vec<SqsRecord> {
    let store = stack.subscriptions_in(stack.dynamodb.clone(), &resources.tables).await;
    // An endpoint is one subscription's.
    let reader = stack.subscription_key("reader");
    let subscription = Subscription::new(reader, Recipient::WebPush(push_target(browser)));
    store.put(&subscription, System.now()).await.expect("it is stored");
    let mut records = Vec::new();
    for n in 0..10 {
        let id = format!("{batch}-{n}");
        let mut message = stack.message(&id, browser, "hello");
        if n % 2 == 0 {
            message["to"] = json!({"subscription": "reader"});
        }
        records.push(resources.record(&id, message.to_string()));
    }
    records
}

/// Invokes dispatch with these records; the ids of those that come back.
async fn failed(dispatch: &Function, records: impl IntoIterator<Item = SqsRecord>) -> Vec<String> {
    let response = dispatch.invoke(sqs_event(records)).await.expect("it answers");
    let failures = response["batchItemFailures"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ids = failures.iter().filter_map(|failure| failure["itemIdentifier"].as_str());
    ids.map(str::to_owned).collect()
}

const NONE: [&str; 0] = [];

fn calls(dispatch: &Function) -> Vec<String> {
    let mut calls: Vec<String> = dispatch.proxy.calls().into_iter().map(|call| call.operation).collect();
    calls.sort();
    calls
}

async fn assert_sent(stack: &TestStack, resources: &Resources, numbers: std::ops::Range<u32>) {
    let entries = stack.entries(&resources.tables.deliveries).await;
    for n in numbers {
        let id = format!("m-{n}");
        let entry = entries.iter().find(|entry| text(entry, "id") == Some(&id)).expect("it is in the ledger");
        assert_eq!(text(entry, "state"), Some("sent"), "{id}");
    }
}

/// A worker reads its tenants' policies once in `POLICY_CACHE_SECONDS`, its limits once in half a minute, and the states of its
/// origins every second and a half: each is one call more, as the cold batch has them. The cold batch's policies still hold for the
/// warm one, and its limits unless the machine stalls; breakers are off, because a state's age depends on the second.
#[tokio::test]
async fn a_warm_batch_of_ten_makes_three_calls_over_one_connection() {
    let stack = TestStack::up().await;
    let (resources, dispatch) = dispatch_on(&stack, "calls", &[("POLICY_CACHE_SECONDS", "60")]).await;
    let browser = stack.browser();
    assert_eq!(failed(&dispatch, ten(&stack, &resources, "cold", &browser).await).await, NONE);
    // Its subscriptions, its tenant's policies, and the limits of its tenant and origin.
    assert_eq!(dispatch.proxy.count(&AwsService::DynamoDb, "BatchGetItem"), 3);

    // One read of the stored subscriptions, one batch of claims, one item for all records.
    let warm = ["BatchExecuteStatement", "BatchGetItem", "UpdateItem"];
    let batches = 1 + until_calls_are(&stack, &resources, &dispatch, &browser, &warm).await;

    // A write unit for each claim, and one for the records of all. DynamoDB Local counts none for statements.
    let of_claims = if charges_statements() { 10 } else { 0 };
    let metrics = dispatch.json_logs().rfind(|line| line["Deliveries"].is_u64()).expect("they are written");
    assert_fields(&metrics, json!({"Deliveries": 10, "ApiCalls": 3, "WriteUnits": of_claims + 1}));
    let counts = stack.push.counts();
    assert_eq!((counts.requests, counts.tls_connections, counts.tokens), (10 * batches, 1, 1));
}

#[tokio::test]
async fn a_healthy_origin_s_breaker_adds_one_read_to_a_batch() {
    let stack = TestStack::up().await;
    let changed = [("POLICY_CACHE_SECONDS", "60"), ("BREAKER", "on")];
    let (resources, dispatch) = dispatch_on(&stack, "protected", &changed).await;
    let browser = stack.browser();
    assert_eq!(failed(&dispatch, ten(&stack, &resources, "cold", &browser).await).await, NONE);
    // Older than a worker's view of a breaker.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let warm = ["BatchExecuteStatement", "BatchGetItem", "BatchGetItem", "UpdateItem"];
    until_calls_are(&stack, &resources, &dispatch, &browser, &warm).await;
}

/// Sends batches until one makes these calls, and answers how many: where the limits are read again because half a minute has passed,
/// a batch makes one call more.
async fn until_calls_are(
    stack: &TestStack,
    resources: &Resources,
    dispatch: &Function,
    browser: &Subscriber,
    expected: &[&str],
) -> u64 {
    for batch in 1..=4 {
        let records = ten(stack, resources, &format!("warm-{batch}"), browser).await;
        dispatch.proxy.reset();
        assert_eq!(failed(dispatch, records).await, NONE);
        if calls(dispatch) == expected {
            return batch;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    panic!("{:?} instead of {expected:?}", calls(dispatch))
}

/// The calls that write, and what each of them writes of one small message: a unit.
const WRITES: [&str; 5] = ["BatchExecuteStatement", "BatchWriteItem", "DeleteItem", "PutItem", "UpdateItem"];

#[tokio::test]
async fn a_message_that_waits_long_is_charged_for_the_bucket_that_it_waits_in() {
    let stack = TestStack::up().await;
    let (resources, dispatch) = dispatch_on(&stack, "bucket", &[]).await;
    let browser = stack.browser();
    let record =
        |id: &str, fields: &Value| resources.record(id, stack.message_with(id, &browser, fields).to_string());
    assert_eq!(failed(&dispatch, [record("m-0", &json!({}))]).await, NONE);
    dispatch.proxy.reset();
    let deliver_at = System.now().plus(Duration::from_secs(7_200)).to_rfc3339();
    assert_eq!(failed(&dispatch, [record("m-1", &json!({"deliver_at": deliver_at}))]).await, NONE);
    let made = calls(&dispatch);
    // Amazon's DynamoDB Local does not say what a statement takes.
    let is_said = |call: &str| call != "BatchExecuteStatement" || charges_statements();
    let writes = made.iter().filter(|call| WRITES.contains(&call.as_str()) && is_said(call)).count();
    let metrics = dispatch.json_logs().rfind(|line| line["Deliveries"].is_u64()).expect("they are written");
    println!("{made:?}: {} write units", metrics["WriteUnits"]);
    assert!(made.iter().any(|call| call == "UpdateItem"), "its bucket is registered: {made:?}");
    assert_eq!(metrics["WriteUnits"], writes, "{made:?}");
}

#[tokio::test]
async fn a_failed_claim_comes_back_alone_and_a_malformed_body_is_stored() {
    let stack = TestStack::up().await;
    let (resources, dispatch) = dispatch_on(&stack, "batch", &[]).await;
    let browser = stack.browser();
    let mut records = ten(&stack, &resources, "m", &browser).await;
    records[9] = resources.record("broken", "{\"tenant\":\"acme\"");
    dispatch.proxy.reset();
    let is_claim =
        |call: &Call| call.service == AwsService::DynamoDb && call.operation == "BatchExecuteStatement";
    // An error that is not retried, as a throttled claim is.
    let code = "AccessDenied".to_owned();
    dispatch.proxy.once(is_claim, Fault::FailStatement { index: 3, code });

    assert_eq!(failed(&dispatch, records.clone()).await, ["sqs-m-3"]);
    assert!(!dispatch.proxy.has_unused_faults());
    assert_eq!(stack.pushes(&browser), 8);
    assert_eq!(dispatch.proxy.count(&AwsService::Sqs, "ChangeMessageVisibilityBatch"), 1, "within seconds");
    let bodies = stack.scan(&resources.tables.dead_letters).await;
    assert!(bodies.iter().any(|item| text(item, "body") == Some("{\"tenant\":\"acme\"")));

    assert_eq!(failed(&dispatch, [records.remove(3)]).await, NONE);
    assert_eq!(stack.pushes(&browser), 9, "nothing twice");
    assert_sent(&stack, &resources, 0..9).await;
}

#[tokio::test]
async fn a_throttled_claim_or_record_makes_no_second_post() {
    let stack = TestStack::up().await;
    let (resources, dispatch) = dispatch_on(&stack, "throttled", &[]).await;
    let browser = stack.browser();
    let records = ten(&stack, &resources, "m", &browser).await;
    dispatch.proxy.reset();
    let statements = |statement: &'static str| {
        move |call: &Call| {
            let is_of_ten = |call: Value| call["Statements"].as_array().is_some_and(|all| all.len() > 1);
            call.operation == "BatchExecuteStatement"
                && String::from_utf8_lossy(&call.body).contains(statement)
                && call.json().is_some_and(is_of_ten)
        }
    };
    let fails = |index, code: &str| Fault::FailStatement { index, code: code.to_owned() };
    dispatch.proxy.once(statements("INSERT"), fails(3, "ThrottlingError"));
    // Records that cannot be written together are written one by one.
    let refused =
        json!({"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"});
    let is_of_all = |call: &Call| call.operation == "UpdateItem";
    dispatch.proxy.when(is_of_all, Fault::Status(400, refused.to_string()));
    dispatch.proxy.once(statements("UPDATE"), fails(1, "ProvisionedThroughputExceeded"));

    assert_eq!(failed(&dispatch, records.clone()).await, NONE);
    assert!(!dispatch.proxy.has_unused_faults());
    assert_eq!(failed(&dispatch, records).await, NONE);
    assert_eq!(stack.pushes(&browser), 10, "nothing twice");
    assert_sent(&stack, &resources, 0..10).await;
}

#[tokio::test]
async fn an_entry_that_sqs_refuses_comes_back_and_its_hand_off_is_repeated() {
    let stack = TestStack::up().await;
    let (resources, dispatch) = dispatch_on(&stack, "entries", &[]).await;
    let browser = stack.browser_answering(Answer::status(503));
    let records = ten(&stack, &resources, "m", &browser).await;
    dispatch.proxy.reset();
    let is_send = |call: &Call| call.operation == "SendMessageBatch";
    // However they were divided into batches, each has a first entry.
    dispatch.proxy.once(is_send, Fault::FailEntry { index: 0 });

    let back = failed(&dispatch, records.clone()).await;
    let [id] = back.as_slice() else { panic!("{back:?}") };
    let number: usize = id.strip_prefix("sqs-m-").and_then(|number| number.parse().ok()).expect("its number");
    assert_eq!(failed(&dispatch, [records[number].clone()]).await, NONE);
    assert_eq!(stack.pushes(&browser), 10, "nothing is sent again");
    assert_eq!(stack.depth(&resources.queues.retry).await, 10, "all ten retries are on their way");
}
