//! Events as they are logged, and the end of the command.

use std::{
    io::{self, Read as _},
    process::Stdio,
    time::Duration,
};

use redial_adapters::system::System;
use redial_engine::ports::Clock as _;
use redial_testkit::push_service::Answer;

use super::harness::{Following, Harness, PATIENCE, json};

pub(crate) async fn every_event_is_printed_once_and_ctrl_c_exits_with_0(harness: &Harness) {
    let mut tail = Following::start(harness, &["--json", "--since", "0s"]);
    let limited = Answer::status(429).with_header("retry-after", "1");
    let well = harness.browser([]);
    let busy = harness.browser([limited]);
    let refusing = harness.browser([Answer::status(400)]);
    let left = harness.browser([Answer::status(410)]);
    harness.send("acme", "well", &well).await;
    harness.send("acme", "busy", &busy).await;
    harness.send("acme", "refused", &refusing).await;
    harness.send("beta", "left", &left).await;
    tail.until(2, r#""event":"dead_letter""#);
    tail.until(5, r#""event":"attempt""#);
    // Two more rounds, which would repeat lines.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (status, printed) = tail.interrupt();
    assert_eq!(status.code(), Some(0));
    let mut events: Vec<(String, String, u64)> = printed
        .iter()
        .map(|line| json(line))
        .map(|it| {
            let text = |field: &str| it[field].as_str().unwrap_or("-").to_owned();
            let what = if it["event"] == "attempt" { text("verdict") } else { text("event") };
            (text("correlation_id"), what, it["attempt"].as_u64().unwrap_or_default())
        })
        .collect();
    events.sort();
    let expected = [
        ("busy", "retry", 0),
        ("busy", "sent", 1),
        // The endpoint is reported in the same way as a dead letter.
        ("left", "dead_letter", 0),
        ("left", "gone", 0),
        ("refused", "dead_letter", 0),
        ("refused", "failed", 0),
        ("well", "sent", 0),
    ];
    assert_eq!(events, expected.map(|(id, what, attempt)| (id.to_owned(), what.to_owned(), attempt)));
    assert!(!printed.iter().any(|line| line.contains("s3cret") || line.contains("https:")), "{printed:#?}");
}

pub(crate) async fn a_late_line_is_printed_once(harness: &Harness) {
    let event = |code: &str| format!(r#"{{"event":"infrastructure","operation":"Query","code":"{code}"}}"#);
    let mut tail = Following::start(harness, &["--since", "20s"]);
    let now = System.now().as_ms();
    harness.log(&[&event("Younger")], now).await;
    tail.until(1, "Younger");
    harness.log(&[&event("Late")], now - 8_000).await;
    tail.until(1, "Late");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (status, printed) = tail.interrupt();
    assert!(status.success());
    for code in ["Younger", "Late"] {
        let words = format!("dispatch: Query failed: {code}");
        assert_eq!(printed.iter().filter(|line| line.ends_with(&words)).count(), 1, "{printed:#?}");
    }
}

/// The pipe is closed at once, or after a line while nothing more is logged.
pub(crate) fn a_closed_pipe_ends_it(harness: &Harness) {
    for reads in [false, true] {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let mut command = harness.command(&["--since", if reads { "1h" } else { "0s" }]);
        let mut child = command.stdout(writer).stderr(Stdio::piped()).spawn().expect("it was built");
        drop(command);
        if reads {
            let mut some = [0; 16];
            reader.read_exact(&mut some).expect("it prints what there is");
        }
        drop(reader);
        let begun = System.now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("it is ours") {
                break status;
            }
            assert!(System.now().since(begun) < PATIENCE, "it goes on without a reader");
            std::thread::sleep(Duration::from_millis(50));
        };
        let mut printed = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut printed).expect("text");
        assert!(status.success() && !printed.contains("panicked"), "{reads}: {printed}");
    }
}
