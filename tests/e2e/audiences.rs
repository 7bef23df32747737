//! Messages to audiences: everyone with the tag gets the message once, also when the process that forwards it is killed
//! repeatedly.

use std::collections::{BTreeSet, HashMap, HashSet};

use aws_sdk_sqs::types::Message;
use futures_util::stream::{self, StreamExt as _};
use redial::local::Tables;
use redial_adapters::audiences_dynamo::DynamoAudiences;
use redial_core::subscription::SameEndpoint;
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
    test_stack::{renewal, set_env},
};
use reqwest::Method;

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

/// Browsers with the tag, stored in these tables.
async fn readers(stack: &TestStack, tables: &Tables, many: usize) -> Vec<Subscriber> {
    let book = stack.subscriptions_in(stack.dynamodb.clone(), tables).await;
    let stored = |renewal| async {
        let renewed = book.renew(renewal, SameEndpoint::Replace, System.now()).await;
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
    let received = stack.push.received_by_all();
    let pushed_to: BTreeSet<&str> = received.iter().map(|push| push.endpoint.as_str()).collect();
    assert_eq!((received.len(), pushed_to.len()), (browsers.len(), browsers.len()));
    assert!(browsers.iter().all(|browser| pushed_to.contains(browser.endpoint.as_str())));
    for push in received {
        assert_eq!((push.text(), push.problems.len()), (Some(PAYLOAD), 0), "{:?}", push.problems);
    }
}

/// The ledger has this many deliveries as sent, the message as expanded, and no other.
async fn assert_states(stack: &TestStack, deliveries: &str, sent: usize) {
    let entries = stack.entries(deliveries).await;
    let count = |state| entries.iter().filter(|entry| text(entry, "state") == Some(state)).count();
    assert_eq!((count("sent"), count("expanded"), entries.len()), (sent, 1, sent + 1));
}

#[tokio::test]
async fn everyone_with_the_tag_gets_the_message_once() {
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
    assert_states(&stack, &tables.deliveries, MANY).await;
    assert!(stack.scan(&tables.dead_letters).await.is_empty());
}

#[tokio::test]
async fn everyone_with_the_tag_gets_the_message_once_by_the_page() {
    const MANY: usize = 300;
    let stack = TestStack::up_with_env([("AUDIENCE_PAGES", "on")]).await;
    let tables = stack.tables();
    let browsers = readers(&stack, tables, MANY).await;
    let refusing = &browsers[7];
    stack.push.script(&refusing.endpoint, Some(Answer::status(503)));
    for _ in 0..2 {
        stack.send_to(&stack.queues().bulk, &message()).await;
    }
    stack.until_state("autumn", "expanded").await;
    // One of them is pushed to twice.
    stack.push.wait_for_all(MANY + 1, PATIENCE).await.expect("all are pushed to");
    stack.until_quiet().await;
    for browser in &browsers {
        let expected = if browser.endpoint == refusing.endpoint { 2 } else { 1 };
        assert_eq!(stack.pushes(browser), expected);
    }
    // The one that was retried has an entry of its own, and so has the message.
    assert_states(&stack, &tables.deliveries, 1).await;
}

/// The state of a delivery, as the API describes it.
async fn described(stack: &TestStack, key: &str, id: &str) -> Value {
    let (status, text) = stack.call(Method::GET, &format!("/v1/messages/{id}"), key, "").await;
    assert_eq!(status, 200, "{id}: {text}");
    parsed(&text)
}

#[tokio::test]
async fn recipients_of_a_page_acknowledge_and_are_found_by_their_deliveries_ids() {
    const MANY: usize = 40;
    let stack = TestStack::up_with(|options| {
        set_env(options, [("AUDIENCE_PAGES", "on")]);
        options.events = true;
    })
    .await;
    let key = stack.api_key("acme").await;
    let tables = stack.tables();
    let browsers = readers(&stack, tables, MANY).await;
    // One leaves its page: it is sent to again, with the same envelope.
    stack.push.script(&browsers[7].endpoint, Some(Answer::status(503)));
    let mut message = message();
    message["acks"] = true.into();
    stack.send_to(&stack.queues().bulk, &message).await;
    stack.push.wait_for_all(MANY + 1, PATIENCE).await.expect("all are pushed to");
    stack.until_quiet().await;
    let mut ids = HashSet::new();
    for (at, browser) in browsers.iter().enumerate() {
        let pushes = stack.received(browser, 1 + usize::from(at == 7)).await;
        let texts: BTreeSet<&str> = pushes.iter().map(|push| push.text().expect("it is decrypted")).collect();
        assert_eq!(texts.len(), 1, "each attempt has the same envelope");
        let envelope = parsed(texts.first().expect("one"));
        assert_eq!(envelope["payload"], PAYLOAD);
        let id = envelope["id"].as_str().expect("a text").to_owned();
        for duplicate in [false, true] {
            let body = json!({"token": envelope["ack"], "event": "displayed"}).to_string();
            let answer = stack.request(Method::POST, "/v1/acks").body(body).send().await.expect("it answers");
            let answer = parsed(&answer.text().await.expect("text"));
            assert_eq!(answer, json!({"id": id, "event": "displayed", "duplicate": duplicate}));
        }
        let found = described(&stack, &key, &id).await;
        assert_fields(
            &found,
            json!({"id": id, "state": "sent", "final": true, "subscription": format!("s{at}"), "clicked_at": null}),
        );
        assert!(found["displayed_at"].is_string(), "{found}");
        assert_eq!(found["attempts"].as_array().map(Vec::len), Some(if at == 7 { 2 } else { 0 }), "{found}");
        assert!(ids.insert(id));
    }
    // The one that was retried has an entry of its own, and so has the message.
    assert_states(&stack, &tables.deliveries, 1).await;
    let (status, _) = stack.call(Method::GET, "/v1/messages/unknown", &key, "").await;
    let stranger = format!("{}9", ids.iter().next().expect("one"));
    let (beyond, _) = stack.call(Method::GET, &format!("/v1/messages/{stranger}9999"), &key, "").await;
    assert_eq!((status, beyond), (404, 404));
    let events = stack.take_events().await;
    let displayed = events.iter().filter(|event| event["state"] == "displayed");
    let displayed: BTreeSet<String> =
        displayed.filter_map(|event| Some(event["subscription"].as_str()?.to_owned())).collect();
    assert_eq!(displayed.len(), MANY);
    // One line for many successes, and none has the token of one.
    let lines = stack.log_lines(&stack.description().functions.dispatch).await;
    let of_pages: Vec<Value> = lines
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["event"] == "sent_by_page")
        .collect();
    let logged: usize =
        of_pages.iter().map(|line| line["numbers"].as_str().unwrap_or_default().split(' ').count()).sum();
    assert_eq!(logged, MANY - 1, "{of_pages:?}");
    assert!(of_pages.len() < MANY, "{of_pages:?}");
    let endpoints = || browsers.iter().map(|browser| browser.endpoint.as_str());
    assert!(lines.iter().all(|line| !line.contains(PAYLOAD) && !endpoints().any(|it| line.contains(it))));
}

/// The calls at which the process is killed, one after the other: it reads a part's progress, and then for each page the message and the
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
    let forwarder = Function::dispatch(&stack, &resources, &[]).await;
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
            // The message itself is stored once.
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
        forwarder.ready().await;
        forwarder.proxy.reset();
        if let Some((n, call)) = deaths.next() {
            let kill = forwarder.killer();
            let fault = if n % 2 == 0 { Fault::KillAfter(kill) } else { Fault::KillBefore(kill) };
            forwarder.proxy.on_call(*call, fault);
        }
        died += usize::from(retry.hand_out(&forwarder, parts).await == Poll::Died);
    }
    assert_eq!(died, DEATHS.len(), "each death happened");
    let audiences = DynamoAudiences::new(stack.dynamodb.clone(), resources.tables.audiences.clone());
    let standing = audiences.standing(&run()).await.expect("the table answers").expect("it is known");
    assert_eq!((standing.done(), standing.recipients()), (16, many as u64));
    assert_eq!(handed.len(), many, "each was handed it");
    let repeated = handed.values().any(|messages| messages.len() > 1);
    assert!(repeated, "killed between sending and noting, pages were sent again");
    assert_eq!(stack.depth(retry.queue_url).await, 0);
    each_got_it_once(&stack, &browsers);
    assert_states(&stack, &resources.tables.deliveries, many).await;
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
