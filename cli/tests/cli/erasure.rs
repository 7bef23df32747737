//! `redial subscriptions export` and `erase`, and erasures over the HTTP API, with the real functions: a person's canaries go down every road,
//! into every table, and none of them is there afterwards.

use redial_core::{
    endpoint::EndpointHash,
    identity::{SubscriptionKey, Tenant},
    recipient::Recipient,
    subscription::SameEndpoint,
    tag::{Tag, Tags},
    webhook::WebhookTarget,
};
use redial_engine::ports::{PruneCandidate, SubscriptionBook as _, SubscriptionHealth as _};
use redial_tests::test_stack::{dead_letter, renewal, set_env};

use crate::prelude::*;
use reqwest::Method;

const PAYLOAD: &str = "canary-payload-7Qm4xW";
const REF: &str = "canary-ref-k81Zp0e";
const TAG: &str = "canary-tag-b62tz";

/// This number of characters, of six bytes each in JSON, is longer than an item and not too long for a webhook.
const LONG: usize = 70_000;

struct Person {
    stack: TestStack,
    browser: Subscriber,
    hook: String,
}

impl Person {
    /// What must not be found any more.
    fn canaries(&self) -> Vec<String> {
        let token = self.browser.endpoint.rsplit('/').next().expect("an endpoint has a path").to_owned();
        let Subscriber { p256dh, auth, .. } = &self.browser;
        let texts = [PAYLOAD, REF, TAG].map(str::to_owned).into_iter();
        texts.chain([token, p256dh.clone(), auth.clone(), self.hook.clone()]).collect()
    }

    /// The tables, by what of the person each holds.
    async fn held(&self) -> Vec<(&'static str, Vec<String>)> {
        let tables = self.stack.tables();
        let mut held = Vec::new();
        for (name, table) in [
            ("subscriptions", &tables.subscriptions),
            ("deliveries", &tables.deliveries),
            ("dead_letters", &tables.dead_letters),
            ("parked", &tables.parked),
            ("audiences", &tables.audiences),
            ("control", &tables.control),
        ] {
            let items: Vec<String> = self.stack.scan(table).await.iter().map(readable).collect();
            let mut found: Vec<String> = Vec::new();
            for item in items {
                let canaries =
                    self.canaries().into_iter().chain(["canary-s".to_owned(), "canary-h".to_owned()]);
                found.extend(
                    canaries
                        .filter(|canary| item.contains(canary.as_str()))
                        .map(|canary| format!("{canary} in {}", item.chars().take(400).collect::<String>())),
                );
            }
            held.push((name, found));
        }
        held
    }

    /// A message from before that comes up after the erasure.
    async fn send(&self, id: &str, to: &Value, more: &Value) {
        let message =
            json!({"tenant": "acme", "id": id, "to": to, "payload": PAYLOAD, "ref": REF, "ttl": 86_400});
        self.stack.send(&with_fields(message, more)).await;
    }
}

/// An item with its bytes as text.
fn readable(item: &Item) -> String {
    let value = |value: &aws_sdk_dynamodb::types::AttributeValue| match value.as_b() {
        Ok(bytes) => String::from_utf8_lossy(bytes.as_ref()).into_owned(),
        Err(_) => format!("{value:?}"),
    };
    item.iter().map(|(name, of)| format!("{name}={} ", value(of))).collect()
}

fn to_subscription() -> Value {
    json!({"subscription": "canary-s"})
}

async fn stored() -> Person {
    let stack = TestStack::up_with(|options| {
        // A wait of a few seconds is parked.
        set_env(
            options,
            [
                ("SQS_MAX_DELAY_SECONDS", "2"),
                ("WAIT_BUCKET_SECONDS", "1"),
                ("WAIT_SHARDS", "1"),
                ("AUDIENCE_PAGES", "on"),
                // Longer than the attempt that is under way while a person is erased.
                ("LONGEST_INVOCATION_SECONDS", "12"),
            ],
        );
    })
    .await;
    let browser = stack.browser();
    let hook = "https://hooks.example/zz-hook-9x4b".to_owned();
    let book = stack.subscriptions().await;
    let mut renewal = renewal("acme", "canary-s", TAG, &browser);
    let tags = [TAG, "news"].map(|tag| Tag::parse(tag).expect("a tag"));
    renewal.document.tags = Some(Tags::new(tags.to_vec()).expect("two are not too many"));
    book.renew(renewal, SameEndpoint::Replace, System.now()).await.expect("it is stored");
    let endpoint = redial_core::endpoint::Endpoint::parse(&hook).expect("valid");
    let key = |id: &str| SubscriptionKey {
        tenant: Tenant::parse("acme").expect("valid"),
        id: redial_core::identity::SubscriptionId::parse(id).expect("valid"),
    };
    let webhook = Recipient::Webhook(WebhookTarget::at(endpoint));
    let webhook = redial_core::subscription::Subscription::new(key("canary-h"), webhook);
    book.put(&webhook, System.now()).await.expect("it is stored");
    let candidate = PruneCandidate {
        key: key("canary-s"),
        endpoint_hash: EndpointHash::parse(&format!("hmac:k1:{}", "0".repeat(64))).expect("valid"),
        at: System.now(),
        decided: true,
    };
    book.add_candidate(7, candidate, 7).await.expect("it is written");
    Person { stack, browser, hook }
}

/// Down every road, until everything lies where it stays.
async fn sent(person: &Person) {
    let Person { stack, browser, .. } = person;
    let later = json!({"deliver_at": System.now().plus(Duration::from_secs(7_200)).to_rfc3339()});
    person.send("sent", &to_subscription(), &json!({"acks": true})).await;
    stack.until_state_of("acme", "sent", "sent").await;
    stack.push.script(&browser.endpoint, vec![Answer::status(400)]);
    person.send("refused", &to_subscription(), &json!({})).await;
    stack.until_state_of("acme", "refused", "failed").await;
    person.send("parked", &to_subscription(), &later).await;
    person.send("inline", &json!({"web_push": browser.json()}), &later).await;
    let long = format!("{PAYLOAD}{}", "\u{1}".repeat(LONG));
    let long = with_fields(later.clone(), &json!({"payload": long}));
    person.send("long", &json!({"subscription": "canary-h"}), &long).await;
    // It is no message, so it is a dead letter.
    let too_long = json!({"payload": format!("{PAYLOAD}{}", "x".repeat(300_000))});
    person.send("too-long", &json!({"subscription": "canary-h"}), &too_long).await;
    // Its payload is everybody's.
    let audience = json!({"audience": {"tag": "news"}});
    person.send("campaign", &audience, &json!({"class": "campaign", "payload": "to all"})).await;
    stack.until_state_of("acme", "campaign", "expanded").await;
    stack
        .until("everything lies where it stays", async || {
            let parked = stack.scan(&stack.tables().parked).await.len();
            let letters = stack.scan(&stack.tables().dead_letters).await.len();
            (parked >= 4 && letters >= 4).then_some(())
        })
        .await;
    stack.until_quiet().await;
}

/// An attempt that is under way while it is erased: its worker has seen no mark, and its retry would be parked. The number of pushes before it.
async fn under_way(person: &Person) -> usize {
    let Person { stack, browser, .. } = person;
    let before = stack.pushes(browser);
    let slow = vec![Answer::status(503).after(Duration::from_secs(6))];
    stack.push.script(&browser.endpoint, slow);
    let later = json!({"retry": {"base_delay_ms": 60_000, "multiplier": 1, "jitter": "none"}});
    person.send("under-way", &to_subscription(), &later).await;
    stack.until("it is under way", async || (stack.pushes(browser) > before).then_some(())).await;
    before
}

/// Sends what comes up after the erasure, and searches every table.
async fn nothing_is_left_or_comes_back(person: &Person, before: usize, tombstones: usize) {
    let stack = &person.stack;
    // From before, and still on queues: to the subscription, with the ref, and a reference to a dead letter.
    person.send("late", &to_subscription(), &json!({})).await;
    let refused = stack.browser_answering(Answer::status(400));
    person.send("late-ref", &json!({"web_push": refused.json()}), &json!({})).await;
    let mut reference = dead_letter("acme", "late-letter", "retries_exhausted", System.now());
    reference.subscription = Some("canary-s".to_owned());
    let body: Value = parsed(&reference.to_body());
    stack.send_to(&stack.queues().dead_letter, &body).await;
    stack.until_state_of("acme", "late-ref", "failed").await;
    stack.until_quiet().await;

    assert_eq!(stack.pushes(&person.browser), before + 1, "the attempt that was under way is the last");
    assert!(stack.entry_of("acme", "late").await.is_none(), "nothing is recorded of what is dropped");
    for (table, found) in person.held().await {
        // The id stays in the tombstones, in the list of an audience's recipients, and with the digest of the endpoint that it had.
        let ids = |text: &&String| text.starts_with("canary-s in") || text.starts_with("canary-h in");
        let (ids, canaries): (Vec<_>, Vec<_>) = found.iter().partition(ids);
        assert_eq!(canaries, Vec::<&String>::new(), "{table}");
        let most = match table {
            "subscriptions" => tombstones,
            // Members, how far the part has gone, and the endpoint's holder.
            "audiences" => 3,
            _ => 0,
        };
        assert!(ids.len() <= most, "{table}: {ids:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_an_erased_person_is_left_or_comes_back() {
    let person = stored().await;
    let stack = &person.stack;
    sent(&person).await;
    for (table, found) in person.held().await {
        assert!(!found.is_empty(), "nothing was stored in {table}: the test shows nothing of it");
    }

    let erase = "subscriptions erase --tenant acme --subscription canary-s";
    let exported =
        stack.shown(format!("subscriptions export --tenant acme --subscription canary-s --ref {REF}"));
    let kinds: std::collections::BTreeSet<String> =
        exported.lines().map(|line| parsed(line)["kind"].as_str().expect("a kind").to_owned()).collect();
    for kind in [
        "subscription",
        "delivery",
        "dead_letter",
        "parked_message",
        "tag",
        "recipient",
        "pruning",
        "audience_message",
    ] {
        assert!(kinds.contains(kind), "{kind}: {kinds:?}");
    }
    for canary in person.canaries().iter().filter(|canary| **canary != person.hook) {
        assert!(exported.contains(canary.as_str()), "{canary} is not exported");
    }
    let whole = |line: &str| parsed(line)["item"]["body"].as_str().is_some_and(|body| body.len() > 6 * LONG);
    assert!(exported.lines().any(whole), "a body in parts is exported as a whole");

    assert!(stack.redial(erase).refused_with(2).contains("pass --yes to erase it"));
    let counted = stack.json(format!("{erase} --dry-run"));
    assert_fields(&counted, json!({"dry_run": true, "done": true}));
    assert_eq!(counted["found"]["tag"], 2, "{counted}");

    let before = under_way(&person).await;
    let both = format!("{erase} --ref {REF} --yes");
    let said = stack.redial(&both).succeeds();
    assert!(said.contains(" erased, of "), "{said}");
    let webhook = stack.json("subscriptions erase --tenant acme --subscription canary-h --yes");
    assert_eq!(webhook["done"], true, "{webhook}");

    nothing_is_left_or_comes_back(&person, before, 2).await;
    let left = stack.json(format!("{erase} --dry-run"));
    let found = left["found"].as_object().expect("counts");
    assert!(
        found.keys().all(|kind| ["tombstone", "recipient", "held_endpoint"].contains(&kind.as_str())),
        "{left}"
    );
    // Twice is no error.
    stack.redial(&both).succeeds();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_over_the_api_leaves_nothing_of_a_person() {
    let person = stored().await;
    let stack = &person.stack;
    sent(&person).await;
    for (table, found) in person.held().await {
        assert!(!found.is_empty(), "nothing was stored in {table}: the test shows nothing of it");
    }
    let (own, other) = (stack.api_key("acme").await, stack.api_key("other").await);
    let ask = async |method, path: &str, key: &str, body: &Value| {
        let (status, text) = stack.call(method, path, key, &body.to_string()).await;
        (status, parsed(&text))
    };
    let both = json!({"subscription": "canary-s", "ref": REF});
    let hook = json!({"subscription": "canary-h"});

    // Another tenant's request is about its own.
    let (status, foreign) = ask(Method::POST, "/v1/erasures", &other, &both).await;
    assert_eq!((status, foreign["state"].as_str()), (202, Some("waiting")), "{foreign}");
    let subscription = "/v1/subscriptions/canary-s";
    assert_eq!(ask(Method::GET, subscription, &own, &Value::Null).await.0, 200);

    let before = under_way(&person).await;
    let (status, erasure) = ask(Method::POST, "/v1/erasures", &own, &both).await;
    assert_eq!((status, erasure["state"].as_str()), (202, Some("waiting")), "{erasure}");
    let requested = [(&other, foreign), (&own, erasure)];
    assert_eq!(
        ask(Method::GET, subscription, &own, &Value::Null).await.0,
        410,
        "it is marked when it is answered"
    );
    for (key, erasure) in &requested {
        let path = format!("/v1/erasures/{}", erasure["id"].as_str().expect("an id"));
        let done = stack
            .until("the erasure is done", async || {
                stack.sweep("erasures").await;
                let (_, erasure) = ask(Method::GET, &path, key, &Value::Null).await;
                (erasure["state"] == "done").then_some(erasure)
            })
            .await;
        let found = done["found"].as_object().expect("counts");
        let expected = usize::from(*key != &other);
        assert!(done.get("read").is_none() && found.len() >= expected, "{done}");
        assert!(*key != &other || found.keys().all(|kind| kind == "tombstone"), "{done}");
        // Not with another tenant's key.
        let stranger = if *key == &own { &other } else { &own };
        assert_eq!(ask(Method::GET, &path, stranger, &Value::Null).await.0, 404);
    }
    // A webhook is the operator's to erase.
    assert_eq!(ask(Method::POST, "/v1/erasures", &own, &hook).await.0, 409);
    let webhook = stack.json("subscriptions erase --tenant acme --subscription canary-h --yes");
    assert_eq!(webhook["done"], true, "{webhook}");
    // One is the other tenant's.
    nothing_is_left_or_comes_back(&person, before, 3).await;
    // Twice is no error.
    assert_eq!(ask(Method::POST, "/v1/erasures", &own, &both).await.0, 202);
}
