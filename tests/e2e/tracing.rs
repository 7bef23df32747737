//! Traces: the one of a producer goes on through everything that may happen to its message, and a collector gets a span for each attempt.

use aws_sdk_sqs::types::MessageAttributeValue;
use redial_adapters::dead_letters_dynamo::DynamoDeadLetters;
use redial_core::{
    endpoint::Endpoint,
    recipient::Recipient,
    replay::{Permissions, Stored, replay},
    subscription::SameEndpoint,
    webhook::WebhookTarget,
};
use redial_engine::ports::SubscriptionBook as _;
use redial_testkit::{
    otlp_collector::{OtlpCollector, Span},
    webhook_receiver::Answer as Posted,
};
use redial_tests::{prelude::*, test_stack::renewal};
use reqwest::Method;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const PAYLOAD: &str = "a payload that no span has";

fn traceparent() -> String {
    format!("00-{TRACE}-{PARENT}-01")
}

/// As a deployment with `OtlpEndpoint` would.
async fn export_to(stack: &TestStack, collector: &str) {
    stack.change_dispatch(|it| drop(it.insert("OTLP_ENDPOINT".to_owned(), collector.to_owned()))).await;
}

fn of<'a>(spans: &'a [Span], id: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.attributes["messaging.message.id"] == id).collect()
}

/// The spans of a delivery, once there are that many.
async fn until_spans(stack: &TestStack, collector: &OtlpCollector, id: &str, many: usize) -> Vec<Span> {
    stack
        .until("the collector has the spans", async || {
            let spans: Vec<Span> = of(&collector.spans(), id).into_iter().cloned().collect();
            (spans.len() >= many).then_some(spans)
        })
        .await
}

/// The `traceparent` that the receiver at this path got with each attempt.
fn received(stack: &TestStack, path: &str) -> Vec<String> {
    let requests = stack.webhooks.requests(path);
    requests.iter().map(|it| it.header("traceparent").unwrap_or_default().to_owned()).collect()
}

fn parents_of(spans: &[Span]) -> Vec<String> {
    spans.iter().map(|span| format!("00-{TRACE}-{}-01", span.span_id)).collect()
}

#[tokio::test]
async fn one_trace_goes_on_through_retries_waits_replays_and_pages() {
    let collector = OtlpCollector::start().expect("a free port");
    let stack = TestStack::up_with_env([("AUDIENCE_PAGES", "on")]).await;
    export_to(&stack, collector.origin()).await;
    let url = stack.webhooks.url("/orders");
    stack.webhooks.script("/orders", [Posted::status(500), Posted::status(503)]);
    stack.subscribe("w1", Recipient::Webhook(WebhookTarget::at(Endpoint::parse(&url).expect("a URL")))).await;

    // A retry by the queue, and one that is parked: queues delay by two seconds at most here.
    let message = json!({
        "tenant": stack.tenant, "id": "order-1", "to": {"subscription": "w1"}, "payload": PAYLOAD,
        "traceparent": traceparent(), "retry": {"retry_delays": [1, 5], "jitter": "none"},
    });
    stack.send(&message).await;
    stack.until_state("order-1", "sent").await;
    let spans = until_spans(&stack, &collector, "order-1", 3).await;
    for (n, (span, status)) in spans.iter().zip(["500", "503", "200"]).enumerate() {
        assert_eq!((span.trace_id.as_str(), span.parent_span_id.as_str()), (TRACE, PARENT));
        assert_eq!((span.name.as_str(), span.is_error), ("attempt webhook", n < 2));
        assert_eq!(span.attributes["http.response.status_code"], status);
        assert_eq!(span.attributes["redial.attempt"], n.to_string());
        assert_eq!(span.resource["service.name"], "redial");
        assert!(span.start_ns <= span.end_ns);
        let text = format!("{span:?}");
        assert!(!text.contains(PAYLOAD) && !text.contains(&url), "{text}");
    }
    assert_eq!(received(&stack, "/orders"), parents_of(&spans));
    stack.until_logged(&json!({"event": "attempt", "correlation_id": "order-1", "trace_id": TRACE})).await;

    replayed(&stack, &collector).await;
    by_the_page(&stack, &collector).await;
    of_attribute_and_header(&stack, &collector).await;
}

/// A dead letter that is sent again, as `redial dead-letters replay` does it.
async fn replayed(stack: &TestStack, collector: &OtlpCollector) {
    stack.webhooks.script("/failing", [Posted::status(500)]);
    let message = json!({
        "tenant": stack.tenant, "id": "order-2", "to": {"webhook": {"url": stack.webhooks.url("/failing")}},
        "payload": PAYLOAD, "traceparent": traceparent(), "retry": {"max_retries": 0},
    });
    stack.send(&message).await;
    stack.until_state("order-2", "failed").await;
    let cleanup = &stack.description().functions.cleanup;
    stack
        .until("the dead letter is logged with its trace", async || {
            let lines = stack.log_lines(cleanup).await;
            lines.iter().any(|line| line.contains("dead_letter") && line.contains(TRACE)).then_some(())
        })
        .await;
    let store = DynamoDeadLetters::new(stack.dynamodb.clone(), stack.tables().dead_letters.clone());
    let letters = store.dead_letters_of(&stack.tenant, "order-2").await.expect("the table answers");
    let [letter] = letters.as_slice() else { panic!("{letters:?}") };
    let (described, now) = (letter.described.as_ref().expect("described"), System.now());
    let body = store.stored_body(&letter.key).await.expect("the table answers").expect("it has a body");
    let (lane, absent_from) = (letter.lane, body.absent_from);
    let stored = Stored { body: &body.body, lane, absent_from, kept_until: now.plus(PATIENCE) };
    let replayed = replay(&described.reference, Some(stored), Permissions::default(), now);
    let body = replayed.map(|replay| replay.body).unwrap_or_else(|skip| panic!("{skip:?}"));
    stack.send_to(&stack.queues().retry, &parsed(&body)).await;
    stack.until_state("order-2", "sent").await;
    let spans = until_spans(stack, collector, "order-2", 2).await;
    assert!(spans.iter().all(|span| span.trace_id == TRACE && span.parent_span_id == PARENT), "{spans:?}");
    assert_eq!(received(stack, "/failing"), parents_of(&spans));
}

/// Recipients of a page, of whom one leaves it for a retry.
async fn by_the_page(stack: &TestStack, collector: &OtlpCollector) {
    const MANY: usize = 5;
    let book = stack.subscriptions().await;
    for n in 0..MANY {
        let browser = if n == 0 { stack.browser_answering(Answer::status(503)) } else { stack.browser() };
        let renewal = renewal(&stack.tenant, &format!("s{n}"), "news", &browser);
        book.renew(renewal, SameEndpoint::Replace, System.now()).await.expect("the table answers");
    }
    let message = json!({
        "tenant": stack.tenant, "id": "autumn", "to": {"audience": {"tag": "news"}}, "payload": PAYLOAD,
        "traceparent": traceparent(), "retry": {"retry_delays": [1], "jitter": "none"},
    });
    stack.send(&message).await;
    stack
        .until("each recipient's attempts are spans", async || {
            let spans = collector.spans();
            let pushes: Vec<&Span> = spans.iter().filter(|span| span.name == "attempt web_push").collect();
            assert!(pushes.iter().all(|span| span.trace_id == TRACE && span.parent_span_id == PARENT));
            (pushes.len() > MANY).then_some(())
        })
        .await;
}

/// Two ways to name a trace beside the field.
async fn of_attribute_and_header(stack: &TestStack, collector: &OtlpCollector) {
    let to = |path: &str| json!({"webhook": {"url": stack.webhooks.url(path)}});
    let body = json!({"tenant": stack.tenant, "id": "order-3", "to": to("/attribute"), "payload": PAYLOAD});
    let attribute = MessageAttributeValue::builder().data_type("String").string_value(traceparent());
    let attribute = attribute.build().expect("a type");
    let send = stack.sqs.send_message().queue_url(&stack.queues().ingest).message_body(body.to_string());
    send.message_attributes("traceparent", attribute).send().await.expect("SQS takes it");
    let spans = until_spans(stack, collector, "order-3", 1).await;
    assert_eq!(received(stack, "/attribute"), parents_of(&spans));

    let key = stack.api_key(&stack.tenant).await;
    let body = json!([
        {"id": "order-4", "to": to("/header"), "payload": PAYLOAD},
        {"id": "order-5", "to": to("/plain"), "payload": PAYLOAD, "traceparent": traceparent().replace(TRACE, &"1".repeat(32))},
    ]);
    let request =
        stack.request(Method::POST, "/v1/messages").bearer_auth(&key).header("traceparent", traceparent());
    let response = request.header("content-type", "application/json").body(body.to_string()).send().await;
    assert_eq!(response.expect("an answer").status(), 207);
    let spans = until_spans(stack, collector, "order-4", 1).await;
    assert_eq!(received(stack, "/header"), parents_of(&spans));
    let own = until_spans(stack, collector, "order-5", 1).await;
    assert_eq!(own[0].trace_id, "1".repeat(32), "a message's own field goes before the header");
}

#[tokio::test]
async fn a_collector_that_hangs_or_is_gone_loses_spans_and_no_message() {
    let hanging = OtlpCollector::hanging().expect("a free port");
    let nowhere = OtlpCollector::start().expect("a free port").origin().to_owned();
    let stack = TestStack::up().await;
    export_to(&stack, hanging.origin()).await;
    let send_all = async |name: &str| {
        for n in 0..20 {
            let id = format!("{name}-{n}");
            let message = json!({
                "tenant": stack.tenant, "id": id, "to": {"webhook": {"url": stack.webhooks.url(&format!("/{name}"))}},
                "payload": PAYLOAD, "traceparent": traceparent(),
            });
            stack.send(&message).await;
        }
        for n in 0..20 {
            stack.until_state(&format!("{name}-{n}"), "sent").await;
        }
        assert_eq!(stack.webhooks.requests(&format!("/{name}")).len(), 20);
    };
    send_all("hanging").await;
    assert!(hanging.requests() > 0, "it was sent spans");
    export_to(&stack, &nowhere).await;
    send_all("gone").await;
    stack.until_logged(&json!({"event": "spans_lost", "cause": "connect"})).await;
}
