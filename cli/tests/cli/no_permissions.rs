//! A caller without permissions: each missing one is named, and none is a fault of the stack.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

use redial::local::{Description, Functions, Queues, Tables};
use redial_tests::test_stack::register;

use crate::prelude::*;

/// A service that denies every call, in the words of the protocol that the call is in; its endpoint.
fn denying() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || deny_all(stream));
        }
    });
    format!("http://{address}")
}

fn deny_all(stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut stream = stream;
    loop {
        let (mut length, mut is_query, mut is_cbor, mut line) = (0, false, false, String::new());
        while reader.read_line(&mut line).is_ok_and(|read| read > 0) && line.trim() != "" {
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            is_query |= lower.starts_with("content-type:") && lower.contains("form-urlencoded");
            is_cbor |= lower.starts_with("content-type:") && lower.contains("cbor");
            line.clear();
        }
        if line.is_empty() {
            return;
        }
        reader.read_exact(&mut vec![0; length]).expect("the body comes");
        let body: &[u8] = if is_query {
            b"<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"
        } else if is_cbor {
            // A map of two pairs of texts, each after its length.
            b"\xa2\x66__type\x75AccessDeniedException\x67message\x67not you"
        } else {
            br#"{"__type":"AccessDeniedException","message":"not you"}"#
        };
        let head = format!(
            "HTTP/1.1 403 Forbidden\r\nx-amzn-errortype: AccessDeniedException\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if stream.write_all(&[head.as_bytes(), body].concat()).is_err() {
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

/// Runs a command of which every call is denied.
fn denied(arguments: &str) -> Done {
    let folder = tempfile::tempdir().expect("a temporary folder");
    register(folder.path(), description(&denying()));
    run(&mut unregistered(arguments, folder.path()), "")
}

fn assert_named(permissions: &[&str], shown: &str) {
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for permission in permissions {
        assert!(words.contains(&format!("you have no permission {permission}")), "{permission}: {shown}");
    }
}

#[test]
fn doctor_names_missing_permissions_and_finds_no_fault() {
    let lines = denied("doctor").succeeds();
    let permissions = [
        "lambda:GetFunctionConfiguration",
        "lambda:GetAccountSettings",
        "lambda:GetFunctionRecursionConfig",
        "cloudformation:DescribeStacks",
        "cloudwatch:GetMetricData",
        "dynamodb:DescribeTable",
        "dynamodb:Query",
    ];
    assert_named(&permissions, &lines);
    assert!(lines.lines().all(|line| line.starts_with("skipped ")), "{lines}");
    let report = denied("doctor --json").json();
    let findings = report["checks"].as_array().expect("checks").iter().map(|check| &check["findings"]);
    let severities = findings.flat_map(|it| it.as_array().expect("findings")).map(|it| &it["severity"]);
    assert!(severities.clone().all(|it| *it != "fault" && *it != "warning"), "{report}");
}

#[test]
fn the_summary_names_missing_permissions_and_keeps_its_fields() {
    let words = denied("status --summary");
    assert_eq!(words.status, Some(1), "nothing could be read: {words:?}");
    assert_named(&["sqs:GetQueueAttributes", "cloudwatch:GetMetricData", "dynamodb:Query"], &words.stdout);
    let document = denied("status --summary --json");
    assert_eq!(document.status, Some(1));
    let document = document.json();
    assert_eq!((&document["ok"], &document["findings"]), (&json!(false), &json!([])));
    let queues = document["queues"].as_array().expect("a list");
    assert_eq!(queues.len(), 6);
    for queue in queues {
        assert_eq!((&queue["waiting"], &queue["oldest_seconds"]), (&Value::Null, &Value::Null));
        assert_eq!(queue["trouble"], "you have no permission sqs:GetQueueAttributes");
    }
    assert_eq!(document["parked"]["trouble"], "you have no permission dynamodb:Query");
    assert_eq!(document["origins_trouble"], "you have no permission dynamodb:Query");
    assert_eq!(document["last_minutes"]["trouble"], "you have no permission cloudwatch:GetMetricData");
}
