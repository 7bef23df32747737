//! CloudWatch Logs of a local stack: the two calls that a test makes, without an SDK client for them.

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub struct Line {
    pub stream: String,
    pub text: String,
}

/// All lines of a group.
pub async fn lines(endpoint: &str, group: &str) -> Vec<Line> {
    let answer = call(endpoint, "FilterLogEvents", &json!({"logGroupName": group})).await;
    let events = answer["events"].as_array().expect("a list of events");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    events.iter().map(|it| Line { stream: text(&it["logStreamName"]), text: text(&it["message"]) }).collect()
}

/// Writes a line into an existing stream.
pub async fn write(endpoint: &str, group: &str, line: &Line, at_ms: i64) {
    let events = json!([{"timestamp": at_ms, "message": line.text}]);
    let put = json!({"logGroupName": group, "logStreamName": line.stream, "logEvents": events});
    call(endpoint, "PutLogEvents", &put).await;
}

/// Creates the stream of these lines, and writes them under one time.
pub async fn write_stream(endpoint: &str, group: &str, lines: &[Line], at_ms: i64) {
    let stream = &lines[0].stream;
    call(endpoint, "CreateLogStream", &json!({"logGroupName": group, "logStreamName": stream})).await;
    let events: Vec<Value> =
        lines.iter().map(|line| json!({"timestamp": at_ms, "message": line.text})).collect();
    let put = json!({"logGroupName": group, "logStreamName": stream, "logEvents": events});
    call(endpoint, "PutLogEvents", &put).await;
}

async fn call(endpoint: &str, operation: &str, arguments: &Value) -> Value {
    let request = Request::post(endpoint)
        .header("x-amz-target", format!("Logs_20140328.{operation}"))
        .header("content-type", "application/x-amz-json-1.1")
        .body(Full::new(Bytes::from(arguments.to_string())))
        .expect("the endpoint is a URL");
    let answer = Client::builder(TokioExecutor::new()).build_http().request(request).await;
    let (head, body) = answer.expect("the service answers").into_parts();
    let body = body.collect().await.expect("it answers to the end").to_bytes();
    assert!(head.status.is_success(), "{operation}: {}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).unwrap_or(Value::Null)
}
