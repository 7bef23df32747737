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

/// Stores a browser under this id, with a tag and a consent that no other tenant has.
async fn store(stack: &TestStack, name: &str, key: &str, id: &str, browser: &Subscriber) {
    let mut subscription = with_fields(document(browser), &json!({"tags": [tag_of(name)]}));
    subscription["consent"]["prompt_version"] = format!("prompt-of-{name}").into();
    let path = format!("/v1/subscriptions/{id}");
    let put = stack.call(Method::PUT, &path, key, &subscription.to_string()).await;
    assert_eq!(put.0, 201, "{}", put.1);
}

fn tag_of(name: &str) -> String {
    format!("of-{name}")
}

/// Sends a message with the tenant's tag, and waits until it was sent.
async fn send(stack: &TestStack, name: &str, key: &str, id: &str, to: &str) {
    let message = json!({
        "id": id, "to": {"subscription": to}, "payload": PAYLOAD, "ref": REF, "acks": true, "tags": [tag_of(name)],
    });
    let sent = stack.call(Method::POST, "/v1/messages", key, &message.to_string()).await;
    assert_eq!(sent.0, 202, "{}", sent.1);
    stack.until_state_of(name, id, "sent").await;
}

async fn furnished(stack: &TestStack, name: &str) -> Tenant {
    let (key, browser) = (stack.api_key(name).await, stack.browser());
    store(stack, name, &key, "s1", &browser).await;
    let wish = json!({"subscription": "s1"}).to_string();
    let made = stack.call(Method::POST, "/v1/subscription-tokens", &key, &wish).await;
    let token = parsed(&made.1)["token"].as_str().expect("a token").to_owned();
    send(stack, name, &key, "m1", "s1").await;
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

/// The texts in the answers to a tenant about its own data, without those that are so short that they could be anywhere.
async fn read_by_its_own(stack: &TestStack, key: &str, paths: &[&str]) -> BTreeSet<String> {
    fn texts(value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::String(text) if text.len() >= 8 => into.extend([text.clone()]),
            Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
            Value::Object(fields) => fields.values().for_each(|field| texts(field, into)),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut all = BTreeSet::new();
    for path in paths {
        let (status, answer) = stack.call(Method::GET, path, key, "").await;
        assert_eq!(status, 200, "{path}: {answer}");
        texts(&parsed(&answer), &mut all);
    }
    all
}

/// Whether a request was refused, or cancelled a message of which the API knows nothing. Not 409 or 410, which say that something is there,
/// and not 429, which says nothing about this request.
fn is_refused(status: u16, answer: &str) -> bool {
    match status {
        401 | 403 | 404 | 405 | 422 => true,
        200 => parsed(answer)["known"] == false,
        207 => {
            let items = parsed(answer)["items"].as_array().cloned().unwrap_or_default();
            !items.is_empty() && items.iter().all(|item| item["status"] == 401 || item["status"] == 422)
        }
        _ => false,
    }
}

#[tokio::test]
async fn no_key_reads_or_changes_what_is_another_tenants() {
    let stack = TestStack::shared().await;
    let acme = furnished(&stack, &stack.tenant).await;
    let mallory = furnished(&stack, &format!("{}-mallory", stack.tenant)).await;
    let name = &acme.name;
    // Mallory has neither of these ids.
    store(&stack, name, &acme.key, "s2", &stack.browser()).await;
    send(&stack, name, &acme.key, "m2", "s2").await;
    let before = stored(&stack, name).await;
    assert!(before.len() >= 4, "two deliveries and two subscriptions");
    let both = ["/v1/messages/m1", "/v1/subscriptions/s1"];
    let of_acme = [&both[..], &["/v1/messages/m2", "/v1/subscriptions/s2"]].concat();
    let (all, of_both) = (
        read_by_its_own(&stack, &acme.key, &of_acme).await,
        read_by_its_own(&stack, &mallory.key, &both).await,
    );
    // What only acme's answers have: hashes of endpoints, tags, the consent's prompt, and times.
    let mut marks: BTreeSet<String> = all.difference(&of_both).cloned().collect();
    let description = |path| stack.call(Method::GET, path, &acme.key, "");
    let subscription = parsed(&description("/v1/subscriptions/s1").await.1);
    let message = parsed(&description("/v1/messages/m1").await.1);
    for mark in [
        &subscription["endpoint_hash"],
        &subscription["tags"][0],
        &subscription["consent"]["prompt_version"],
        &subscription["created_at"],
        &message["created_at"],
        &message["tags"][0],
    ] {
        let is_marked = mark.as_str().is_some_and(|mark| marks.contains(mark));
        assert!(is_marked, "{mark} is acme's alone: {marks:?}");
    }
    marks.extend(acme.endpoint.rsplit('/').next().map(str::to_owned));
    // Mallory's own tag and prompt begin as acme's.
    let mine = [tag_of(&mallory.name), format!("prompt-of-{}", mallory.name)];
    let shown = |answer: &str| {
        let answer = mine.iter().fold(answer.to_owned(), |answer, of_mallory| answer.replace(of_mallory, ""));
        marks.iter().find(|mark| answer.contains(*mark)).cloned()
    };

    // Each with whether it is the caller's own, whose tenant has the same id.
    let ids = ["m1", "s1", "m2", "s2"].into_iter().flat_map(|id| {
        let has_it = id.ends_with('1');
        [
            (id.to_owned(), has_it),
            (format!("{id}?tenant={name}"), has_it),
            // A path comes to a function decoded.
            (format!("{id}%3Ftenant%3D{name}"), has_it),
            // The client sends it without the detour.
            (format!("{id}/../{id}"), has_it),
            (format!("{name}%23{id}"), false),
            (format!("..%2F{name}%2F{id}"), false),
            (format!("{id}%00"), false),
            (format!("{name}/{id}"), false),
        ]
    });
    let ids: Vec<(String, bool)> = ids.collect();
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
    let credentials = [&mallory.key, &mallory.token, &mallory.ack];
    // DELETE comes last: from then on the API knows of mallory's own cancellations.
    for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE] {
        for (credential, (id, has_it)) in credentials.iter().flat_map(|it| ids.iter().map(move |id| (it, id)))
        {
            for collection in ["messages", "subscriptions", "erasures"] {
                let is_own = *has_it && collection.starts_with(&id[..1]);
                // Its own ones it may delete.
                if method == Method::DELETE && collection == "subscriptions" && is_own {
                    continue;
                }
                let path = format!("/v1/{collection}/{id}");
                let (status, answer) = stack.call(method.clone(), &path, credential, "{}").await;
                tried += 1;
                assert_eq!(shown(&answer), None, "{method} {path}: {answer}");
                assert!(is_own || is_refused(status, &answer), "{method} {path}: {status} {answer}");
            }
        }
    }
    for credential in credentials {
        for body in &bodies {
            for path in
                ["/v1/messages", "/v1/subscription-tokens", "/v1/acks", "/v1/subscriptions", "/v1/erasures"]
            {
                let (status, answer) = stack.call(Method::POST, path, credential, &body.to_string()).await;
                tried += 1;
                assert_eq!(shown(&answer), None, "{path}: {answer}");
                assert!(is_refused(status, &answer), "{path} {body}: {status} {answer}");
            }
        }
        for state in ["retrying", "failed", "cancelled"] {
            let path = format!("/v1/messages?state={state}&tenant={name}");
            let (status, answer) = stack.call(Method::GET, &path, credential, "").await;
            tried += 1;
            assert_eq!(shown(&answer), None, "{path}: {answer}");
            let is_reader = *credential == mallory.key;
            assert!(is_reader == (status == 200), "{path}: {status} {answer}");
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
