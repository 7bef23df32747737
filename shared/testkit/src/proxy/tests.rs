//! The proxy between a client and an upstream that repeats what it gets.

use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Response;
use http::request::Parts;
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

/// Answers with what it got; to statements with one response each, to entries with one success each.
struct Upstream {
    url: String,
    seen: Arc<Mutex<Vec<Value>>>,
    _running: Background,
}

impl Upstream {
    fn start() -> Self {
        let port = Port::take(0).expect("a port");
        let url = port.origin("127.0.0.1");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let book = Arc::clone(&seen);
        let running = port.serve("upstream", move |stream| {
            let book = Arc::clone(&book);
            serve::http(serve::http_versions(), stream, move |parts, body| {
                echo(parts, body, Arc::clone(&book))
            })
        });
        Self { url, seen, _running: running.expect("a thread") }
    }

    fn seen(&self) -> Vec<Value> {
        self.seen.lock().expect("no panic").clone()
    }
}

async fn echo(parts: Parts, body: Bytes, book: Arc<Mutex<Vec<Value>>>) -> Option<Response<Full<Bytes>>> {
    let call: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = if let Some(statements) = call["Statements"].as_array() {
        json!({"Responses": statements})
    } else if let Some(entries) = call["Entries"].as_array() {
        json!({"Successful": entries})
    } else {
        json!({
            "method": parts.method.as_str(),
            "uri": parts.uri.to_string(),
            "host": parts.headers["host"].to_str().expect("text"),
            "authorization": parts.headers.get("authorization").map(|value| value.to_str().expect("text")),
            "call": call,
        })
    };
    book.lock().expect("no panic").push(call);
    let response = Response::builder().header("x-amz-crc32", "1").header("x-amzn-requestid", "r");
    Some(response.body(Full::from(answer.to_string())).expect("a response"))
}

fn setting() -> (Upstream, FaultProxy) {
    let upstream = Upstream::start();
    let proxy = FaultProxy::start(&upstream.url).expect("it starts");
    (upstream, proxy)
}

fn client() -> reqwest::Client {
    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

async fn call(url: &str, target: &str, body: &Value) -> reqwest::Response {
    let request = client().post(url).header("x-amz-target", target).body(body.to_string());
    request.send().await.expect("an answer")
}

async fn json_of(response: reqwest::Response) -> Value {
    serde_json::from_slice(&response.bytes().await.expect("a body")).expect("JSON")
}

const CLAIM: &str = "DynamoDB_20120810.BatchExecuteStatement";
const SEND: &str = "AmazonSQS.SendMessageBatch";

#[tokio::test]
async fn a_call_passes_unchanged_and_is_written_down() {
    let (_upstream, proxy) = setting();
    let request = client().put(format!("{}/some/path?a=b%20c", proxy.url()));
    let request = request.header("authorization", "AWS4-HMAC-SHA256 x").header("host", "sqs.example");
    let answer = request.body(r#"{"x":1}"#).send().await.expect("an answer");
    assert_eq!(answer.headers()["x-amz-crc32"], "1");
    let answer = json_of(answer).await;
    assert_eq!(answer["method"], "PUT");
    assert_eq!(answer["uri"], "/some/path?a=b%20c");
    assert_eq!(answer["host"], "sqs.example");
    assert_eq!(answer["authorization"], "AWS4-HMAC-SHA256 x");
    assert_eq!(answer["call"], json!({"x": 1}));

    call(proxy.url(), "AWSStepFunctions.StartExecution", &json!({"name": "w"})).await;
    let calls = proxy.wait_for(2, PATIENCE).await.expect("two calls");
    assert_eq!(calls[0].service, AwsService::Other(String::new()));
    assert_eq!(calls[0].operation, "PUT /some/path");
    assert_eq!((calls[1].number, calls[1].service.clone()), (2, AwsService::StepFunctions));
    assert_eq!(calls[1].operation, "StartExecution");
    assert_eq!(calls[1].json(), Some(json!({"name": "w"})));
    assert_eq!(calls[1].response_status, Some(200));
    assert_eq!(proxy.count(&AwsService::StepFunctions, "StartExecution"), 1);
}

/// A kill that counts; the caller survives and is known by its missing answer.
fn kill(count: &Arc<AtomicUsize>) -> Kill {
    let count = Arc::clone(count);
    Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    })
}

async fn gets_no_answer(url: &str) {
    let request = client().post(url).header("x-amz-target", CLAIM).body("{}");
    let sent = request.timeout(Duration::from_secs(3)).send().await;
    assert!(sent.is_err_and(|error| error.is_timeout()));
}

#[tokio::test]
async fn only_a_kill_before_a_call_keeps_it_from_being_carried_out() {
    let (upstream, proxy) = setting();
    let kills = Arc::new(AtomicUsize::new(0));
    proxy.on_call(2, Fault::KillBefore(kill(&kills)));
    call(proxy.url(), CLAIM, &json!({})).await;
    gets_no_answer(proxy.url()).await;
    assert_eq!((kills.load(Ordering::SeqCst), upstream.seen().len()), (1, 1));
    assert_eq!(proxy.calls()[1].injected, Some(Injected::KilledBefore));
    assert_eq!(proxy.calls()[1].response_status, None);

    proxy.reset();
    assert!(proxy.calls().is_empty());
    proxy.on_call(1, Fault::KillAfter(kill(&kills)));
    assert!(proxy.has_unused_faults());
    gets_no_answer(proxy.url()).await;
    assert!(!proxy.has_unused_faults());
    assert_eq!((kills.load(Ordering::SeqCst), upstream.seen().len()), (2, 2));
    assert_eq!(proxy.calls()[0].response_status, Some(200));
    assert_eq!(call(proxy.url(), CLAIM, &json!({})).await.status(), 200);
}

#[tokio::test]
async fn a_call_is_carried_out_though_its_caller_has_gone() {
    let (_upstream, proxy) = setting();
    let mut stream =
        tokio::net::TcpStream::connect(proxy.url().trim_start_matches("http://")).await.expect("a stream");
    let request = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}";
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.expect("written");
    drop(stream);
    let answered = proxy.line.journal.wait(PATIENCE, |calls| calls.first()?.response_status);
    assert_eq!(answered.await, Some(200));
}

#[tokio::test]
async fn a_status_is_answered_instead_of_the_call_first_or_every_time() {
    let (upstream, proxy) = setting();
    let fault = Fault::Status(400, r#"{"__type":"com.amazon.coral#ThrottlingException"}"#.to_owned());
    proxy.once(|call| call.operation == "BatchExecuteStatement", fault.clone());
    let mut statuses = Vec::new();
    for target in [SEND, CLAIM, CLAIM] {
        statuses.push(call(proxy.url(), target, &json!({})).await.status().as_u16());
    }
    proxy.when(|call| call.service == AwsService::Sqs, fault);
    for target in [SEND, CLAIM, SEND] {
        statuses.push(call(proxy.url(), target, &json!({})).await.status().as_u16());
    }
    assert_eq!(statuses, [200, 400, 200, 400, 200, 400]);
    assert_eq!(upstream.seen().len(), 3);
}

#[tokio::test]
async fn one_statement_fails_and_the_others_are_carried_out() {
    let (upstream, proxy) = setting();
    let fault = Fault::FailStatement { index: 1, code: "InternalServerError".to_owned() };
    proxy.on_call(1, fault.clone());
    let answer = call(proxy.url(), CLAIM, &json!({"Statements": ["a", "b", "c"]})).await;
    assert!(!answer.headers().contains_key("x-amz-crc32"), "it would not fit");
    assert_eq!(answer.headers()["x-amzn-requestid"], "r");
    let answer = json_of(answer).await;
    assert_eq!(answer["Responses"][0], "a");
    assert_eq!(answer["Responses"][1]["Error"]["Code"], "InternalServerError");
    assert_eq!(answer["Responses"][2], "c");
    assert_eq!(upstream.seen(), [json!({"Statements": ["a", "c"]})]);
    assert_eq!(proxy.calls()[0].json(), Some(json!({"Statements": ["a", "b", "c"]})));

    proxy.on_call(2, fault);
    call(proxy.url(), CLAIM, &json!({"Statements": ["a"]})).await;
    assert_eq!(proxy.calls()[1].injected, Some(Injected::NotApplicable));
}

#[tokio::test]
async fn one_entry_fails_in_an_answer_of_200() {
    let (upstream, proxy) = setting();
    for n in 1..=2 {
        proxy.on_call(n, Fault::FailEntry { index: 0 });
    }
    let two = json!({"Entries": [{"Id": "a"}, {"Id": "b"}]});
    let answer = call(proxy.url(), SEND, &two).await;
    assert_eq!(answer.status(), 200);
    let answer = json_of(answer).await;
    assert_eq!(answer["Successful"], json!([{"Id": "b"}]));
    assert_eq!(answer["Failed"][0]["Id"], "a");
    let answer = json_of(call(proxy.url(), SEND, &json!({"Entries": [{"Id": "a"}]})).await).await;
    assert_eq!((answer["Successful"].clone(), &answer["Failed"][0]["Id"]), (json!([]), &json!("a")));
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn an_upstream_that_is_away_is_a_502_and_a_bad_one_is_refused() {
    let gone = Upstream::start().url;
    let proxy = FaultProxy::start(&gone).expect("it starts");
    assert_eq!(call(proxy.url(), CLAIM, &json!({})).await.status(), 502);
    assert_eq!(proxy.calls()[0].response_status, Some(502));
    for bad in ["https://localhost:1", "localhost", "not a url"] {
        assert!(FaultProxy::start(bad).is_err(), "{bad}");
    }
}
