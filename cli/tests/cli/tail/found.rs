//! Events that were logged before.

use super::tail;
use crate::prelude::*;

fn found(stack: &TestStack, arguments: &str) -> Done {
    run(&mut tail(stack, &format!("--no-follow --since 1h {arguments}")), "")
}

fn lines(stack: &TestStack, arguments: &str) -> Vec<String> {
    let done = found(stack, arguments);
    assert_eq!(done.stderr, "", "{arguments}");
    done.succeeds().lines().map(str::to_owned).collect()
}

pub(super) fn filters_select_events(stack: &TestStack) {
    for (arguments, number) in [
        ("", 7),
        ("--tenant beta", 2),
        ("--tenant acme", 5),
        ("--id refused", 2),
        ("--verdict sent", 2),
        ("--verdict gone --verdict failed", 2),
        ("--tenant acme --id busy --verdict retry", 1),
    ] {
        assert_eq!(lines(stack, arguments).len(), number, "{arguments}");
    }
}

pub(super) fn an_event_is_a_line_of_words(stack: &TestStack) {
    let shown = lines(stack, "");
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

pub(super) fn json_is_what_was_logged(stack: &TestStack) {
    let shown = lines(stack, "--json --id busy");
    let attempts: Vec<_> = shown.iter().map(|line| parsed(line)["attempt"].as_u64()).collect();
    assert_eq!(attempts, [Some(0), Some(1)]);
    for field in ["timestamp", "level", "target", "endpoint_hash", "policy_source", "took_ms"] {
        assert!(!parsed(&shown[0])[field].is_null(), "{field}: {}", shown[0]);
    }
}

pub(super) fn without_events_the_exit_status_is_1(stack: &TestStack) {
    let said = found(stack, "--tenant unknown --json").refused_with(1);
    assert!(said.contains("no matching lines"), "{said}");
}

/// Requested again until it is shown: the emulator may take what a function writes last for its next invocation's.
pub(super) async fn requests_are_shown_with_their_option(stack: &TestStack) {
    let shown = |arguments: &str| {
        let mut lines = lines(stack, arguments);
        lines.retain(|line| line.contains("/v1/messages/"));
        lines
    };
    let requests = stack
        .until("a request is shown", async || {
            let request = stack.request(reqwest::Method::GET, "/v1/messages/s3cret");
            assert_eq!(request.send().await.expect("it answers").status(), 401);
            Some(shown("--requests")).filter(|lines| !lines.is_empty())
        })
        .await;
    assert!(requests.iter().any(|line| line.contains("GET /v1/messages/{id}  401  ")), "{requests:#?}");
    assert!(requests.iter().all(|line| !line.contains("s3cret")), "{requests:#?}");
    assert_eq!(shown(""), Vec::<String>::new());
}

/// More of them than fit into a page, so that what comes after them could be lost.
pub(super) async fn other_lines_of_a_log_are_not_shown(stack: &TestStack) {
    let minute_ago = System.now().as_ms() - 60_000;
    let warning = r#"{"level":"WARN","message":"the \"event\" of a library","target":"hyper"}"#;
    stack.write_log(&vec![warning; 10_050], minute_ago).await;
    let panic = r#"{"event":"panic","tenant":"acme","correlation_id":"odd"}"#;
    stack.write_log(&["START RequestId: 1", panic], minute_ago + 7).await;
    let shown = lines(stack, "--id odd");
    assert_eq!(shown.len(), 1, "{shown:#?}");
    assert!(
        shown[0].ends_with("acme#odd                  dispatch panicked; SQS delivers the message again")
    );
    assert!(!lines(stack, "").concat().contains("a library"));
}
