//! Forged credentials, foreign data and random requests, against the HTTP API of a stack.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use redial_tests::canary::{Canary, leaks};
use redial_tests::{prelude::*, test_stack::document};
use reqwest::Method;

const PAYLOAD: &str = "canary-payload-8Wq2Zr";
const REF: &str = "canary-ref-5Tn9Lk";

/// A tenant with a subscription `s1` and a message `m1`, which was sent to it.
struct Tenant {
    name: String,
    key: String,
    /// Of the subscription.
    token: String,
    /// Of the message.
    ack: String,
    endpoint: String,
}

async fn furnished(stack: &TestStack, name: &str) -> Tenant {
    let (key, browser) = (stack.api_key(name).await, stack.browser());
    let put = stack.call(Method::PUT, "/v1/subscriptions/s1", &key, &document(&browser).to_string()).await;
    assert_eq!(put.0, 201, "{}", put.1);
    let wish = json!({"subscription": "s1"}).to_string();
    let made = stack.call(Method::POST, "/v1/subscription-tokens", &key, &wish).await;
    let token = parsed(&made.1)["token"].as_str().expect("a token").to_owned();
    let message =
        json!({"id": "m1", "to": {"subscription": "s1"}, "payload": PAYLOAD, "ref": REF, "acks": true});
    let sent = stack.call(Method::POST, "/v1/messages", &key, &message.to_string()).await;
    assert_eq!(sent.0, 202, "{}", sent.1);
    stack.until_state_of(name, "m1", "sent").await;
    let received = stack.received(&browser, 1).await;
    let envelope = parsed(received[0].text().expect("it is decrypted"));
    let ack = envelope["ack"].as_str().expect("a token").to_owned();
    Tenant { name: name.to_owned(), key, token, ack, endpoint: browser.endpoint }
}

/// What an attacker makes of a credential, and of another of its kind: a character changed, some left out or added, parts exchanged.
fn forgeries(genuine: &str, other: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for at in 0..genuine.len() {
        let (before, after) = genuine.split_at(at);
        let next = match after.as_bytes()[0] {
            b'z' | b'Z' | b'9' => 'A',
            b'.' => '_',
            b'_' | b'-' => '.',
            other => char::from(other + 1),
        };
        all.insert(format!("{before}{next}{}", &after[1..]));
        all.insert(before.to_owned());
        all.insert(format!("{before}{}", &after[1..]));
    }
    all.extend(["A", ".", "=", "%00"].map(|more| format!("{genuine}{more}")));
    let (own, others): (Vec<_>, Vec<_>) = (genuine.split('.').collect(), other.split('.').collect());
    for at in 0..own.len().min(others.len()) {
        let mut mixed = own.clone();
        mixed[at] = others[at];
        all.insert(mixed.join("."));
    }
    all.remove(genuine);
    all.remove(other);
    // A bearer's header has no text without a credential.
    all.remove("");
    all
}

#[tokio::test]
async fn no_forged_credential_is_believed() {
    let stack = TestStack::shared().await;
    let acme = furnished(&stack, &stack.tenant).await;
    let other = furnished(&stack, &format!("{}-other", stack.tenant)).await;
    let (mut tried, mut believed) = (0, Vec::new());
    for (what, genuine, others) in [("a token", &acme.token, &other.token), ("a key", &acme.key, &other.key)]
    {
        for forged in forgeries(genuine, others) {
            let (status, _) = stack.call(Method::GET, "/v1/subscriptions/s1", &forged, "").await;
            tried += 1;
            if status != 401 {
                believed.push(format!("{what}: {status} for one of {} characters", forged.len()));
            }
        }
        let genuine = stack.call(Method::GET, "/v1/subscriptions/s1", genuine, "").await;
        assert_eq!(genuine.0, 200, "{what} that is genuine: {}", genuine.1);
    }
    let mut forged = forgeries(&acme.ack, &other.ack);
    forged.extend([acme.token.clone(), acme.key.clone()]);
    for some in forged.iter().collect::<Vec<_>>().chunks(20) {
        let body = Value::from_iter(some.iter().map(|token| json!({"token": token, "event": "clicked"})));
        let (_, answer) = stack.call(Method::POST, "/v1/acks", "none", &body.to_string()).await;
        for item in parsed(&answer)["items"].as_array().expect("an item each") {
            tried += 1;
            if item["status"] != 401 {
                believed.push(format!("an acknowledgement: {item}"));
            }
        }
    }
    assert!(believed.is_empty(), "{believed:#?}");
    let known = parsed(&stack.call(Method::GET, "/v1/messages/m1", &acme.key, "").await.1);
    assert_eq!(known["clicked_at"], Value::Null);
    println!("tried: {tried} forged tokens and keys");
}

/// Everything that is stored of a tenant.
async fn stored(stack: &TestStack, tenant: &str) -> Vec<String> {
    let tables = stack.tables();
    let mut all = Vec::new();
    for table in [&tables.deliveries, &tables.subscriptions, &tables.audiences, &tables.dead_letters] {
        for item in stack.scan(table).await {
            if text(&item, "tenant") == Some(tenant) || format!("{item:?}").contains(&format!("\"{tenant}#"))
            {
                let sorted: std::collections::BTreeMap<_, _> = item.into_iter().collect();
                all.push(format!("{sorted:?}"));
            }
        }
    }
    all.sort();
    all
}

#[tokio::test]
async fn no_key_reads_or_changes_what_is_another_tenants() {
    let stack = TestStack::shared().await;
    let acme = furnished(&stack, &stack.tenant).await;
    let mallory = furnished(&stack, &format!("{}-mallory", stack.tenant)).await;
    let before = stored(&stack, &acme.name).await;
    assert!(before.len() >= 2, "a delivery and a subscription");
    let endpoint = acme.endpoint.rsplit('/').next().expect("it has a path");
    let name = &acme.name;
    let ids = ["m1", "s1"].into_iter().flat_map(|id| {
        [
            id.to_owned(),
            format!("{name}%23{id}"),
            format!("..%2F{name}%2F{id}"),
            format!("{id}%00"),
            format!("{id}?tenant={name}"),
            format!("{id}%3Ftenant%3D{name}"),
            format!("{id}/../{id}"),
            format!("{name}/{id}"),
        ]
    });
    let ids: Vec<String> = ids.collect();
    let bodies = [
        json!({"tenant": name, "id": "m1", "to": {"subscription": "s1"}, "payload": "of mallory"}),
        json!({"id": format!("{name}#m1"), "to": {"subscription": format!("{name}#s1")}, "payload": "x"}),
        json!({"id": "m9", "to": {"subscription": {"tenant": name, "id": "s1"}}, "payload": "x"}),
        json!({"tenant": name, "subscription": "s1", "tags": ["news"]}),
        json!({"tenant": name, "subscription": "s1", "ref": REF}),
        json!({"subscription": format!("{name}#s1")}),
        json!({"token": acme.ack.replace(name, &mallory.name), "event": "displayed"}),
        json!([{"tenant": name, "id": "m1", "to": {"audience": {"tag": "news"}}}]),
    ];
    let mut tried = 0;
    for credential in [&mallory.key, &mallory.token, &mallory.ack] {
        for id in &ids {
            for method in [Method::GET, Method::PUT, Method::DELETE, Method::POST] {
                for collection in ["messages", "subscriptions", "erasures"] {
                    // Its own ones it may delete.
                    if method == Method::DELETE && collection == "subscriptions" && id == "s1" {
                        continue;
                    }
                    let path = format!("/v1/{collection}/{id}");
                    let (_, answer) = stack.call(method.clone(), &path, credential, "{}").await;
                    tried += 1;
                    assert!(!answer.contains(endpoint), "{method} {path}: {answer}");
                }
            }
        }
        for body in &bodies {
            for path in
                ["/v1/messages", "/v1/subscription-tokens", "/v1/acks", "/v1/subscriptions", "/v1/erasures"]
            {
                let (_, answer) = stack.call(Method::POST, path, credential, &body.to_string()).await;
                tried += 1;
                assert!(!answer.contains(endpoint), "{path}: {answer}");
            }
        }
    }
    // The same id and the same `ref`, of its own.
    let person = json!({"subscription": "s1", "ref": REF}).to_string();
    let (status, erasure) = stack.call(Method::POST, "/v1/erasures", &mallory.key, &person).await;
    assert_eq!(status, 202, "{erasure}");
    let path = format!("/v1/erasures/{}", parsed(&erasure)["id"].as_str().expect("an id"));
    assert_eq!(stack.call(Method::GET, &path, &acme.key, "").await.0, 404);
    assert_eq!(stack.call(Method::GET, "/v1/subscriptions/s1", &mallory.key, "").await.0, 410);
    assert_eq!(stored(&stack, &acme.name).await, before);
    println!("tried: {tried} requests for another tenant's data");
}

/// A text for a place in a request: canaries, what parsers stumble over, and nothing.
fn odd(rng: &mut StdRng) -> String {
    let texts =
        [PAYLOAD, REF, "", "null", "{", "\"", "%", "%00", "%ff", "..", "\u{202e}", "é", "[]", "-1", "1e999"];
    let some = rng.random_range(1..4);
    (0..some).map(|_| *texts.choose(rng).expect("there are some")).collect::<String>()
}

#[tokio::test]
async fn no_random_request_fails_the_function_or_is_logged() {
    const REQUESTS: usize = 600;
    let stack = TestStack::shared().await;
    let acme = furnished(&stack, &stack.tenant).await;
    let mut rng = StdRng::seed_from_u64(7);
    let paths = [
        "/v1/messages",
        "/v1/messages/",
        "/v1/subscriptions",
        "/v1/subscriptions/",
        "/v1/subscription-tokens",
        "/v1/erasures",
        "/v1/acks",
        "/v1/keys",
        "/v1/health",
        "/v1/",
        "/",
    ];
    let fields = [
        "id", "to", "payload", "ttl", "tags", "token", "event", "endpoint", "keys", "retry", "tenant", "ref",
    ];
    for n in 0..REQUESTS {
        let path = paths.choose(&mut rng).expect("there are some");
        let path = match rng.random_range(0..3) {
            0 => (*path).to_owned(),
            1 => format!("{path}{}", odd(&mut rng)),
            _ => format!("{path}?{}={}", odd(&mut rng), odd(&mut rng)),
        };
        let field = |rng: &mut StdRng| format!("{}: {}", json!(fields.choose(rng)), json!(odd(rng)));
        let body = match rng.random_range(0..3) {
            0 => odd(&mut rng),
            1 => format!("{{{}, {}}}", field(&mut rng), field(&mut rng)),
            _ => format!("[{{{}}}]", field(&mut rng)),
        };
        let methods = [Method::GET, Method::PUT, Method::DELETE, Method::POST, Method::PATCH];
        let method = methods.choose(&mut rng).expect("there are some").clone();
        let credential = match rng.random_range(0..3) {
            0 => acme.key.clone(),
            1 => acme.token.clone(),
            _ => format!("{PAYLOAD}{n}"),
        };
        let (status, answer) = stack.call(method.clone(), &path, &credential, &body).await;
        assert!(status < 500, "{method} {path} {body}: {status} {answer}");
    }
    let canaries = [
        Canary::text("the payload", PAYLOAD),
        Canary::text("the ref", REF),
        Canary::text("the key", &acme.key),
        Canary::text("the token", &acme.token),
    ];
    let lines = stack.log_lines(&stack.description().functions.ingest).await;
    assert!(lines.len() >= REQUESTS / 2, "{} lines are too few", lines.len());
    let places: Vec<_> = lines.into_iter().map(|line| ("the log of ingest".to_owned(), line)).collect();
    let found = leaks(&canaries, &places);
    assert!(found.is_empty(), "{} leaks:\n{}", found.len(), found.join("\n"));
    println!("tried: {REQUESTS} random requests, {} canaries in {} lines", canaries.len(), places.len());
}
