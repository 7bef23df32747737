//! What must never be written is not: payloads, endpoints, keys, tokens and the producer's `ref`, however a delivery ends, in any log,
//! dead letter, execution, metric or table, in any of the encodings that [`redial_tests::canary`] searches for.
//!
//! The bodies in `dead_letters` and `parked` are the messages themselves, by design: these attributes alone are left out.

mod http_api;
mod webhooks;

use aws_sdk_dynamodb::types::AttributeValue;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use redial_adapters::secrets::Secret;
use redial_core::recipient::Recipient;
use redial_testkit::{
    proxy::{AwsService, Call, Fault},
    runtime_api::sqs_event,
};
use redial_tests::{
    canary::{Canary, leaks},
    hosted::Function,
    prelude::*,
    resources::Resources,
};

/// Not a word that could be there by chance, and with characters that each encoding writes otherwise.
const PAYLOAD: &str = "cänary?payload/+7Qm4xW";
const REF: &str = "canary ref/+k81Zp0e";
/// Where a message says something that is wrong, or too much.
const WRONG: &str = "canary-wrong-v4J9s2Lr";
/// A private key, as good as any other.
const VAPID_KEY: [u8; 32] = *b"canary vapid private key 0123456";

type Place = (String, String);

/// What is on its way, and what must not be seen of it.
struct Run {
    stack: TestStack,
    canaries: Vec<Canary>,
}

impl Run {
    async fn start() -> Self {
        let key = URL_SAFE_NO_PAD.encode(VAPID_KEY);
        let stack = TestStack::up_with(|options| {
            options.vapid_private_key = Some(Secret::new(key.clone()));
            options.env.insert("RUST_LOG".to_owned(), "debug".to_owned());
        })
        .await;
        let canaries = vec![
            Canary::text("the payload", PAYLOAD),
            Canary::text("the ref", REF),
            Canary::text("a wrong value", WRONG),
            Canary::text("the VAPID key", &key),
            Canary::bytes("the VAPID key's bytes", &VAPID_KEY),
        ];
        Self { stack, canaries }
    }

    /// A browser, whose endpoint and keys are canaries from now on.
    fn browser(&mut self, of: &str) -> Subscriber {
        let browser = self.stack.browser();
        let token = browser.endpoint.rsplit('/').next().expect("an endpoint has a path");
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64url");
        self.canaries.extend([
            Canary::text(format!("the endpoint of {of}"), token),
            Canary::text(format!("p256dh of {of}"), &browser.p256dh),
            Canary::bytes(format!("p256dh of {of}, its bytes"), &bytes(&browser.p256dh)),
            Canary::text(format!("auth of {of}"), &browser.auth),
            Canary::bytes(format!("auth of {of}, its bytes"), &bytes(&browser.auth)),
        ]);
        browser
    }

    /// The tokens that were sent are canaries, too.
    fn add_tokens(&mut self) {
        for received in self.stack.push.received_by_all() {
            let header = received.header("authorization").expect("every push is signed");
            let token = header.split("t=").nth(1).and_then(|rest| rest.split(',').next()).expect("a token");
            let signature = token.rsplit('.').next().expect("a token has three parts");
            self.canaries.push(Canary::text("a token", token));
            self.canaries.push(Canary::text("a token's signature", signature));
            let envelope: Option<Value> = received.text().and_then(|text| serde_json::from_str(text).ok());
            if let Some(token) = envelope.as_ref().and_then(|it| it["ack"].as_str()) {
                self.canaries.push(Canary::text("an acknowledgement's token", token));
            }
        }
        for received in self.stack.webhooks.all_requests() {
            let header = received.header("webhook-signature").expect("every webhook is signed");
            let signature = header.strip_prefix("v1,").expect("there is one secret");
            self.canaries.push(Canary::text("a webhook's signature", signature));
        }
    }

    /// Sends a message whose push is answered so, and waits until it is in that state.
    async fn send(&mut self, id: &str, state: &str, script: Vec<Answer>, more: &Value) {
        let browser = self.browser(id);
        self.stack.push.script(&browser.endpoint, script);
        self.stack.send(&message(id, &json!({"web_push": browser.json()}), more)).await;
        self.stack.until_state(id, state).await;
    }
}

/// A message with canaries in it, and with more fields or others.
fn message(id: &str, to: &Value, more: &Value) -> Value {
    with_fields(json!({"tenant": "acme", "id": id, "to": to, "payload": PAYLOAD, "ref": REF}), more)
}

/// What a service might say that quotes what it was sent.
fn quoting(status: u16) -> Answer {
    let quote = json!({"reason": WRONG, "message": PAYLOAD, "error": REF, "errno": WRONG});
    Answer::status(status)
        .with_body(quote.to_string())
        .with_header("content-type", "application/json")
        .with_header("retry-after", WRONG)
        .with_header("ttl", WRONG)
        .with_header("apns-id", WRONG)
        .with_header("x-wns-status", WRONG)
        .with_header("x-wns-notificationstatus", WRONG)
        .with_header("x-wns-error-description", REF)
        .with_header("location", &format!("https://push.example/{WRONG}"))
}

#[tokio::test]
async fn no_secret_is_written_however_a_delivery_ends() {
    let mut run = Run::start().await;
    let queue = run.stack.queues().dead_letter.clone();
    run.stack.set_mappings(Some(&queue), false).await;
    send_all_kinds(&mut run).await;
    webhooks::send_all_kinds(&mut run).await;
    let api_key = http_api::send_all_kinds(&mut run).await;
    let mut places = waiting(&mut run).await;
    let references = references(&run.stack).await;
    assert!(references.len() >= 12, "{} references are too few", references.len());
    places.extend(references);
    run.stack.set_mappings(Some(&queue), true).await;
    run.stack.until_quiet().await;

    places.extend(failing(&mut run).await);
    run.add_tokens();
    let of_acks = run.canaries.iter().filter(|canary| canary.name == "an acknowledgement's token");
    assert!(of_acks.count() >= 8);
    places.extend(written(&run.stack).await);
    let found = leaks(&run.canaries, &places);
    assert!(found.is_empty(), "{} leaks:\n{}", found.len(), found.join("\n"));

    // The same search finds each canary when it is there: in the function's log.
    let leaking = [PAYLOAD, REF, &URL_SAFE_NO_PAD.encode(VAPID_KEY), &api_key]
        .map(|leak| json!({"event": "attempt", "detail": leak}).to_string());
    run.stack.write_log(&leaking.each_ref().map(String::as_str), System.now().as_ms()).await;
    let found = leaks(&run.canaries, &written(&run.stack).await);
    for name in ["the payload", "the ref", "the VAPID key", "the API key"] {
        assert!(found.iter().any(|leak| leak.starts_with(name)), "{name} is not found: {found:?}");
    }
}

/// A message for every way in which a delivery ends, with canaries in whatever it holds.
async fn send_all_kinds(run: &mut Run) {
    let none = json!({});
    let a_retry = json!({"retry": {"max_retries": 1, "base_delay_ms": 100, "jitter": "none"}});
    let acks = json!({"acks": true});
    let too_late = quoting(429).with_header("retry-after", "600");
    let long = json!({"payload": format!("{PAYLOAD}{}", "x".repeat(3_993))});
    for (id, state, script, more) in [
        ("sent", "sent", vec![], &acks),
        ("scheduled-topic", "sent", vec![], &json!({"topic": "news", "urgency": "high"})),
        ("retried", "sent", vec![quoting(503)], &acks),
        ("in-doubt", "sent", vec![Answer::reset()], &none),
        ("rejected", "failed", vec![quoting(400)], &acks),
        ("forbidden", "failed", quoting(403).times(5), &none),
        ("too-large", "failed", vec![quoting(413)], &none),
        ("redirected", "failed", vec![quoting(307)], &none),
        ("unauthorized", "failed", quoting(401).times(5), &none),
        ("not-found", "gone", vec![quoting(404)], &none),
        ("exhausted", "failed", vec![quoting(500), quoting(500)], &a_retry),
        ("not-retried", "failed_no_retries", vec![quoting(503)], &json!({"retry": "none"})),
        ("too-late", "failed", vec![too_late], &json!({"ttl": 60})),
        ("too-long", "failed", vec![], &long),
    ] {
        run.send(id, state, script, more).await;
    }

    // A stored subscription that is gone, and an unknown one.
    let browser = run.browser("the gone subscription");
    run.stack.push.always(&browser.endpoint, Answer::fixture(Fixture::MozillaGone));
    run.stack.subscribe("gone", Recipient::WebPush(push_target(&browser))).await;
    for (id, to, state) in [("gone", "gone", "gone"), ("unknown", "unknown", "failed")] {
        run.stack.send(&message(id, &json!({"subscription": to}), &none)).await;
        run.stack.until_state(id, state).await;
    }
    // An endpoint that may not be pushed to; another content under a used id; the same once more.
    let browser = run.browser("the endpoint that is not allowed");
    let mut elsewhere = browser.json();
    elsewhere["endpoint"] = json!(format!("https://push.example/{WRONG}"));
    run.stack.send(&message("elsewhere", &json!({"web_push": elsewhere}), &none)).await;
    run.stack.until_state("elsewhere", "failed").await;
    let here = json!({"web_push": browser.json()});
    run.stack.send(&message("sent", &here, &json!({"payload": format!("{PAYLOAD} other")}))).await;
    run.stack.send(&message("elsewhere", &json!({"web_push": elsewhere}), &none)).await;

    for body in malformed(&here) {
        run.stack.send_body(&body).await;
    }
}

/// A message that waits in an execution; answers what was written of it while it waited.
async fn waiting(run: &mut Run) -> Vec<Place> {
    let browser = run.browser("the one that waits");
    let wait = Answer::status(429).with_header("retry-after", "5");
    run.stack.push.script(&browser.endpoint, [wait]);
    run.stack.send(&message("waiting", &json!({"web_push": browser.json()}), &json!({"acks": true}))).await;
    let table = run.stack.tables().parked.clone();
    let parked = run
        .stack
        .until("it is parked", async || Some(run.stack.scan(&table).await).filter(|it| !it.is_empty()));
    let places = parked.await.iter().map(|item| ("parked".to_owned(), as_text(item, "body"))).collect();
    run.stack.until_state("waiting", "sent").await;
    places
}

/// A worker whose calls to AWS fail with errors that quote what it was asked; answers what it printed.
async fn failing(run: &mut Run) -> Vec<Place> {
    let resources = Resources::copy(&run.stack, "failing").await;
    let dispatch = Function::dispatch(&run.stack, &resources, &[("RUST_LOG", "debug")]).await;
    let browser = run.browser("the one whose worker fails");
    let quote = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#ValidationException",
        "message": format!("{WRONG} {PAYLOAD} {}", browser.endpoint),
    });
    // The claim, the record, and the hand-offs.
    let cases = [
        ("BatchExecuteStatement", "INSERT", 201),
        ("BatchExecuteStatement", "UPDATE", 201),
        ("BatchWriteItem", "", 400),
        ("SendMessageBatch", "", 503),
    ];
    for (at, (operation, statement, status)) in cases.into_iter().enumerate() {
        let id = format!("failing-{at}");
        dispatch.proxy.reset();
        run.stack.push.always(&browser.endpoint, Answer::status(status));
        let fits = move |call: &Call| {
            call.operation == operation && String::from_utf8_lossy(&call.body).contains(statement)
        };
        dispatch.proxy.once(fits, Fault::Status(400, quote.to_string()));
        let body = message(&id, &json!({"web_push": browser.json()}), &json!({"acks": true}));
        let record = resources.record(&id, body.to_string());
        let answer = dispatch.invoke(sqs_event([record])).await.expect("it answers");
        assert_eq!(answer["batchItemFailures"][0]["itemIdentifier"], format!("sqs-{id}"), "{operation}");
        assert!(!dispatch.proxy.has_unused_faults(), "{operation} was called");
        assert!(dispatch.proxy.count(&AwsService::DynamoDb, "BatchExecuteStatement") > 0);
    }
    let lines: Vec<Place> =
        dispatch.logs().into_iter().map(|line| ("a failing worker's log".to_owned(), line.text)).collect();
    assert!(lines.iter().filter(|(_, text)| text.contains("infrastructure")).count() >= 4, "{lines:?}");
    lines
}

async fn written(stack: &TestStack) -> Vec<Place> {
    let mut places = vec![("the emulator's log".to_owned(), stack.stack().log())];
    let mut logs = String::new();
    let functions = &stack.description().functions;
    for function in [&functions.dispatch, &functions.cleanup, &functions.ingest] {
        for line in stack.log_lines(function).await {
            logs = logs + &line + "\n";
            places.push((format!("the log of {function}"), line));
        }
    }
    // The search looks at something.
    for expected in [
        r#""event":"attempt""#,
        r#""event":"dead_letter""#,
        r#""event":"request""#,
        r#""_aws""#,
        r#""verdict":"sent""#,
    ] {
        assert!(logs.contains(expected), "no {expected} in the logs");
    }

    let machine = &stack.description().state_machine;
    let executions = stack.sfn.list_executions().state_machine_arn(machine).send().await;
    let executions = executions.expect("Step Functions answers").executions;
    assert!(!executions.is_empty(), "no message has waited");
    for execution in executions {
        let mut text = stack.history(&execution.execution_arn).await;
        text.push_str(&execution.name);
        places.push(("an execution".to_owned(), text));
    }
    let tables = stack.tables();
    for (table, without) in [(&tables.deliveries, ""), (&tables.control, ""), (&tables.dead_letters, "body")]
    {
        let items = stack.scan(table).await;
        assert!(!items.is_empty(), "{table} is empty");
        places.extend(items.iter().map(|item| (table.clone(), as_text(item, without))));
    }
    places
}

fn as_text(item: &Item, without: &str) -> String {
    let mut whole = String::new();
    for (name, value) in item.iter().filter(|(name, _)| *name != without) {
        let value = match value.as_b() {
            Ok(bytes) => String::from_utf8_lossy(bytes.as_ref()).into_owned(),
            Err(AttributeValue::S(text) | AttributeValue::N(text)) => text.clone(),
            Err(other) => format!("{other:?}"),
        };
        whole.push_str(&format!("{name}={value}\n"));
    }
    whole
}

/// The references in the dead-letter queue. They stay in it, hidden for a time.
async fn references(stack: &TestStack) -> Vec<Place> {
    let queues = stack.queues();
    stack
        .until("dispatch has nothing to do", async || {
            (stack.depth(&queues.ingest).await + stack.depth(&queues.retry).await == 0).then_some(())
        })
        .await;
    let all = stack.depth(&queues.dead_letter).await;
    let received = stack.receive_hiding(&queues.dead_letter, all, 30).await;
    received.into_iter().map(|it| ("a reference".to_owned(), it.body)).collect()
}

/// Bodies that are no messages, each with a canary where the error is, or beside it.
fn malformed(to: &Value) -> Vec<String> {
    let with = |name: &str, value: Value| message("malformed", to, &json!({name: value})).to_string();
    let mut bodies = vec![
        format!("{WRONG} {PAYLOAD}"),
        format!("{{\"tenant\":\"acme\",\"payload\":\"{PAYLOAD}\",\"id\":\"{WRONG}"),
        json!([WRONG, PAYLOAD]).to_string(),
        json!(WRONG).to_string(),
        with("surprise", json!(WRONG)),
        with("surprise", json!({"deeper": {"still": WRONG}})),
    ];
    let fields = "id tenant ttl class urgency topic retry deliver_at v ref idempotency_key";
    for field in fields.split(' ') {
        bodies.push(with(field, json!(format!("{WRONG} no {field} {PAYLOAD}{}", "x".repeat(128)))));
        bodies.push(with(field, json!({ "of": [WRONG, PAYLOAD] })));
    }
    for retry in [json!({"max_retries": WRONG}), json!({"jitter": WRONG}), json!({"retryable": [WRONG]})] {
        bodies.push(with("retry", retry));
    }
    let keys = |p256dh: &str, auth: &str| json!({"p256dh": p256dh, "auth": auth});
    let good = &to["web_push"];
    let (p256dh, auth) =
        (good["keys"]["p256dh"].as_str().expect("text"), good["keys"]["auth"].as_str().expect("text"));
    for bad in [
        json!({"web_push": {"endpoint": format!("ftp://user:{WRONG}@push.example/{PAYLOAD}"), "keys": keys(p256dh, auth)}}),
        json!({"web_push": {"endpoint": WRONG, "keys": keys(p256dh, auth)}}),
        json!({"web_push": {"endpoint": good["endpoint"], "keys": keys(WRONG, auth)}}),
        json!({"web_push": {"endpoint": good["endpoint"], "keys": keys(p256dh, WRONG)}}),
        json!({"web_push": {"endpoint": good["endpoint"], "keys": keys(p256dh, auth), "vapid_key_id": format!("{WRONG} ?")}}),
        json!({"webhook": {"url": format!("https://hooks.example/{WRONG}")}}),
        json!({"subscription": format!("{WRONG} {PAYLOAD}")}),
        json!(WRONG),
    ] {
        bodies.push(with("to", bad));
    }
    bodies.push(with("payload", json!({"base64": WRONG.repeat(2)})));
    bodies
}
