use std::io;
use std::sync::Arc;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use redial_core::traceparent::SpanId;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing_subscriber::layer::SubscriberExt as _;

use super::super::encode::tests::with_span;
use super::*;
use crate::receiver::Receiver;
use crate::telemetry::json_lines;

/// Longer than any request of these tests takes, unless the collector hangs.
const LONG: Duration = Duration::from_secs(60);

/// A collector that keeps what it is sent, and answers each request with the status once it may.
struct Collecting {
    receiver: Receiver,
    requests: Arc<Mutex<Vec<Request<Bytes>>>>,
    may_answer: Arc<Semaphore>,
}

impl Collecting {
    async fn answering(status: u16) -> Self {
        let collecting = Self::hanging(status).await;
        collecting.may_answer.add_permits(Semaphore::MAX_PERMITS);
        collecting
    }

    /// It answers what it is let to, by `may_answer`.
    async fn hanging(status: u16) -> Self {
        let (requests, may_answer) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(Semaphore::new(0)));
        let (kept, wait) = (requests.clone(), may_answer.clone());
        let receiver = Receiver::plain_http(move |request| {
            kept.lock().expect("no panic").push(request);
            let wait = wait.clone();
            async move {
                wait.acquire().await.expect("open").forget();
                let response = Response::builder().status(status).body(Full::from("{}"));
                Ok::<_, io::Error>(response.expect("valid"))
            }
        })
        .await;
        Self { receiver, requests, may_answer }
    }

    fn spans(&self) -> Spans {
        spans(self.receiver.port)
    }

    fn requests(&self) -> Vec<Request<Bytes>> {
        self.requests.lock().expect("no panic").clone()
    }
}

fn spans(port: u16) -> Spans {
    let collector = Collector::parse(&format!("http://127.0.0.1:{port}")).expect("valid");
    let headers = CollectorHeaders::parse("api-key=s3cret").expect("valid");
    Spans::new("my-stack".to_owned(), &collector, &headers, &ExtraRoots::default())
}

fn add(spans: &Spans, n: u64) {
    with_span(|_| {}, |span| spans.add(&AttemptSpan { id: SpanId::of(n), ..*span }));
}

/// The ids of the spans in a request.
fn ids(request: &Request<Bytes>) -> Vec<String> {
    let body: Value = serde_json::from_slice(request.body()).expect("JSON");
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("a list").clone();
    spans
        .iter()
        .map(|span| span["spanId"].as_str().expect("a text").trim_start_matches('0').to_owned())
        .collect()
}

/// What was lost, and why, while `what` ran.
async fn lost_in(what: impl Future<Output = ()>) -> Vec<(String, u64)> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let writer = Mutex::new(file.reopen().expect("the file"));
    let logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(json_lines(writer)));
    what.await;
    drop(logging);
    let text = std::fs::read_to_string(file.path()).expect("text");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let lines = lines.filter(|line| line["event"] == "spans_lost");
    let text = |line: &Value| line["cause"].as_str().expect("a text").to_owned();
    lines.map(|line| (text(&line), line["spans"].as_u64().expect("a number"))).collect()
}

fn all(losses: &[(&str, u64)]) -> Vec<(String, u64)> {
    losses.iter().map(|(cause, spans)| ((*cause).to_owned(), *spans)).collect()
}

#[tokio::test]
async fn the_spans_of_an_invocation_are_one_request() {
    let collector = Collecting::answering(200).await;
    let spans = collector.spans();
    let lost = lost_in(async {
        spans.export_within(LONG).await;
        assert_eq!(collector.requests().len(), 0, "nothing is sent without spans");
        for invocation in 0..2 {
            (1..=3).for_each(|n| add(&spans, invocation * 3 + n));
            spans.export_within(LONG).await;
        }
    });
    assert_eq!(lost.await, []);
    let requests = collector.requests();
    assert_eq!(requests.iter().map(ids).collect::<Vec<_>>(), [["1", "2", "3"], ["4", "5", "6"]]);
    assert_eq!(collector.receiver.connections(), 1, "the connection is used again");
    let [request, _] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/v1/traces"));
    let header = |name: &str| request.headers()[name].to_str().expect("text").to_owned();
    assert_eq!([header("content-type"), header("api-key")], ["application/json", "s3cret"]);
    assert!(!format!("{spans:?}").contains("s3cret"), "{spans:?}");
}

#[tokio::test]
async fn a_collector_that_hangs_is_not_waited_for_and_no_second_request_is_made() {
    let collector = Collecting::hanging(200).await;
    let spans = collector.spans();
    add(&spans, 1);
    let lost = lost_in(async {
        while collector.requests().is_empty() {
            tokio::task::yield_now().await;
            spans.export_within(Duration::from_millis(1)).await;
        }
        add(&spans, 2);
        // In its rest it is not waited for: with this time-out the test would not end.
        spans.export_within(LONG * 60).await;
        assert_eq!(collector.requests().len(), 1);
        collector.may_answer.add_permits(2);
        while collector.requests().len() < 2 {
            tokio::task::yield_now().await;
            spans.export_within(Duration::ZERO).await;
        }
    });
    assert_eq!(lost.await, [], "what took long was taken in a later invocation");
    assert_eq!(collector.requests().iter().map(ids).collect::<Vec<_>>(), [["1"], ["2"]]);
}

#[tokio::test]
async fn an_invocation_without_time_left_waits_for_no_collector() {
    let collector = Collecting::hanging(200).await;
    let spans = collector.spans();
    add(&spans, 1);
    let (now, soon) = (Timestamp::from_secs(100), Timestamp::from_ms(100_400));
    // Its answer never comes.
    spans.export(now, soon).await;
    spans.export(now, now).await;
    assert!(spans.way.lock().await.request.is_some(), "it goes on beside the next invocation");
}

#[tokio::test]
async fn a_collector_that_refuses_is_left_alone_and_its_spans_are_counted() {
    let nowhere = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = nowhere.local_addr().expect("bound").port();
    drop(nowhere);
    let spans = spans(port);
    let lost = lost_in(async {
        add(&spans, 1);
        add(&spans, 2);
        spans.export_within(LONG).await;
        add(&spans, 3);
        spans.export_within(LONG).await;
    });
    assert_eq!(lost.await, all(&[("connect", 2), ("resting", 1)]));
}

#[tokio::test]
async fn an_answer_that_is_no_success_loses_the_spans() {
    for (status, cause) in
        [(401, "unauthorized"), (403, "unauthorized"), (400, "refused"), (503, "refused"), (302, "refused")]
    {
        let collector = Collecting::answering(status).await;
        let spans = collector.spans();
        let lost = lost_in(async {
            add(&spans, 1);
            spans.export_within(LONG).await;
        });
        assert_eq!(lost.await, all(&[(cause, 1)]), "{status}");
        assert_eq!(collector.requests().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn more_spans_than_there_is_room_for_are_counted() {
    let collector = Collecting::answering(200).await;
    let spans = collector.spans();
    (0..MOST_SPANS as u64 + 5).for_each(|n| add(&spans, n + 1));
    assert_eq!(lost_in(spans.export_within(LONG)).await, all(&[("too_many", 5)]));
    assert_eq!(ids(&collector.requests()[0]).len(), MOST_SPANS);
}
