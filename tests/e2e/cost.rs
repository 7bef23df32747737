//! What ten messages need, by how they end, counted on the real function: the numbers that `redial cost` calculates with.

use futures_util::stream::{self, StreamExt as _};
use redial::cost::counts::{
    AUDIENCE, Counts, DEAD_LETTER, FIRST_ATTEMPT, INDEXED, LONG_WAIT, PAGE, PAGE_BY_ONE_MESSAGE,
    PAGE_LOG_BYTES, RECIPIENT_LOG_BYTES, RECORD_OF_SUCCESSES, RETRY,
};
use redial_adapters::audiences_dynamo::DynamoAudiences;
use redial_core::subscription::SameEndpoint;
use redial_core::{
    audience::{SHARDS, shard_of},
    identity::{DeliveryId, DeliveryKey, SubscriptionId, Tenant},
    ledger::State,
};
use redial_engine::ports::SubscriptionBook as _;
use redial_testkit::{
    proxy::AwsService,
    runtime_api::{SqsRecord, sqs_event},
};
use redial_tests::{
    hosted::{Function, Which},
    mapping::{Mapping, Poll},
    prelude::*,
    resources::Resources,
    test_stack::{charges_statements, renewal},
};

/// How long the bodies of dead letters are kept that a test waits for.
const TTL: Duration = Duration::from_secs(15);

/// Of the table, and of the one index that an item of a dead letter stands in.
const UNITS_OF_AN_ITEM: u32 = 2;

/// What is no success is recorded by itself.
const ENDS: u32 = 10;

/// What DynamoDB charges for ten entries in the index by state: the emulator charges nothing for an index of a statement.
const NOT_CHARGED_HERE: u32 = INDEXED;

/// The partition keys of the indexes of dead letters.
const INDEXES: [&str; 2] = ["gsi_pk", "body_pk"];

/// What a receive and a delete of ten messages are.
const RECEIVED_AND_DELETED: u32 = 2;

fn calls(of: &Function, service: &AwsService, operation: &str) -> u32 {
    u32::try_from(of.proxy.count(service, operation)).expect("small")
}

/// Ten messages to ten browsers, as the ingest queue hands them out.
fn ten(stack: &TestStack, resources: &Resources, fields: &Value) -> (Vec<Subscriber>, Vec<SqsRecord>) {
    let one = |n: u32| {
        let browser = stack.browser();
        let message = stack.message_with(&format!("m-{n}"), &browser, fields);
        (browser, resources.record(&n.to_string(), message.to_string()))
    };
    (0..10).map(one).unzip()
}

/// What dispatch was charged so far; none where that is not known.
#[expect(clippy::print_stdout, reason = "a test prints what it does not compare")]
fn write_units(dispatch: &Function) -> Option<u32> {
    if !charges_statements() {
        println!("write units are not compared: the tables report none of statements");
        return None;
    }
    let units: u64 = dispatch.json_logs().filter_map(|line| line["WriteUnits"].as_u64()).sum();
    Some(u32::try_from(units).expect("small"))
}

/// Ten messages with this answer to their first attempts; how many sends dispatch made until all are sent, and how many write units
/// it was charged.
async fn ten_until_sent(name: &str, first: Option<Answer>) -> (u32, Option<u32>) {
    let stack = TestStack::up().await;
    let resources = Resources::copy(&stack, name).await;
    let dispatch = Function::dispatch(&stack, &resources, &[]).await;
    dispatch.proxy.reset();
    let (browsers, records) = ten(&stack, &resources, &json!({}));
    for browser in &browsers {
        stack.push.script(&browser.endpoint, first.clone());
    }
    dispatch.invoke(sqs_event(records)).await.expect("it answers");
    let mapping =
        Mapping { sqs: &stack.sqs, queue_url: &resources.queues.retry, visibility: Duration::from_secs(30) };
    let attempts = 1 + usize::from(first.is_some());
    stack
        .until("all are sent", async || {
            if browsers.iter().all(|browser| stack.pushes(browser) == attempts) {
                return Some(());
            }
            assert!(mapping.poll(&dispatch, Duration::from_secs(1)).await != Poll::Died);
            None
        })
        .await;
    let sends = dispatch.proxy.count(&AwsService::Sqs, "SendMessageBatch");
    (u32::try_from(sends).expect("small"), write_units(&dispatch))
}

#[tokio::test]
async fn a_first_attempt_needs_what_cost_calculates_with() {
    let (sends, units) = ten_until_sent("first", None).await;
    // The producer's send, a receive and a delete.
    assert_eq!(FIRST_ATTEMPT.sqs_requests, 1 + sends + RECEIVED_AND_DELETED);
    // A stalled machine makes several waves of one.
    let expected = FIRST_ATTEMPT.write_units + RECORD_OF_SUCCESSES;
    assert!(units.is_none_or(|units| (expected..=expected + 4).contains(&units)), "{units:?}, {expected}");
}

#[tokio::test]
async fn a_long_wait_needs_its_retry_and_a_place_to_wait() {
    let busy = Answer::status(429).with_header("retry-after", "5");
    let (sends, units) = ten_until_sent("parked", Some(busy)).await;
    let all = |of: fn(&Counts) -> u32| of(&FIRST_ATTEMPT) + of(&RETRY) + of(&LONG_WAIT);
    // Each wave of outcomes is counted for the quota: a stalled machine makes several of one.
    let expected = all(|counts| counts.write_units) + RECORD_OF_SUCCESSES - NOT_CHARGED_HERE * 2;
    assert!(units.is_none_or(|units| (expected..=expected + 9).contains(&units)), "{units:?}, {expected}");
    // Messages due in several buckets are released one bucket at a time: a stalled machine makes several of one.
    let requests = 1 + sends + 2 * RECEIVED_AND_DELETED;
    let expected = all(|counts| counts.sqs_requests);
    assert!((expected..=expected + 9).contains(&requests), "{requests}, {expected}");
}

/// Each item of a dead letter stands in one index, which is looked up, and what is written in the table is written there as
/// well, which dispatch's own figure shows. Of cleanup the items are counted that it writes and deletes.
#[tokio::test]
async fn a_dead_letter_needs_what_cost_calculates_with() {
    let stack = TestStack::up().await;
    let resources = Resources::copy(&stack, "dead-letters").await;
    let dispatch = Function::dispatch(&stack, &resources, &[]).await;
    let cleanup = Function::start(&stack, Which::Cleanup, &resources, &[], Duration::from_secs(60)).await;
    cleanup.ready().await;
    dispatch.proxy.reset();
    cleanup.proxy.reset();
    let (browsers, records) = ten(&stack, &resources, &json!({"ttl": TTL.as_secs()}));
    for browser in &browsers {
        stack.push.always(&browser.endpoint, Answer::status(400));
    }
    dispatch.invoke(sqs_event(records)).await.expect("it answers");
    let sends = calls(&dispatch, &AwsService::Sqs, "SendMessageBatch");
    // A call each for a wave of outcomes; a stalled machine makes several of one.
    let waves = calls(&dispatch, &AwsService::DynamoDb, "BatchWriteItem");
    assert_eq!(sends, waves, "bodies, and then references");
    let stored = async || stack.scan(&resources.tables.dead_letters).await;
    let indexed = |items: &[Item], key: &str| {
        let in_one = |item: &&Item| INDEXES.into_iter().filter(|key| text(item, key).is_some()).eq([key]);
        u32::try_from(items.iter().filter(in_one).count()).expect("small")
    };
    let bodies = stored().await;
    assert_eq!(u32::try_from(bodies.len()), Ok(indexed(&bodies, "body_pk")));
    let counted = calls(&dispatch, &AwsService::DynamoDb, "UpdateItem");
    assert_eq!(counted, waves, "bodies are counted for the quota");
    let expected =
        FIRST_ATTEMPT.write_units + ENDS + UNITS_OF_AN_ITEM * indexed(&bodies, "body_pk") + counted;
    if let Some(units) = write_units(&dispatch) {
        assert_eq!(units, expected);
    }

    let queue_url = &resources.queues.dead_letter;
    let mapping = Mapping { sqs: &stack.sqs, queue_url, visibility: Duration::from_secs(30) };
    assert_eq!(mapping.poll(&cleanup, Duration::from_secs(5)).await, Poll::Done);
    assert_eq!(mapping.poll(&cleanup, Duration::ZERO).await, Poll::Idle, "all ten came at once");
    let described = indexed(&stored().await, "gsi_pk");
    // One more says that the tenant has dead letters on that day, once a worker.
    assert_eq!(calls(&cleanup, &AwsService::DynamoDb, "PutItem"), described + 1);
    let reads = ["GetItem", "BatchGetItem", "Query"].map(|read| calls(&cleanup, &AwsService::DynamoDb, read));
    assert_eq!(reads, [DEAD_LETTER.read_units; 3]);
    assert_eq!(u32::try_from(cleanup.proxy.calls().len()), Ok(described + 1), "and nothing else");
    assert_eq!(DEAD_LETTER.sqs_requests, 1 + RECEIVED_AND_DELETED);
    assert_eq!(DEAD_LETTER.invocations, 1);

    cleanup.proxy.reset();
    tokio::time::sleep(TTL).await;
    let swept = cleanup.invoke(json!({"sweep": "bodies"})).await.expect("it answers");
    assert_eq!(swept["bodies"], indexed(&bodies, "body_pk"), "{swept}");
    let left = stored().await;
    assert_eq!((indexed(&left, "body_pk"), indexed(&left, "gsi_pk")), (0, described));
    let items = indexed(&bodies, "body_pk") * 2 + described;
    let ended = stack.scan(&resources.tables.deliveries).await;
    let listed = ended.iter().filter(|entry| text(entry, "found_by").is_some()).count();
    assert_eq!(u32::try_from(listed), Ok(INDEXED), "each end can be asked for");
    let expected = UNITS_OF_AN_ITEM * items + ENDS + INDEXED + 1;
    assert_eq!(DEAD_LETTER.write_units, expected, "and a count for the quota");
}

fn message_key() -> DeliveryKey {
    let tenant = Tenant::parse("acme").expect("valid");
    DeliveryKey { tenant, id: DeliveryId::parse("news").expect("valid") }
}

/// Ids of 36 characters, as UUIDs have, of one part of an audience.
fn ids_of_one_part(many: usize) -> Vec<String> {
    let is_of_part = |id: &String| SubscriptionId::parse(id).is_some_and(|id| shard_of(&id) == 0);
    (0..).map(|n| format!("{n:036}")).filter(is_of_part).take(many).collect()
}

#[tokio::test]
async fn a_page_by_one_message_needs_what_cost_calculates_with() {
    const MANY: usize = 100;
    let stack = TestStack::up().await;
    let resources = Resources::copy(&stack, "page").await;
    let dispatch = Function::dispatch(&stack, &resources, &[("AUDIENCE_PAGES", "on")]).await;
    let book = stack.subscriptions_in(stack.dynamodb.clone(), &resources.tables).await;
    let browsers: Vec<Subscriber> = (0..MANY).map(|_| stack.browser()).collect();
    let ids = ids_of_one_part(MANY);
    let renewals = ids.iter().zip(&browsers).map(|(id, browser)| renewal("acme", id, "news", browser));
    stream::iter(renewals)
        .for_each_concurrent(8, async |renewal| {
            book.renew(renewal, SameEndpoint::Replace, System.now()).await.expect("the table answers");
        })
        .await;
    dispatch.proxy.reset();
    let message =
        json!({"tenant": "acme", "id": "news", "to": {"audience": {"tag": "news"}}, "payload": "hello"});
    dispatch.invoke(sqs_event([resources.record("1", message.to_string())])).await.expect("it answers");
    let queue_url = &resources.queues.retry_bulk;
    let mapping = Mapping { sqs: &stack.sqs, queue_url, visibility: Duration::from_secs(30) };
    let mut polls = 0;
    loop {
        match mapping.poll(&dispatch, Duration::from_secs(1)).await {
            Poll::Idle if browsers.iter().all(|browser| stack.pushes(browser) == 1) => break,
            Poll::Died => panic!("nothing kills it"),
            Poll::Done | Poll::Idle => polls += 1,
        }
        assert!(polls < 60, "all are pushed to within a minute");
    }
    // The message's claim, its run, and the progress of each part, of which the one with the page has an empty one behind it.
    let parts = u32::from(SHARDS) + 1;
    let others = 1 + AUDIENCE.write_units + parts * PAGE.write_units;
    let expected = others + PAGE_BY_ONE_MESSAGE.write_units;
    let units = write_units(&dispatch);
    // The emulator's receivers answer within a wave; a stalled machine makes several of one.
    assert!(units.is_none_or(|units| (expected..=expected + 6).contains(&units)), "{units:?}, {expected}");
    // The parts' first messages, and the page's: its receive and its delete are the other two.
    let sends = calls(&dispatch, &AwsService::Sqs, "SendMessageBatch");
    assert_eq!(sends, 2 + PAGE_BY_ONE_MESSAGE.sqs_requests - RECEIVED_AND_DELETED);
    // As Lambda writes them: a line for each wave, and a line feed.
    let of_pages: Vec<Value> = dispatch.json_logs().filter(|line| line["event"] == "sent_by_page").collect();
    let bytes: usize = of_pages.iter().map(|line| line.to_string().len() + 1).sum();
    let waves = of_pages.len() as u32;
    let expected = waves * PAGE_LOG_BYTES + u32::try_from(MANY).expect("small") * RECIPIENT_LOG_BYTES;
    let most = f64::from(expected) * 1.1;
    assert!(
        (2..=8).contains(&waves) && bytes as f64 <= most && bytes as f64 >= most / 1.4,
        "{bytes}, {expected}"
    );
    let entries = stack.entries(&resources.tables.deliveries).await;
    assert_eq!(entries.len(), 1, "the message to the audience alone has an entry");
    let audiences = DynamoAudiences::new(stack.dynamodb.clone(), resources.tables.audiences.clone());
    for (place, id) in ids.iter().enumerate() {
        let id = SubscriptionId::parse(id).expect("an id");
        let found = audiences.recipient(&message_key(), &id).await.expect("the table answers");
        let on_page = found.and_then(|(_, on_page)| on_page).expect("it is on the page");
        assert_eq!((on_page.place, on_page.state()), (place, State::Sent), "{id}");
    }
}
