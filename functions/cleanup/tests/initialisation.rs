//! The binary, started as Lambda starts it: an environment that will not do ends its initialisation with one message that names
//! everything that is missing or wrong, and prints no value.

use std::path::Path;

use redial_testkit::runtime_api::{InvokeError, RuntimeApi};

const REQUIRED: [&str; 13] = [
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
    "ENDPOINT_HASH_SECRET_ID",
    "WEBHOOK_KEY_SECRET_ID",
];

/// What initialisation ends with: the process's status, and the lines that it prints.
async fn failure(env: &[(&str, &str)]) -> (String, Vec<String>) {
    let host = RuntimeApi::start(Path::new(env!("CARGO_BIN_EXE_cleanup")), env.iter().copied());
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
    // What only dispatch needs is not asked for.
    assert!(!lines[0].contains("VAPID") && !lines[0].contains("STATE_MACHINE"), "{}", lines[0]);
}

#[tokio::test]
async fn everything_that_is_bad_is_named_in_one_message_and_no_value_is_printed() {
    let tables =
        ["DELIVERIES_TABLE", "SUBSCRIPTIONS_TABLE", "AUDIENCES_TABLE", "PARKED_TABLE", "DEAD_LETTERS_TABLE"];
    let bad = [
        ("INGEST_QUEUE_URL", "v4J9"),
        ("BULK_QUEUE_URL", "v4J9"),
        ("RETRY_QUEUE_URL", "v4J9"),
        ("RETRY_BULK_QUEUE_URL", "v4J9"),
        ("DLQ_URL", "v4J9"),
        ("CONTROL_TABLE", " "),
        ("ENDPOINT_HASH_KEY", "v4J9"),
        ("WEBHOOK_KEY", "v4J9"),
        ("POLICY_CACHE_SECONDS", "61"),
        ("SPIKE_WINDOW_SECONDS", "0"),
        ("SPIKE_AT_LEAST", "v4J9"),
        ("SPIKE_SHARE", "1.5"),
        ("WAIT_LATE_SECONDS", "v4J9"),
        ("WEBHOOK_SWITCHED_OFF_AFTER_SECONDS", "0"),
    ];
    let good = tables.map(|name| (name, "table-v4J9"));
    let (status, lines) = failure(&[good.as_slice(), &bad].concat()).await;
    assert_eq!(status, "exit status: 1");
    assert_eq!(lines.len(), 1, "{lines:?}");
    for (name, _) in bad {
        assert!(lines[0].contains(name), "{name}: {}", lines[0]);
    }
    for name in tables {
        assert!(!lines[0].contains(name), "{name}: {}", lines[0]);
    }
    assert!(!lines[0].contains("v4J9"), "{}", lines[0]);
}
