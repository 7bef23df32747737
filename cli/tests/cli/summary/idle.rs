//! Messages that stay where they were put are counted there.

use std::io::{BufRead as _, BufReader};

use aws_sdk_cloudwatch::types::{Dimension, MetricDatum, StandardUnit};
use redial_adapters::{control_dynamo::DynamoControl, parked_dynamo::DynamoParking};
use redial_core::{
    identity::{Attempt, DeliveryId, DeliveryKey, Lineage, Tenant, Turn},
    lane::Lane,
    wait::WaitBucket,
};
use redial_engine::ports::{ParkedItem, ParkedKey, Parking as _, WaitRegistry as _};
use redial_tests::test_stack::localstack;

use super::{document, parked, queue};
use crate::{lines::put_in_line, prelude::*};

const ORIGIN: &str = "https://a-push-service-with-a-long-name.notifications.example.com:8443";

#[tokio::test]
async fn the_summary_of_a_stack_shows_what_needs_a_look() {
    let stack = TestStack::idle().await;
    steps! {
        an_idle_stack_has_no_findings(&stack);
        messages_on_queues_are_counted(&stack).await;
        parked_messages_are_counted_by_their_time_and_late_ones_reported(&stack).await;
        messages_that_wait_for_an_origin_are_counted_apart(&stack).await;
        an_open_breaker_is_reported(&stack);
        metrics_of_cloudwatch_are_shown(&stack).await;
        everything_fits_eighty_columns(&stack);
        a_reader_that_leaves_ends_the_watch(&stack);
    }
}

fn an_idle_stack_has_no_findings(stack: &TestStack) {
    let seen = document(stack);
    let summary = "ok: nothing is late, no breaker is open";
    assert_fields(&seen, json!({"ok": true, "findings": [], "summary": summary, "origins_known": 0}));
    assert_eq!(seen["oldest_from"], if localstack().is_some() { "cloudwatch" } else { "emulator" });
    assert_eq!(seen["last_minutes"]["sent"], Value::Null, "nothing was done");
    assert_fields(&seen["cost"], json!({"deliveries": null, "usd": null, "usd_per_million": null}));
    let lines = stack.shown("status --summary");
    assert!(lines.starts_with("here at 20") && lines.contains("Z: ok: nothing is late"), "{lines}");
}

async fn messages_on_queues_are_counted(stack: &TestStack) {
    let queues = stack.queues();
    let send = async |url: &str, delay| {
        let message = stack.sqs.send_message().queue_url(url).message_group_id("acme").message_body("s3cret");
        message.delay_seconds(delay).send().await.expect("the queue takes it");
    };
    for _ in 0..3 {
        send(&queues.ingest, 0).await;
    }
    send(&queues.retry_bulk, 600).await;
    let received = stack.sqs.receive_message().queue_url(&queues.ingest).send().await.expect("SQS answers");
    assert_eq!(received.messages().len(), 1);
    // A message younger than a second has no age.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let seen = document(stack);
    let ingest = queue(&seen, Some("transactional"), "ingest");
    assert_fields(ingest, json!({"waiting": 2, "in_flight": 1, "delayed": 0}));
    // LocalStack reports an age to its CloudWatch once a minute.
    let is_old = ingest["oldest_seconds"].as_u64().is_some_and(|age| age >= 1);
    assert!(is_old || localstack().is_some(), "{ingest}");
    let retry = queue(&seen, Some("bulk"), "retry");
    // What is delayed is not old.
    assert_fields(retry, json!({"waiting": 0, "in_flight": 0, "delayed": 1, "oldest_seconds": null}));
    assert_fields(queue(&seen, None, "quarantine"), json!({"waiting": 0, "in_flight": 0, "delayed": 0}));
    assert_eq!(seen["ok"], true, "{seen:#}");
}

/// Parks messages of a lane in a bucket that begins at `at`.
async fn park(stack: &TestStack, lane: Lane, at: Timestamp, messages: u32) {
    let tables = stack.tables();
    let bucket = WaitBucket::of(lane, at, 60, at.minus(Duration::from_secs(3_600))).expect("ahead of then");
    let control = DynamoControl::new(stack.dynamodb.clone(), tables.control.clone());
    control.register(bucket, 1).await.expect("the table answers");
    control.divide(bucket, 4).await.expect("the table answers");
    let tenant = Tenant::parse("acme").expect("a tenant");
    let items = (0..messages).map(|n| {
        let id = DeliveryId::parse(&format!("{}-{n}", bucket.name())).expect("an id");
        let key = DeliveryKey { tenant: tenant.clone(), id };
        let turn = Turn { lineage: Lineage(0), attempt: Attempt(1) };
        let key = ParkedKey::new(bucket.shard_of(&key, 4), &key, turn, None);
        // The first is longer than an item: it is stored in parts, and is one message.
        let body = "s3cret".repeat(if n == 0 { 100_000 } else { 1 });
        ParkedItem { key, tenant: tenant.clone(), not_before: at, body }
    });
    for put in DynamoParking::new(stack.dynamodb.clone(), tables.parked.clone()).put(items.collect()).await {
        put.expect("stored");
    }
}

async fn parked_messages_are_counted_by_their_time_and_late_ones_reported(stack: &TestStack) {
    let now = System.now();
    park(stack, Lane::Transactional, now.plus(Duration::from_secs(2_700)), 7).await;
    let seen = document(stack);
    let within = json!({"within": "1h", "buckets": 1, "messages": 7, "at_least": false});
    assert_eq!(*parked(&seen, "transactional", "1h"), within);
    assert_eq!((&seen["ok"], &seen["parked"]["late_for_seconds"]), (&json!(true), &Value::Null));

    park(stack, Lane::Bulk, now.minus(Duration::from_secs(300)), 2).await;
    let seen = document(stack);
    assert_eq!(parked(&seen, "bulk", "late")["messages"], 2);
    let late_for = seen["parked"]["late_for_seconds"].as_u64().expect("it is late");
    assert!(late_for >= 300, "{late_for}");
    let found = seen["findings"].as_array().expect("a list");
    assert_eq!((found.len(), &seen["ok"]), (1, &json!(false)), "{seen:#}");
    let words = found[0].as_str().expect("words");
    assert!(words.starts_with("2 parked messages are overdue, the first by "), "{words}");
}

async fn messages_that_wait_for_an_origin_are_counted_apart(stack: &TestStack) {
    let before = document(stack);
    put_in_line(stack, Lane::Transactional, ORIGIN, 3).await;
    put_in_line(stack, Lane::Bulk, ORIGIN, 5).await;
    let seen = document(stack);
    for (lane, waiting, all) in [(0, 3, 10), (1, 5, 7)] {
        let (lane, before) = (&seen["parked"]["lanes"][lane], &before["parked"]["lanes"][lane]);
        assert_eq!(lane["for_origins"], json!({"lines": 1, "messages": waiting, "at_least": false}));
        assert_fields(lane, json!({"messages": all, "at_least": false, "due": before["due"]}));
        assert_eq!(before["for_origins"], json!({"lines": 0, "messages": 0, "at_least": false}));
    }
    let found = |document: &Value| document["findings"].as_array().map(Vec::len);
    assert_eq!(found(&seen), found(&before), "nothing in a line is late: {seen:#}");
}

fn an_open_breaker_is_reported(stack: &TestStack) {
    stack.shown(format!("breakers open {ORIGIN} --for 30m"));
    let seen = document(stack);
    let open = format!("the breaker of {ORIGIN} is open");
    assert!(seen["findings"].as_array().expect("a list").contains(&json!(open)), "{seen:#}");
    let listed = stack.json("breakers list");
    let (mut here, mut there) = (seen["origins"][0].clone(), listed["origins"][0].clone());
    (here["at"], there["at"]) = (Value::Null, Value::Null);
    assert_eq!(here, there, "as the list of breakers has it");
    assert_eq!(here["waiting"], json!({"messages": 8, "at_least": false}), "on both lanes");
    assert_eq!(seen["origins_known"], 1);
}

async fn metrics_of_cloudwatch_are_shown(stack: &TestStack) {
    let dimension = Dimension::builder().name("Stack").value("here").build();
    let count = |metric: &str, value| {
        let datum = MetricDatum::builder().metric_name(metric).dimensions(dimension.clone());
        datum.value(value).unit(StandardUnit::Count).build()
    };
    let cloudwatch = aws_sdk_cloudwatch::Client::new(&stack.stack().sdk_config());
    let put = cloudwatch.put_metric_data().namespace("Redial").metric_data(count("Sent", 41.0));
    let put = put.metric_data(count("DeadLetters", 2.0)).metric_data(count("WriteUnits", 86.0));
    put.send().await.expect("CloudWatch takes it");
    let expected = json!({"sent": 41, "dead_letters": 2, "attempts": 0, "seconds": 300});
    assert_fields(&document(stack)["last_minutes"], expected);
    what_aws_counts_is_priced(stack, &cloudwatch).await;
}

async fn what_aws_counts_is_priced(stack: &TestStack, cloudwatch: &aws_sdk_cloudwatch::Client) {
    let put = async |namespace: &str, metric: &str, (name, value): (&str, &str), count: f64| {
        let dimension = Dimension::builder().name(name).value(value).build();
        let datum = MetricDatum::builder().metric_name(metric).dimensions(dimension).value(count).build();
        let put = cloudwatch.put_metric_data().namespace(namespace).metric_data(datum);
        put.send().await.expect("CloudWatch takes it");
    };
    let before = document(stack)["cost"].take();
    assert_fields(&before, json!({"deliveries": 43, "at_least": true}));
    assert_fields(&before["counted"][0], json!({"what": "write units", "amount": 86.0, "price": 0.625}));
    assert_fields(&before["counted"][1], json!({"what": "read units", "amount": null, "usd": null}));
    let dispatch = stack.description().functions.dispatch.as_str();
    let configuration = stack.lambda.get_function_configuration().function_name(dispatch).send().await;
    let configuration = configuration.expect("Lambda answers");
    let group = configuration.logging_config().and_then(|it| it.log_group()).expect("the template's");
    let memory = f64::from(configuration.memory_size().expect("the template's"));
    for metric in ["Invocations", "Duration"] {
        put("AWS/Lambda", metric, ("FunctionName", dispatch), 4_000.0).await;
    }
    let tables = stack.tables();
    for table in [&tables.deliveries, &tables.subscriptions] {
        put("AWS/DynamoDB", "ConsumedReadCapacityUnits", ("TableName", table), 21.5).await;
    }
    put("AWS/Logs", "IncomingBytes", ("LogGroupName", group), 2e6).await;
    let cost = document(stack)["cost"].take();
    assert_eq!(cost["at_least"], false, "{cost:#}");
    let amount = |cost: &Value, at: usize| cost["counted"][at]["amount"].as_f64().unwrap_or_default();
    assert_eq!((amount(&cost, 1), amount(&cost, 5)), (43.0, 0.002));
    // The schedules run meanwhile.
    let [invocations, gb_seconds, requests] = [2, 3, 4].map(|at| amount(&cost, at) - amount(&before, at));
    assert!(invocations >= 4_000.0 && gb_seconds >= 4.0 * memory / 1024.0, "{cost:#}");
    assert!(requests >= 12_000.0, "a batch is three requests: {cost:#}");
    let usd: f64 = (0..7).filter_map(|at| cost["counted"][at]["usd"].as_f64()).sum();
    let a_million = cost["usd_per_million"].as_f64().expect("a number");
    assert!((a_million - usd / 43.0 * 1e6).abs() < 1e-6, "{cost:#}");
}

fn everything_fits_eighty_columns(stack: &TestStack) {
    let shown = stack.shown("status --summary");
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in [
        ": look: 2 parked messages are overdue, the first by ",
        &format!("; the breaker of {ORIGIN} is open"),
        "transactional ingest 2 1 0 ",
        "bulk retry 0 0 1 -",
        "- dead letters 0 0 0 -",
        "transactional 0 0 0 7 0 0 0 3 10",
        "bulk 2 0 0 0 0 0 0 5 7",
        "LAST 5 MINUTES attempts 0, sent 41,",
        " USD a million deliveries, ",
        "notifications.example.com:8443 open in ",
    ] {
        assert!(words.contains(row), "{row}: {shown}");
    }
    assert!(!shown.contains("s3cret"), "{shown}");
}

fn a_reader_that_leaves_ends_the_watch(stack: &TestStack) {
    for arguments in ["status --summary --watch 1", "status --summary --watch 1 --json"] {
        let is_json = arguments.ends_with("--json");
        let mut watching = started(&mut stack.command(arguments));
        let mut lines = BufReader::new(watching.stdout.take().expect("piped")).lines();
        let first = lines.next().expect("a line").expect("text");
        assert_eq!(first.starts_with('{'), is_json, "{first}");
        if is_json {
            let second = lines.next().expect("another, a second later").expect("text");
            assert!(second.starts_with('{') && second != first, "{second}");
        }
        drop(lines);
        let done = Done::from(watching.wait_with_output().expect("it ends"));
        assert_eq!((done.status, done.stderr.as_str()), (Some(0), ""));
    }
}
