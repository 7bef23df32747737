//! What must never be written is not: payloads, endpoints, keys, tokens and the producer's `ref`, on any road, in any log, dead
//! letter, execution, metric or table, in any of the disguises that [`redial_tests::canary`] knows.
//!
//! The bodies in `dead_letters` and `parked` are the messages themselves, by design: these attributes alone are left out.

mod malformed;
mod webhooks;
mod written;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redial_core::recipient::Recipient;
use redial_testkit::proxy::{AwsService, Call, Fault};
use redial_testkit::runtime_api::sqs_event;
use redial_tests::canary::{Canary, leaks};
use redial_tests::cloud_logs::{self, Line};
use redial_tests::hosted::{Function, Which};
use redial_tests::prelude::*;
use redial_tests::resources::Resources;

use malformed::malformed;
use written::{as_text, log_groups, references, written};

/// Not a word that could be there by chance, and with characters that each encoding writes otherwise.
const PAYLOAD: &str = "cänary?payload/+7Qm4xW";
const REF: &str = "canary ref/+k81Zp0e";
/// Where a message says something that is wrong, or too much.
const WRONG: &str = "canary-wrong-v4J9s2Lr";
/// A private key, as good as any other.
const VAPID_KEY: [u8; 32] = *b"canary vapid private key 0123456";

/// A place where something was written, and what.
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
            options.vapid_private_key = Some(key.clone());
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
    async fn send(
        &mut self,
        id: &str,
        state: &str,
        usual: Option<Answer>,
        script: Vec<Answer>,
        more: &Value,
    ) {
        let browser = self.browser(id);
        self.stack.push.script(&browser.endpoint, script);
        if let Some(usual) = usual {
            self.stack.push.always(&browser.endpoint, usual);
        }
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
async fn no_secret_is_written_on_any_road() {
    let mut run = Run::start().await;
    let queue = run.stack.description().queues.dead_letter.clone();
    run.stack.set_mappings(Some(&queue), false).await;
    take_every_road(&mut run).await;
    webhooks::take_every_road(&mut run).await;
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

    // The same search finds each canary when it is there: in one stream of the function's log.
    let group = log_groups(&run.stack).await.swap_remove(0);
    let endpoint = &run.stack.description().endpoint;
    let lines = cloud_logs::lines(endpoint, &group).await;
    let line = |text: String| Line { stream: lines[0].stream.clone(), text };
    for leak in [PAYLOAD, REF, &URL_SAFE_NO_PAD.encode(VAPID_KEY)] {
        let line = line(json!({"event": "attempt", "detail": leak}).to_string());
        cloud_logs::write(endpoint, &group, &line, System.now().as_ms()).await;
    }
    let found = leaks(&run.canaries, &written(&run.stack).await);
    for name in ["the payload", "the ref", "the VAPID key"] {
        assert!(found.iter().any(|leak| leak.starts_with(name)), "{name} is not found: {found:?}");
    }
}

/// Messages for all roads, with canaries in whatever they hold.
async fn take_every_road(run: &mut Run) {
    let none = json!({});
    let a_retry = json!({"retry": {"max_retries": 1, "base_delay_ms": 100, "jitter": "none"}});
    let acks = json!({"acks": true});
    run.send("sent", "sent", None, vec![], &acks).await;
    run.send("scheduled-topic", "sent", None, vec![], &json!({"topic": "news", "urgency": "high"})).await;
    run.send("retried", "sent", None, vec![quoting(503)], &acks).await;
    run.send("in-doubt", "sent", None, vec![Answer::reset()], &none).await;
    run.send("rejected", "failed", Some(quoting(400)), vec![], &acks).await;
    run.send("forbidden", "failed", Some(quoting(403)), vec![], &none).await;
    run.send("too-large", "failed", Some(quoting(413)), vec![], &none).await;
    run.send("redirected", "failed", Some(quoting(307)), vec![], &none).await;
    run.send("unauthorized", "failed", Some(quoting(401)), vec![], &none).await;
    run.send("not-found", "gone", Some(quoting(404)), vec![], &none).await;
    run.send("exhausted", "failed", Some(quoting(500)), vec![], &a_retry).await;
    run.send("not-retried", "failed_no_retries", Some(quoting(503)), vec![], &json!({"retry": "none"})).await;
    let too_late = quoting(429).with_header("retry-after", "600");
    run.send("too-late", "failed", Some(too_late), vec![], &json!({"ttl": 60})).await;
    let long = format!("{PAYLOAD}{}", "x".repeat(3_993));
    run.send("too-long", "failed", None, vec![], &json!({"payload": long})).await;

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
    let table = run.stack.description().tables.parked.clone();
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
    let logged = [("RUST_LOG", "debug")];
    let limit = Duration::from_secs(30);
    let dispatch = Function::start(&run.stack, Which::Dispatch, &resources, &logged, limit).await;
    dispatch.ready().await;
    let browser = run.browser("the one whose worker fails");
    let quote = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#ValidationException",
        "message": format!("{WRONG} {PAYLOAD} {}", browser.endpoint),
    });
    let operations = ["BatchExecuteStatement", "BatchExecuteStatement", "BatchWriteItem", "SendMessageBatch"];
    for (at, operation) in operations.into_iter().enumerate() {
        dispatch.proxy.reset();
        let answer = [None, None, Some(400), Some(503)][at];
        if let Some(status) = answer {
            run.stack.push.script(&browser.endpoint, [Answer::status(status)]);
        }
        // The claim in the first round, the record in the second, the hand-offs in the others.
        let nth = [1, 2, 1, 1][at];
        let count = std::sync::atomic::AtomicUsize::new(0);
        let fits = move |call: &Call| {
            call.operation == operation && count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 == nth
        };
        dispatch.proxy.once(fits, Fault::Status(400, quote.to_string()));
        let acks = json!({"acks": true});
        let body = message(&format!("failing-{at}"), &json!({"web_push": browser.json()}), &acks);
        let record = resources.record(&format!("failing-{at}"), body.to_string());
        let answer = dispatch.invoke(sqs_event([record])).await.expect("it answers");
        assert_eq!(
            answer["batchItemFailures"][0]["itemIdentifier"],
            format!("sqs-failing-{at}"),
            "{operation}"
        );
        assert!(!dispatch.proxy.has_unused_faults(), "{operation} was called");
        assert!(dispatch.proxy.count(&AwsService::DynamoDb, "BatchExecuteStatement") > 0);
    }
    let lines: Vec<Place> =
        dispatch.logs().into_iter().map(|line| ("a failing worker's log".to_owned(), line.text)).collect();
    assert!(lines.iter().filter(|(_, text)| text.contains("infrastructure")).count() >= 4, "{lines:?}");
    lines
}
