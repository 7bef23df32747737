//! Who may read nothing is told which permissions are missing; what makes no sense is refused before any stack is asked.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

use redial::local::{Description, Functions, Queues, Tables};
use serde_json::Value;

use super::world::{command, document, note, stderr, stdout};

/// A service that answers every call by refusing it, in the words of the protocol that the call is in.
fn refusing() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || refuse_all(stream));
        }
    });
    format!("http://{address}")
}

fn refuse_all(stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut stream = stream;
    loop {
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line).is_ok_and(|read| read > 0) && line.trim() != "" {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            line.clear();
        }
        if line.is_empty() {
            return;
        }
        reader.read_exact(&mut vec![0; length]).expect("the body comes");
        let body = r#"{"__type":"AccessDeniedException","message":"not you"}"#;
        let answer = format!(
            "HTTP/1.1 403 Forbidden\r\nx-amzn-errortype: AccessDeniedException\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
fn description(endpoint: &str) -> Description {
    let url = |queue: &str| format!("{endpoint}/000000000000/{queue}");
    Description {
        endpoint: endpoint.to_owned(),
        region: "us-east-1".to_owned(),
        queues: Queues {
            ingest: url("ingest"),
            bulk: url("bulk"),
            retry: url("retry"),
            retry_bulk: url("retry-bulk"),
            dead_letter: url("dlq"),
            quarantine: url("quarantine"),
            events: None,
        },
        tables: Tables {
            deliveries: "deliveries".to_owned(),
            subscriptions: "subscriptions".to_owned(),
            audiences: "audiences".to_owned(),
            parked: "parked".to_owned(),
            dead_letters: "dead_letters".to_owned(),
            control: "control".to_owned(),
        },
        state_machine: "arn:aws:states:us-east-1:000000000000:stateMachine:wait".to_owned(),
        functions: Functions {
            dispatch: "dispatch".to_owned(),
            cleanup: "cleanup".to_owned(),
            ingest: "ingest".to_owned(),
        },
        api_url: None,
        webhook_key_secret: "webhook-key".to_owned(),
        pid: None,
        vapid_public_key: String::new(),
    }
}

#[test]
fn what_may_not_be_read_is_told_with_the_permission_and_every_field_is_there_all_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    note(folder.path(), &description(&refusing()));
    let told = command(folder.path(), &["status", "--summary"]).output().expect("it was built");
    let words = stdout(&told).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(told.status.code(), Some(1), "nothing could be read: {words}");
    for permission in ["sqs:GetQueueAttributes", "cloudwatch:GetMetricData", "dynamodb:Query"] {
        assert!(words.contains(&format!("you have no permission {permission}")), "{permission}: {words}");
    }
    let told = command(folder.path(), &["status", "--summary", "--json"]).output().expect("it was built");
    assert_eq!(told.status.code(), Some(1));
    let shown = document(&stdout(&told));
    assert_eq!((&shown["ok"], &shown["findings"]), (&Value::Bool(false), &Value::Array(Vec::new())));
    assert_eq!(shown["queues"].as_array().map(Vec::len), Some(6));
    for queue in shown["queues"].as_array().expect("a list") {
        assert_eq!((&queue["waiting"], &queue["oldest_seconds"]), (&Value::Null, &Value::Null));
        assert_eq!(queue["trouble"], "you have no permission sqs:GetQueueAttributes");
    }
    assert_eq!(shown["parked"]["trouble"], "you have no permission dynamodb:Query");
    assert_eq!(shown["origins_trouble"], "you have no permission dynamodb:Query");
    assert_eq!(shown["last_minutes"]["trouble"], "you have no permission cloudwatch:GetMetricData");
}

#[test]
fn what_makes_no_sense_is_refused_with_status_2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for arguments in [
        &["status"][..],
        &["status", "d1"],
        &["status", "--tenant", "acme"],
        &["status", "d1", "--tenant", "acme", "--summary"],
        &["status", "--summary", "--wait", "5"],
        &["status", "--summary", "--watch", "0"],
        &["status", "d1", "--tenant", "acme", "--watch", "5"],
        &["status", "d1", "--tenant", "acme", "--all"],
    ] {
        let done = command(folder.path(), arguments).output().expect("it was built");
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {}", stderr(&done));
    }
    let done = command(folder.path(), &["status", "--summary"]).output().expect("it was built");
    assert_eq!(done.status.code(), Some(1), "no stack is up");
}
