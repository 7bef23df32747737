//! The binary, started as Lambda starts it: an environment that will not do ends its initialisation with one message that names
//! everything that is missing or wrong, and prints no value.

use std::path::Path;

use redial_testkit::runtime_api::{InvokeError, RuntimeApi};

const REQUIRED: [&str; 14] = [
    "INGEST_QUEUE_URL",
    "BULK_QUEUE_URL",
    "RETRY_QUEUE_URL",
    "RETRY_BULK_QUEUE_URL",
    "DLQ_URL",
    "DELIVERIES_TABLE",
    "SUBSCRIPTIONS_TABLE",
    "AUDIENCES_TABLE",
    "PARKED_TABLE",
    "DEAD_LETTERS_TABLE",
    "CONTROL_TABLE",
    "VAPID_SECRET_ID",
    "ENDPOINT_HASH_SECRET_ID",
    "WEBHOOK_KEY_SECRET_ID",
];

/// What initialisation ends with: the process's status, and the lines that it prints.
async fn failure(env: &[(&str, &str)]) -> (String, Vec<String>) {
    let host = RuntimeApi::start(Path::new(env!("CARGO_BIN_EXE_ingest")), env.iter().copied());
    let host = host.expect("it starts");
    let Err(InvokeError::InitFailed(reason)) = host.init().await else { panic!("it is ready") };
    let status = reason.lines().next().unwrap_or_default().to_owned();
    (status, host.logs().into_iter().map(|line| line.text).collect())
}

#[tokio::test]
async fn everything_that_is_missing_is_named_in_one_message() {
    let (status, lines) = failure(&[]).await;
    assert_eq!(status, "exit status: 1");
    assert_eq!(lines.len(), 1, "{lines:?}");
    for name in REQUIRED {
        assert!(lines[0].contains(name), "{name}: {}", lines[0]);
    }
    assert!(!lines[0].contains("WAIT_STATE_MACHINE_ARN") && !lines[0].contains("VAPID_SUBJECT"), "{lines:?}");
}

#[tokio::test]
async fn everything_that_is_bad_is_named_in_one_message_and_no_value_is_printed() {
    let bad = [
        ("INGEST_QUEUE_URL", "v4J9"),
        ("VAPID_PRIVATE_KEY", "v4J9"),
        ("ENDPOINT_HASH_KEY", "v4J9"),
        ("WEBHOOK_KEY", "v4J9"),
        ("EGRESS_ALLOW", "v4J9"),
        ("PUSH_HOSTS", "a_b"),
        ("API_CORS_ORIGINS", "v4J9"),
        ("API_RATE_LIMIT", "v4J9"),
        ("EVENTS_QUEUE_ARN", "v4J9"),
    ];
    let (status, lines) = failure(&bad).await;
    assert_eq!((status.as_str(), lines.len()), ("exit status: 1", 1), "{lines:?}");
    for (name, _) in bad {
        assert!(lines[0].contains(name), "{name}: {}", lines[0]);
    }
    assert!(!lines[0].contains("v4J9"), "{}", lines[0]);
}
