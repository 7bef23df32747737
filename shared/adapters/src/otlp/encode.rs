//! A span as JSON: fields by their names in `opentelemetry/proto/trace/v1/trace.proto` in lowerCamelCase, ids in hexadecimal digits, enums as
//! numbers, and 64-bit integers as texts (OTLP specification, "JSON Protobuf Encoding").
//!
//! What is in it is what the attempt's log line has. Attributes have the names of OpenTelemetry's semantic conventions for HTTP and
//! messaging where they fit; the others begin with `redial.`.

use redial_core::outcome::NotSent;
use redial_core::reason::Reason;
use redial_core::time::Timestamp;
use redial_core::verdict::Verdict;
use redial_engine::ports::{AttemptEvent, AttemptSpan};
use serde::Serialize;

/// `SPAN_KIND_CLIENT`.
const CLIENT: u8 = 3;

/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;

/// `SpanFlags`: sampled, and the parent is known to be in another process.
const FLAGS: u32 = 0x001 | 0x100 | 0x200;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    trace_id: String,
    span_id: String,
    parent_span_id: String,
    flags: u32,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Serialize)]
struct Status {
    code: u8,
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'static str,
    value: AnyValue<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum AnyValue<'a> {
    StringValue(&'a str),
    IntValue(String),
}

/// Adds the span to a list of spans, without the brackets around it.
pub(super) fn add_span(span: &AttemptSpan<'_>, spans: &mut Vec<u8>) {
    let AttemptSpan { id, parent, lane, began, ended, attempt } = span;
    let was_sent = attempt.verdict == Verdict::Sent.label();
    let span = Span {
        trace_id: parent.trace_id(),
        span_id: id.to_hex(),
        parent_span_id: parent.span().to_hex(),
        flags: FLAGS,
        name: format!("attempt {}", attempt.channel),
        kind: CLIENT,
        start_time_unix_nano: nanos(*began),
        end_time_unix_nano: nanos(*ended),
        attributes: attributes(attempt, lane.label(), was_sent),
        status: (!was_sent).then_some(Status { code: ERROR }),
    };
    if !spans.is_empty() {
        spans.push(b',');
    }
    serde_json::to_writer(spans, &span).expect("invariant: texts and numbers are JSON");
}

fn attributes<'a>(attempt: &AttemptEvent<'a>, lane: &'static str, was_sent: bool) -> Vec<Attribute<'a>> {
    let reason = attempt.reason.map(Reason::label);
    let error = (!was_sent).then(|| reason.unwrap_or(attempt.verdict));
    let texts = [
        ("http.request.method", Some("POST")),
        ("error.type", error),
        ("messaging.message.id", Some(attempt.correlation_id.as_str())),
        ("redial.tenant", Some(attempt.tenant.as_str())),
        ("redial.lane", Some(lane)),
        ("redial.channel", Some(attempt.channel)),
        ("redial.provider", Some(attempt.provider)),
        ("redial.endpoint_hash", attempt.endpoint_hash),
        ("redial.tags", attempt.tags),
        ("redial.verdict", Some(attempt.verdict)),
        ("redial.plan", Some(attempt.plan)),
        ("redial.reason", reason),
        ("redial.not_sent", attempt.not_sent.map(NotSent::label)),
    ];
    let resend = Some(u64::from(attempt.attempt)).filter(|attempt| *attempt > 0);
    let numbers = [
        ("http.response.status_code", attempt.status_code.map(u64::from)),
        ("http.request.resend_count", resend),
        ("redial.attempt", Some(u64::from(attempt.attempt))),
        ("redial.delay_ms", attempt.delay_ms),
        ("redial.retry_after_s", attempt.retry_after_header),
    ];
    let texts = texts
        .into_iter()
        .filter_map(|(key, value)| value.map(|value| Attribute { key, value: AnyValue::StringValue(value) }));
    let numbers = numbers.into_iter().filter_map(|(key, value)| {
        value.map(|value| Attribute { key, value: AnyValue::IntValue(value.to_string()) })
    });
    texts.chain(numbers).collect()
}

fn nanos(at: Timestamp) -> String {
    format!("{}000000", at.as_ms())
}

/// A request of spans of one stack.
pub(super) fn request(stack: &str, spans: &[u8]) -> Vec<u8> {
    let text = |key, value| Attribute { key, value: AnyValue::StringValue(value) };
    let version = env!("CARGO_PKG_VERSION");
    let resource =
        [text("service.name", "redial"), text("service.version", version), text("redial.stack", stack)];
    let resource = serde_json::to_string(&resource).expect("invariant: texts are JSON");
    let mut request = Vec::with_capacity(spans.len() + resource.len() + 128);
    request.extend_from_slice(br#"{"resourceSpans":[{"resource":{"attributes":"#);
    request.extend_from_slice(resource.as_bytes());
    request.extend_from_slice(br#"},"scopeSpans":[{"scope":{"name":"redial"},"spans":["#);
    request.extend_from_slice(spans);
    request.extend_from_slice(b"]}]}]}");
    request
}

#[cfg(test)]
pub(super) mod tests {
    use redial_core::identity::{DeliveryId, Tenant};
    use redial_core::lane::Lane;
    use redial_core::traceparent::{SpanId, Traceparent};
    use serde_json::{Value, json};

    use super::*;

    pub(in super::super) fn with_span<T>(
        change: impl FnOnce(&mut AttemptEvent<'_>),
        then: impl FnOnce(&AttemptSpan<'_>) -> T,
    ) -> T {
        let (id, tenant) = (DeliveryId::parse("order-17"), Tenant::parse("acme"));
        let (id, tenant) = (id.expect("an id"), tenant.expect("a tenant"));
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = Traceparent::parse(parent).expect("valid");
        let mut attempt = AttemptEvent {
            correlation_id: &id,
            endpoint_hash: Some("hmac:k1:00"),
            tenant: &tenant,
            tags: None,
            traceparent: Some(parent),
            channel: "webhook",
            provider: "other",
            attempt: 0,
            status_code: Some(200),
            retry_after_header: None,
            verdict: "sent",
            plan: "sent",
            reason: None,
            not_sent: None,
            policy_source: "channel",
            provider_word: None,
            delay_ms: None,
            took_ms: 40,
        };
        change(&mut attempt);
        let began = Timestamp::from_ms(1_800_000_000_000);
        let ended = Timestamp::from_ms(1_800_000_000_040);
        let (lane, attempt) = (Lane::Transactional, &attempt);
        then(&AttemptSpan { id: SpanId::of(7), parent, lane, began, ended, attempt })
    }

    fn read(spans: &[u8]) -> Value {
        serde_json::from_slice(&request("my-stack", spans)).expect("JSON")
    }

    fn of(change: impl FnOnce(&mut AttemptEvent<'_>)) -> Value {
        let mut spans = Vec::new();
        with_span(change, |span| add_span(span, &mut spans));
        read(&spans)["resourceSpans"][0]["scopeSpans"][0]["spans"][0].take()
    }

    fn attribute(span: &Value, key: &str) -> Value {
        let all = span["attributes"].as_array().expect("a list");
        all.iter().find(|it| it["key"] == key).map_or(Value::Null, |it| it["value"].clone())
    }

    #[test]
    fn a_request_has_the_fields_of_the_proto_in_its_json_mapping() {
        let mut spans = Vec::new();
        with_span(|_| {}, |span| add_span(span, &mut spans));
        let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
        let number = |key: &str, value: &str| json!({"key": key, "value": {"intValue": value}});
        let expected = json!({"resourceSpans": [{
            "resource": {"attributes": [
                text("service.name", "redial"),
                text("service.version", env!("CARGO_PKG_VERSION")),
                text("redial.stack", "my-stack"),
            ]},
            "scopeSpans": [{
                "scope": {"name": "redial"},
                "spans": [{
                    "traceId": "0af7651916cd43dd8448eb211c80319c",
                    "spanId": "0000000000000007",
                    "parentSpanId": "b7ad6b7169203331",
                    "flags": 0x301,
                    "name": "attempt webhook",
                    "kind": 3,
                    "startTimeUnixNano": "1800000000000000000",
                    "endTimeUnixNano": "1800000000040000000",
                    "attributes": [
                        text("http.request.method", "POST"),
                        text("messaging.message.id", "order-17"),
                        text("redial.tenant", "acme"),
                        text("redial.lane", "transactional"),
                        text("redial.channel", "webhook"),
                        text("redial.provider", "other"),
                        text("redial.endpoint_hash", "hmac:k1:00"),
                        text("redial.verdict", "sent"),
                        text("redial.plan", "sent"),
                        number("http.response.status_code", "200"),
                        number("redial.attempt", "0"),
                    ],
                }],
            }],
        }]});
        assert_eq!(read(&spans), expected);
    }

    #[test]
    fn an_attempt_that_failed_is_an_error_with_its_reason() {
        let span = of(|attempt| {
            (attempt.verdict, attempt.plan, attempt.attempt) = ("retry", "retry", 2);
            (attempt.reason, attempt.status_code) = (Some(Reason::ServerError), Some(503));
            (attempt.delay_ms, attempt.retry_after_header) = (Some(4_000), Some(4));
        });
        assert_eq!(span["status"], json!({"code": 2}));
        for (key, value) in [
            ("error.type", json!({"stringValue": "server_error"})),
            ("redial.reason", json!({"stringValue": "server_error"})),
            ("http.response.status_code", json!({"intValue": "503"})),
            ("http.request.resend_count", json!({"intValue": "2"})),
            ("redial.delay_ms", json!({"intValue": "4000"})),
            ("redial.retry_after_s", json!({"intValue": "4"})),
        ] {
            assert_eq!(attribute(&span, key), value, "{key}");
        }
        let unanswered = of(|attempt| {
            (attempt.verdict, attempt.status_code) = ("retry", None);
            attempt.not_sent = Some(NotSent::Dns);
        });
        assert_eq!(attribute(&unanswered, "error.type"), json!({"stringValue": "retry"}));
        assert_eq!(attribute(&unanswered, "redial.not_sent"), json!({"stringValue": "dns"}));
        assert_eq!(attribute(&unanswered, "http.response.status_code"), Value::Null);
    }

    #[test]
    fn several_spans_are_one_list() {
        let mut spans = Vec::new();
        for _ in 0..3 {
            with_span(|_| {}, |span| add_span(span, &mut spans));
        }
        let read = read(&spans);
        assert_eq!(read["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().map(Vec::len), Some(3));
    }
}
