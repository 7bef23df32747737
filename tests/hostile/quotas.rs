//! One tenant's floods of what lasts: subscriptions, messages that wait, dead letters.

use redial_adapters::quotas_dynamo::DynamoQuotas;
use redial_core::{identity::Tenant, quota::Quota};
use redial_engine::ports::{Quotas as _, Usage};
use redial_tests::{prelude::*, test_stack::document};
use reqwest::Method;

/// The flooding tenant. The stack's own is its neighbour.
const MALLORY: &str = "mallory";

const QUOTA: usize = 10;

/// Messages of one flood.
const FLOOD: usize = 40;

async fn stack() -> TestStack {
    let quota = QUOTA.to_string();
    let names = ["QUOTA_SUBSCRIPTIONS", "QUOTA_PARKED", "QUOTA_DEAD_LETTERS"];
    TestStack::up_with_env(names.map(|name| (name, &*quota))).await
}

/// A sender with an API key of its own.
struct Sender<'a> {
    stack: &'a TestStack,
    key: String,
}

impl<'a> Sender<'a> {
    async fn of(stack: &'a TestStack, tenant: &str) -> Self {
        Self { stack, key: stack.api_key(tenant).await }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let (status, text) = self.stack.call(method, path, &self.key, &body.to_string()).await;
        (status, parsed(&text))
    }
}

fn in_an_hour() -> String {
    System.now().plus(Duration::from_secs(3_600)).to_rfc3339()
}

fn message(tenant: &str, id: &str, to: &Subscriber, fields: &Value) -> Value {
    let message = json!({"tenant": tenant, "id": id, "to": {"web_push": to.json()}, "payload": "x"});
    with_fields(message, fields)
}

/// Sends a flood through the queue, and waits until each message waits or has ended; how many have ended.
async fn flood(stack: &TestStack, name: &str, to: &Subscriber, fields: &Value) -> usize {
    let id = |n: usize| format!("{name}{n}");
    stack.send_all((0..FLOOD).map(|n| message(MALLORY, &id(n), to, fields).to_string())).await;
    stack
        .until("the flood is dealt with", async || {
            let mut ended = 0;
            for n in 0..FLOOD {
                let entry = stack.entry_of(MALLORY, &id(n)).await;
                ended += usize::from(entry.is_some_and(|entry| text(&entry, "state") == Some("failed")));
            }
            let waiting = parked(stack, MALLORY).await.iter().filter(|item| is_of(item, name)).count();
            (ended + waiting == FLOOD).then_some(ended)
        })
        .await
}

async fn parked(stack: &TestStack, tenant: &str) -> Vec<Item> {
    let all = stack.scan(&stack.tables().parked).await;
    all.into_iter().filter(|item| text(item, "tenant") == Some(tenant)).collect()
}

fn is_of(item: &Item, name: &str) -> bool {
    text(item, "sk").is_some_and(|sort| sort.starts_with(&format!("{MALLORY}#{name}")))
}

#[tokio::test]
async fn a_flood_of_scheduled_messages_ends_at_the_tenant_s_quota() {
    let stack = stack().await;
    let browser = stack.browser();
    let scheduled = json!({"deliver_at": in_an_hour()});
    // Workers that read the count at once go over the quota together: each has room for ten.
    let first = flood(&stack, "first", &browser, &scheduled).await;
    let waiting = parked(&stack, MALLORY).await.len();
    assert!(waiting >= QUOTA && first == FLOOD - waiting, "{waiting} wait, {first} ended");
    // Longer than a worker relies on a count.
    System.sleep(Duration::from_secs(2)).await;
    assert_eq!(flood(&stack, "second", &browser, &scheduled).await, FLOOD, "none of the second flood waits");
    let entry = stack.entry_of(MALLORY, "second0").await.expect("it is in the ledger");
    assert_eq!(text(&entry, "reason"), Some("quota_exceeded"));
    stack.until_logged(&json!({"event": "quota_exceeded", "tenant": MALLORY, "quota": "parked"})).await;

    let mallory = Sender::of(&stack, MALLORY).await;
    let body = json!({"to": {"web_push": browser.json()}, "payload": "x", "deliver_at": in_an_hour()});
    let (status, problem) = mallory.send(Method::POST, "/v1/messages", &body).await;
    assert_eq!((status, &problem["type"]), (403, &json!("urn:redial:problem:quota_exceeded")), "{problem}");
    // A count that cannot be written is lost.
    assert_fields(&problem, json!({"quota": "parked", "limit": QUOTA}));
    let used = problem["used"].as_u64().and_then(|it| usize::try_from(it).ok());
    assert!(used.is_some_and(|used| (QUOTA..=waiting).contains(&used)), "{waiting} wait: {problem}");
    println!("tried: {} scheduled messages with a quota of {QUOTA}, of which {waiting} wait", 2 * FLOOD);

    // Its own immediate messages, and its neighbour's scheduled ones.
    stack.send(&message(MALLORY, "now", &browser, &json!({}))).await;
    stack.until_state_of(MALLORY, "now", "sent").await;
    stack.send(&message(&stack.tenant, "later", &browser, &scheduled)).await;
    stack.until("the neighbour's waits", async || parked(&stack, &stack.tenant).await.pop()).await;
    let neighbour = Sender::of(&stack, &stack.tenant).await;
    assert_eq!(neighbour.send(Method::POST, "/v1/messages", &body).await.0, 202);
}

#[tokio::test]
async fn a_flood_of_dead_letters_keeps_as_many_bodies_as_the_quota_allows() {
    let stack = stack().await;
    let rejecting = stack.browser_answering(Answer::status(400));
    assert_eq!(flood(&stack, "first", &rejecting, &json!({})).await, FLOOD);
    let bodies = async |tenant: &str| {
        let all = stack.scan(&stack.tables().dead_letters).await;
        let of = format!("{tenant}#");
        let is_body = |item: &&Item| {
            text(item, "body").is_some() && text(item, "pk").is_some_and(|pk| pk.starts_with(&of))
        };
        all.iter().filter(is_body).count()
    };
    // An end is recorded before its dead letter is stored.
    stack.until_quiet().await;
    let kept = bodies(MALLORY).await;
    assert!(kept >= QUOTA, "{kept} bodies");
    System.sleep(Duration::from_secs(2)).await;
    assert_eq!(flood(&stack, "second", &rejecting, &json!({})).await, FLOOD, "each has its end");
    stack.until_quiet().await;
    assert_eq!(bodies(MALLORY).await, kept, "none of the second flood has a body");
    let described = stack
        .until("all are described", async || {
            let all = stack.scan(&stack.tables().dead_letters).await;
            let of_it = all.into_iter().filter(|item| {
                text(item, "tenant") == Some(MALLORY) && text(item, "reason") == Some("rejected")
            });
            let described: Vec<Item> = of_it.collect();
            (described.len() == 2 * FLOOD).then_some(described)
        })
        .await;
    let without =
        described.iter().filter(|it| text(it, "detail").is_some_and(|it| it.contains("no body is kept")));
    assert_eq!(without.count(), 2 * FLOOD - kept);
    println!("tried: {} dead letters with a quota of {QUOTA}, of which {kept} have a body", 2 * FLOOD);

    stack.send(&stack.message_with("m", &rejecting, &json!({}))).await;
    stack
        .until("the neighbour's has a body", async || (bodies(&stack.tenant).await == 1).then_some(()))
        .await;
}

#[tokio::test]
async fn a_flood_of_subscriptions_is_refused_at_the_tenant_s_quota() {
    let stack = stack().await;
    let browser = stack.browser();
    // A subscription with the endpoint of another one takes its place.
    let document_of = |n: usize| {
        let mut document = document(&browser);
        document["endpoint"] = json!(format!("{}-{n}", browser.endpoint));
        document
    };
    let mallory = Sender::of(&stack, MALLORY).await;
    let mut stored = 0;
    for n in 0..FLOOD {
        let (status, answer) =
            mallory.send(Method::PUT, &format!("/v1/subscriptions/s{n}"), &document_of(n)).await;
        match status {
            201 => stored += 1,
            403 => assert_fields(&answer, json!({"quota": "subscriptions", "limit": QUOTA, "used": QUOTA})),
            _ => panic!("{status}: {answer}"),
        }
    }
    let quotas = DynamoQuotas::new(stack.dynamodb.clone(), stack.tables().control.clone());
    let tenant = Tenant::parse(MALLORY).expect("a tenant");
    let counted = quotas.usage(&tenant, Quota::Subscriptions, System.now()).await;
    assert_eq!((stored, counted), (QUOTA, Ok(Usage { used: QUOTA as u64, limit: None })));
    println!("tried: {FLOOD} subscriptions with a quota of {QUOTA}, of which {stored} are stored");

    let renewed = mallory.send(Method::PUT, "/v1/subscriptions/s0", &document_of(0)).await;
    assert_eq!(renewed.0, 200, "a renewal adds none: {}", renewed.1);
    let neighbour = Sender::of(&stack, &stack.tenant).await;
    assert_eq!(neighbour.send(Method::PUT, "/v1/subscriptions/s0", &document_of(0)).await.0, 201);
}
