//! Events that are there already.

use redial_adapters::system::System;
use redial_engine::ports::Clock as _;

use super::harness::{Harness, json, stderr};

fn lines(harness: &Harness, arguments: &[&str]) -> Vec<String> {
    let done = harness.there_is(arguments);
    assert_eq!(done.status.code(), Some(0), "{arguments:?}: {}", stderr(&done));
    assert_eq!(stderr(&done), "", "{arguments:?}");
    String::from_utf8(done.stdout).expect("text").lines().map(str::to_owned).collect()
}

pub(crate) fn options_filter_the_events(harness: &Harness) {
    let number = |arguments: &[&str]| lines(harness, arguments).len();
    assert_eq!(number(&[]), 7);
    assert_eq!(number(&["--tenant", "beta"]), 2);
    assert_eq!(number(&["--tenant", "acme"]), 5);
    assert_eq!(number(&["--id", "refused"]), 2);
    assert_eq!(number(&["--verdict", "sent"]), 2);
    assert_eq!(number(&["--verdict", "gone", "--verdict", "failed"]), 2);
    assert_eq!(number(&["--tenant", "acme", "--id", "busy", "--verdict", "retry"]), 1);
}

pub(crate) fn each_event_is_a_line(harness: &Harness) {
    let shown = lines(harness, &[]);
    let one = |words: &[&str]| {
        let found = shown.iter().filter(|line| words.iter().all(|word| line.contains(word))).count();
        assert_eq!(found, 1, "{words:?} in {shown:#?}");
    };
    one(&["acme#well ", "web_push", "attempt 0 ", " 201  sent ", "endpoint ", " ms"]);
    one(&["acme#busy ", "attempt 0 ", " 429  retry in ", "rate_limited, asked to wait 1s"]);
    one(&["acme#busy ", "attempt 1 ", " 201  sent "]);
    one(&["acme#refused ", "attempt 0 ", " 400  failed → dead_letter", "rejected"]);
    one(&["acme#refused ", "dead letter: rejected", "status 400, 1 attempt"]);
    one(&["beta#left ", " 410  gone "]);
    let times: Vec<&str> = shown.iter().map(|line| &line[..24]).collect();
    assert!(times.is_sorted(), "{times:?}");
}

pub(crate) fn json_lines_are_as_they_were_logged(harness: &Harness) {
    let shown = lines(harness, &["--json", "--id", "busy"]);
    let attempts: Vec<_> = shown.iter().map(|line| json(line)["attempt"].as_u64()).collect();
    assert_eq!(attempts, [Some(0), Some(1)]);
    for field in ["timestamp", "level", "target", "endpoint_hash", "policy_source", "took_ms"] {
        assert!(!json(&shown[0])[field].is_null(), "{field}: {}", shown[0]);
    }
}

pub(crate) fn without_a_match_the_exit_status_is_1(harness: &Harness) {
    let done = harness.there_is(&["--tenant", "none", "--json"]);
    assert_eq!((done.status.code(), done.stdout.len()), (Some(1), 0));
    assert!(stderr(&done).contains("no matching lines"), "{}", stderr(&done));
}

/// Repeats the request: the emulator may write a function's last lines only with its next invocation.
pub(crate) async fn requests_are_printed_with_their_option(harness: &Harness) {
    let url = format!(
        "{}/v1/messages/s3cret",
        harness.stack.description().api_url.as_ref().expect("the API is deployed")
    );
    let http = reqwest::Client::builder().build().expect("a client");
    let shown = |arguments: &[&str]| {
        let requests = lines(harness, arguments).into_iter().filter(|line| line.contains("/v1/messages/"));
        requests.collect::<Vec<_>>()
    };
    let mut requests = Vec::new();
    for _ in 0..30 {
        assert_eq!(http.get(&url).send().await.expect("it answers").status(), 401);
        requests = shown(&["--requests"]);
        if !requests.is_empty() {
            break;
        }
    }
    assert!(requests.iter().any(|line| line.contains("GET /v1/messages/{id}  401  ")), "{requests:#?}");
    assert!(requests.iter().all(|line| !line.contains("s3cret")), "{requests:#?}");
    assert_eq!(shown(&[]), Vec::<String>::new());
}

/// More of them than fit into a page, so that the event is on the next one.
pub(crate) async fn lines_that_are_no_events_are_not_printed(harness: &Harness) {
    let now = System.now().as_ms() - 60_000;
    let warning = r#"{"level":"WARN","message":"the \"event\" of a library","target":"hyper"}"#;
    harness.log(&vec![warning; 10_050], now).await;
    harness
        .log(&["START RequestId: 1", r#"{"event":"panic","tenant":"acme","correlation_id":"odd"}"#], now + 7)
        .await;
    let shown = lines(harness, &["--id", "odd"]);
    assert_eq!(shown.len(), 1, "{shown:#?}");
    assert!(
        shown[0].ends_with("acme#odd                  dispatch panicked; SQS delivers the message again")
    );
    assert!(!lines(harness, &[]).concat().contains("a library"));
}
