//! What was put somewhere is told where it lies.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
    time::Duration,
};

use aws_sdk_cloudwatch::types::{Dimension, MetricDatum, StandardUnit};
use redial_adapters::{control_dynamo::DynamoControl, parked_dynamo::DynamoParking, system::System};
use redial_core::{
    identity::{Attempt, DeliveryId, DeliveryKey, Lineage, Tenant, Turn},
    lane::Lane,
    time::Timestamp,
    wait::Bucket,
};
use redial_engine::ports::{
    Clock as _, ParkedItem, ParkedKey, Parking as _, RegisteredBucket, WaitRegistry as _,
};
use serde_json::{Value, json};

use super::world::{World, parked, queue};

const ORIGIN: &str = "https://a-push-service-with-a-long-name.notifications.example.com:8443";

#[tokio::test]
async fn a_stack_is_told_at_a_glance() {
    let world = World::up().await;
    an_idle_stack_is_well(&world);
    what_lies_on_queues_is_told(&world).await;
    what_is_parked_is_told_by_its_time_and_what_is_late_stands_out(&world).await;
    an_open_breaker_stands_out(&world);
    what_cloudwatch_was_told_is_told(&world).await;
    everything_fits_eighty_columns(&world);
    a_reader_that_leaves_ends_the_watch(&world);
}

fn an_idle_stack_is_well(world: &World) {
    let document = world.document();
    assert_eq!((&document["ok"], &document["findings"]), (&json!(true), &json!([])), "{document:#}");
    assert_eq!(document["summary"], "ok: nothing is late, no breaker is open");
    assert_eq!((&document["origins_known"], &document["oldest_from"]), (&json!(0), &json!("emulator")));
    assert_eq!(document["last_minutes"]["sent"], Value::Null, "nothing was done");
    let lines = world.shown(&["status", "--summary"]);
    assert!(lines.starts_with("here at 20") && lines.contains("Z: ok: nothing is late"), "{lines}");
}

async fn what_lies_on_queues_is_told(world: &World) {
    let (sqs, queues) = (world.sqs(), &world.stack.description().queues);
    let send = async |url: &str, delay| {
        let message = sqs.send_message().queue_url(url).message_group_id("acme").message_body("s3cret");
        message.delay_seconds(delay).send().await.expect("the queue takes it");
    };
    for _ in 0..3 {
        send(&queues.ingest, 0).await;
    }
    send(&queues.retry_bulk, 600).await;
    let received = sqs.receive_message().queue_url(&queues.ingest).send().await.expect("it answers");
    assert_eq!(received.messages().len(), 1);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let document = world.document();
    let depth = |it: &Value| ["waiting", "in_flight", "delayed"].map(|name| it[name].as_u64());
    let ingest = queue(&document, Some("transactional"), "ingest");
    assert_eq!(depth(ingest), [Some(2), Some(1), Some(0)]);
    assert!(ingest["oldest_seconds"].as_u64().is_some_and(|age| (1..60).contains(&age)), "{ingest}");
    let retry = queue(&document, Some("bulk"), "retry");
    assert_eq!(depth(retry), [Some(0), Some(0), Some(1)]);
    assert_eq!(retry["oldest_seconds"], Value::Null, "what is delayed is not old");
    assert_eq!(depth(queue(&document, None, "quarantine")), [Some(0); 3]);
    assert_eq!(document["ok"], true, "{document:#}");
}

/// Parks so many messages of a lane in a bucket that begins at `at`.
async fn park(world: &World, lane: Lane, at: Timestamp, messages: u32) {
    let tables = &world.stack.description().tables;
    let bucket = Bucket::of(lane, at, 60, at.minus(Duration::from_secs(3_600))).expect("ahead of then");
    let control = DynamoControl::new(world.dynamo(), tables.control.clone());
    control.register(RegisteredBucket { bucket, shards: 4 }).await.expect("the table answers");
    let tenant = Tenant::parse("acme").expect("a tenant");
    let items = (0..messages).map(|n| {
        let id = DeliveryId::parse(&format!("{}-{n}", bucket.name())).expect("an id");
        let key = DeliveryKey { tenant: tenant.clone(), id };
        let turn = Turn { lineage: Lineage(0), attempt: Attempt(1) };
        let key = ParkedKey::new(bucket.shard_of(&key, 4), &key, turn, None);
        // The first is longer than an item: it lies there in parts, and is one message.
        let body = "s3cret".repeat(if n == 0 { 100_000 } else { 1 });
        ParkedItem { key, tenant: tenant.clone(), not_before: at, body }
    });
    for put in DynamoParking::new(world.dynamo(), tables.parked.clone()).put(items.collect()).await {
        put.expect("stored");
    }
}

async fn what_is_parked_is_told_by_its_time_and_what_is_late_stands_out(world: &World) {
    let now = System.now();
    park(world, Lane::Transactional, now.plus(Duration::from_secs(2_700)), 7).await;
    let document = world.document();
    assert_eq!(
        parked(&document, "transactional", "1h"),
        &json!({"within": "1h", "buckets": 1, "messages": 7, "at_least": false})
    );
    assert_eq!((&document["ok"], &document["parked"]["late_for_seconds"]), (&json!(true), &Value::Null));

    park(world, Lane::Bulk, now.minus(Duration::from_secs(300)), 2).await;
    let document = world.document();
    assert_eq!(parked(&document, "bulk", "late")["messages"], 2);
    let late_for = document["parked"]["late_for_seconds"].as_u64().expect("it is late");
    assert!((300..480).contains(&late_for), "{late_for}");
    let found = document["findings"].as_array().expect("a list");
    assert_eq!((found.len(), &document["ok"]), (1, &json!(false)), "{document:#}");
    let words = found[0].as_str().expect("words");
    assert!(words.starts_with("2 parked messages are past the time, the first for "), "{words}");
}

fn an_open_breaker_stands_out(world: &World) {
    world.shown(&["breakers", "open", ORIGIN, "--for", "30m"]);
    let document = world.document();
    let open = format!("the breaker of {ORIGIN} is open");
    assert!(document["findings"].as_array().expect("a list").contains(&json!(open)), "{document:#}");
    let listed: Value =
        serde_json::from_str(&world.shown(&["breakers", "list", "--json"])).expect("a document");
    let (mut here, mut there) = (document["origins"][0].clone(), listed["origins"][0].clone());
    (here["at"], there["at"]) = (Value::Null, Value::Null);
    assert_eq!(here, there, "as the list of breakers has it");
    assert_eq!(document["origins_known"], 1);
}

async fn what_cloudwatch_was_told_is_told(world: &World) {
    let stack = Dimension::builder().name("Stack").value("here").build();
    let count = |metric: &str, value| {
        let datum = MetricDatum::builder().metric_name(metric).dimensions(stack.clone());
        datum.value(value).unit(StandardUnit::Count).build()
    };
    let cloudwatch = aws_sdk_cloudwatch::Client::new(&world.stack.sdk_config());
    let put = cloudwatch.put_metric_data().namespace("Redial").metric_data(count("Sent", 41.0));
    put.metric_data(count("DeadLetters", 2.0)).send().await.expect("it takes it");
    let document = world.document();
    let last = &document["last_minutes"];
    assert_eq!(
        (&last["sent"], &last["dead_letters"], &last["attempts"], &last["seconds"]),
        (&json!(41), &json!(2), &json!(0), &json!(300)),
        "{last}"
    );
}

fn everything_fits_eighty_columns(world: &World) {
    let shown = world.shown(&["status", "--summary"]);
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [
        ": look: 2 parked messages are past the time, the first for ",
        &format!("; the breaker of {ORIGIN} is open"),
        "transactional ingest 2 1 0 ",
        "bulk retry 0 0 1 -",
        "- dead letters 0 0 0 -",
        "transactional 0 0 0 7 0 0 0 7",
        "bulk 2 0 0 0 0 0 0 2",
        "LAST 5 MINUTES attempts 0, sent 41,",
        "notifications.example.com:8443 open in ",
    ] {
        assert!(words.contains(told), "{told}: {shown}");
    }
    assert!(!shown.contains("s3cret"), "{shown}");
}

fn a_reader_that_leaves_ends_the_watch(world: &World) {
    for json in [false, true] {
        let mut watching = world.command(&["status", "--summary", "--watch", "1"]);
        if json {
            watching.arg("--json");
        }
        let mut watching =
            watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built");
        let mut lines = BufReader::new(watching.stdout.take().expect("piped")).lines();
        let first = lines.next().expect("a line").expect("it is text");
        assert_eq!(first.starts_with('{'), json, "{first}");
        if json {
            let second = lines.next().expect("another, a second later").expect("it is text");
            assert!(second.starts_with('{') && second != first, "{second}");
        }
        drop(lines);
        let done = watching.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.is_empty(), "{said}");
    }
}
