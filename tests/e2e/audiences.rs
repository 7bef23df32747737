//! Messages to audiences: every bearer of the tag gets the message once, also when the process that hands it on is killed
//! repeatedly.

use std::collections::{HashMap, HashSet};

use aws_sdk_sqs::types::Message;
use futures_util::stream::{self, StreamExt as _};
use redial::local::Tables;
use redial_adapters::audiences_dynamo::DynamoAudiences;
use redial_core::{
    identity::{DeliveryId, DeliveryKey, Tenant},
    tag::Tag,
};
use redial_engine::ports::{Renewed, SubscriptionBook as _};
use redial_testkit::proxy::Fault;
use redial_tests::{
    hosted::Function,
    mapping::{Mapping, Poll},
    prelude::*,
    resources::Resources,
    test_stack::renewal,
};

const PAYLOAD: &str = "the autumn catalogue is here";

fn run() -> DeliveryKey {
    let tenant = Tenant::parse("acme").expect("valid");
    DeliveryKey { tenant, id: DeliveryId::parse("autumn").expect("valid") }
}

fn message() -> Value {
    json!({
        "tenant": "acme", "id": "autumn", "to": {"audience": {"tag": "news"}}, "payload": PAYLOAD, "class": "campaign",
    })
}

/// Browsers that bear the tag, stored in these tables.
async fn readers(stack: &TestStack, tables: &Tables, many: usize) -> Vec<Subscriber> {
    let book = stack.subscriptions_in(stack.dynamodb.clone(), tables).await;
    let stored = |renewal| async {
        let renewed = book.renew(renewal, System.now()).await;
        assert!(matches!(renewed.expect("the table answers"), Renewed::New(_)));
    };
    let browsers: Vec<Subscriber> = (0..many).map(|_| stack.browser()).collect();
    let renewals =
        browsers.iter().enumerate().map(|(n, browser)| renewal("acme", &format!("s{n}"), "news", browser));
    stream::iter(renewals).for_each_concurrent(8, stored).await;
    // These two must not get it: another tag, and the same tag of another tenant.
    for (of, tag) in [("acme", "sport"), ("globex", "news")] {
        stored(renewal(of, "other", tag, &stack.browser())).await;
    }
    browsers
}

/// Each of them was pushed to once, with the payload, and no other browser was.
fn each_got_it_once(stack: &TestStack, browsers: &[Subscriber]) {
    let mut pushes: HashMap<String, Vec<Received>> = HashMap::new();
    for push in stack.push.received_by_all() {
        pushes.entry(push.endpoint.clone()).or_default().push(push);
    }
    assert_eq!(pushes.len(), browsers.len(), "browsers that were pushed to");
    for browser in browsers {
        match pushes.get(&browser.endpoint).map(Vec::as_slice) {
            Some([push]) => {
                assert_eq!((push.text(), push.problems.len()), (Some(PAYLOAD), 0), "{:?}", push.problems);
            }
            other => panic!("{} pushes to one browser", other.map_or(0, <[_]>::len)),
        }
    }
}

async fn states(stack: &TestStack, deliveries: &str) -> HashMap<String, usize> {
    let mut states = HashMap::new();
    for entry in stack.scan(deliveries).await {
        *states.entry(text(&entry, "state").unwrap_or_default().to_owned()).or_default() += 1;
    }
    states
}

#[tokio::test]
async fn every_bearer_of_the_tag_gets_the_message_once() {
    const MANY: usize = 300;
    let stack = TestStack::up().await;
    let tables = stack.tables();
    let browsers = readers(&stack, tables, MANY).await;
    // Twice the same is one.
    for _ in 0..2 {
        stack.send_to(&stack.queues().bulk, &message()).await;
    }

    let audiences = DynamoAudiences::new(stack.dynamodb.clone(), tables.audiences.clone());
    let standing = stack
        .until("it is handed on", async || {
            let standing = audiences.standing(&run()).await.expect("the table answers");
            standing.filter(|standing| standing.done() == 16)
        })
        .await;
    assert_eq!(standing.recipients(), MANY as u64);
    let news = Tag::parse("news").expect("a tag");
    assert_eq!(audiences.count(&run().tenant, &news).await.expect("it is counted"), MANY as u64);
    stack.until_state("autumn", "expanded").await;
    stack.push.wait_for_all(MANY, PATIENCE).await.expect("all are pushed to");
    stack.until_quiet().await;
    each_got_it_once(&stack, &browsers);
    let expected = HashMap::from([("sent".to_owned(), MANY), ("expanded".to_owned(), 1)]);
    assert_eq!(states(&stack, &tables.deliveries).await, expected);
    assert!(stack.scan(&tables.dead_letters).await.is_empty());
}

/// The calls over which the process dies, one after the other: it reads a part's progress, and then for each page the message and the
/// page, sends ten at a time, and moves the progress.
const DEATHS: [usize; 10] = [1, 14, 3, 8, 30, 2, 61, 13, 100, 5];

fn is_part(message: &Message) -> bool {
    message.body.as_deref().is_some_and(|body| body.contains(r#""expand""#))
}

/// How many recipients there are while processes are killed: 3,000, or what `REDIAL_RECIPIENTS` says. 50,000 take a quarter of an hour:
/// the emulator looks through all of a queue for every message that is received or deleted.
fn recipients() -> usize {
    std::env::var("REDIAL_RECIPIENTS").ok().and_then(|many| many.parse().ok()).unwrap_or(3_000)
}

#[tokio::test]
async fn thousands_get_it_once_although_the_process_is_killed_ten_times() {
    /// Nothing comes back by itself: the test gives it back when a process has died.
    const VISIBILITY: Duration = Duration::from_hours(12);
    let many = recipients();
    let stack = TestStack::up().await;
    let resources = Resources::copy(&stack, "audience").await;
    let browsers = readers(&stack, &resources.tables, many).await;
    let hander = Function::dispatch(&stack, &resources, &[]).await;
    let sender = Function::dispatch(&stack, &resources, &[]).await;
    let mapping = |queue_url| Mapping { sqs: &stack.sqs, queue_url, visibility: VISIBILITY };

    let bulk = mapping(&resources.queues.bulk);
    stack.send_to(bulk.queue_url, &message()).await;
    assert_eq!(bulk.poll(&sender, Duration::from_secs(5)).await, Poll::Done);

    // Another process sends to the recipients, so that the killed one only hands on.
    let retry = mapping(&resources.queues.retry_bulk);
    let mut deaths = DEATHS.iter().enumerate();
    let mut died = 0;
    // Which messages named a recipient.
    let mut handed: HashMap<String, HashSet<String>> = HashMap::new();
    let mut waiting = Vec::new();
    loop {
        let received = retry.receive(Duration::from_secs(1)).await;
        let is_idle = received.is_empty();
        let (parts, own): (Vec<_>, Vec<_>) = received.into_iter().partition(is_part);
        for message in &own {
            // What is stored once does not travel.
            let body = message.body.as_deref().filter(|body| !body.contains(PAYLOAD)).expect("a reference");
            let body = parsed(body);
            let id = message.message_id.clone().expect("every message has an id");
            handed.entry(body["recipient"].to_string()).or_default().insert(id);
        }
        waiting.extend(own);
        if is_idle && waiting.is_empty() {
            break;
        }
        if is_idle || waiting.len() >= 100 {
            // Of two of a recipient in a batch one comes again.
            assert_eq!(retry.hand_out(&sender, std::mem::take(&mut waiting)).await, Poll::Done);
        }
        if parts.is_empty() {
            continue;
        }
        hander.ready().await;
        hander.proxy.reset();
        if let Some((n, call)) = deaths.next() {
            let kill = hander.killer();
            let fault = if n % 2 == 0 { Fault::KillAfter(kill) } else { Fault::KillBefore(kill) };
            hander.proxy.on_call(*call, fault);
        }
        died += usize::from(retry.hand_out(&hander, parts).await == Poll::Died);
    }
    assert_eq!(died, DEATHS.len(), "each death happened");
    let audiences = DynamoAudiences::new(stack.dynamodb.clone(), resources.tables.audiences.clone());
    let standing = audiences.standing(&run()).await.expect("the table answers").expect("it is known");
    assert_eq!((standing.done(), standing.recipients()), (16, many as u64));
    assert_eq!(handed.len(), many, "each was handed it");
    assert!(
        handed.values().any(|messages| messages.len() > 1),
        "killed between sending and noting, pages were sent again"
    );
    assert_eq!(stack.depth(retry.queue_url).await, 0);
    each_got_it_once(&stack, &browsers);
    let expected = HashMap::from([("sent".to_owned(), many), ("expanded".to_owned(), 1)]);
    assert_eq!(states(&stack, &resources.tables.deliveries).await, expected);
    assert_eq!(stack.depth(&resources.queues.dead_letter).await, 0);
}

#[tokio::test]
async fn a_part_goes_on_when_the_call_that_moved_it_is_unanswered() {
    const MANY: usize = 40;
    let stack = TestStack::up().await;
    let resources = Resources::copy(&stack, "unanswered").await;
    let browsers = readers(&stack, &resources.tables, MANY).await;
    let dispatch = Function::dispatch(&stack, &resources, &[]).await;
    let mapping = |queue_url| Mapping { sqs: &stack.sqs, queue_url, visibility: Duration::from_secs(60) };
    let bulk = mapping(&resources.queues.bulk);
    // Pages of one recipient, so that every part has several.
    let slow = json!({"to": {"audience": {"tag": "news", "rate": "1/s"}}});
    stack.send_to(bulk.queue_url, &with_fields(message(), &slow)).await;
    assert_eq!(bulk.poll(&dispatch, Duration::from_secs(5)).await, Poll::Done);

    // It is carried out, and made again because nothing answered: then the progress is not where it was any more.
    let lost = Fault::KillAfter(std::sync::Arc::new(|| ()));
    dispatch.proxy.once(|call| call.operation == "UpdateItem", lost);
    let retry = mapping(&resources.queues.retry_bulk);
    let audiences = DynamoAudiences::new(stack.dynamodb.clone(), resources.tables.audiences.clone());
    while stack.depth(retry.queue_url).await > 0 {
        retry.poll(&dispatch, Duration::from_secs(2)).await;
    }
    assert!(!dispatch.proxy.has_unused_faults(), "a call was not answered");
    let standing = audiences.standing(&run()).await.expect("the table answers").expect("it is known");
    assert_eq!((standing.done(), standing.recipients()), (16, MANY as u64));
    each_got_it_once(&stack, &browsers);
}
