//! A function's start in an environment that will not do: it ends with one message that names everything that is missing or wrong,
//! and prints no value.

use std::path::Path;

use crate::runtime_api::{InvokeError, RuntimeApi};

/// What no message may hold. A variable of that value is bad, but for those that may have any.
pub const VALUE: &str = "v4J9";

const OF_EVERY_FUNCTION: [&str; 12] = [
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
];

const BAD: [(&str, &str); 8] = [
    ("INGEST_QUEUE_URL", VALUE),
    ("BULK_QUEUE_URL", VALUE),
    ("RETRY_QUEUE_URL", VALUE),
    ("RETRY_BULK_QUEUE_URL", VALUE),
    ("DLQ_URL", VALUE),
    ("CONTROL_TABLE", " "),
    ("ENDPOINT_HASH_KEY", VALUE),
    ("POLICY_CACHE_SECONDS", "61"),
];

/// What is good for every function: a table may have any name.
const GOOD: [(&str, &str); 5] = [
    ("DELIVERIES_TABLE", VALUE),
    ("SUBSCRIPTIONS_TABLE", VALUE),
    ("AUDIENCES_TABLE", VALUE),
    ("PARKED_TABLE", VALUE),
    ("DEAD_LETTERS_TABLE", VALUE),
];

/// Starts this bootstrap, as Lambda does, without a variable: it names those of every function and its own, and none that only others
/// need.
pub async fn names_what_is_missing(bootstrap: &str, own: &[&str], of_others: &[&str]) {
    let message = last_line(bootstrap, &[]).await;
    for name in OF_EVERY_FUNCTION.iter().chain(own) {
        assert!(message.contains(name), "{name}: {message}");
    }
    for name in of_others {
        assert!(!message.contains(name), "{name}: {message}");
    }
}

/// Starts this bootstrap, as Lambda does, with what is bad for every function and for this one: it names each of them, and prints no
/// value.
pub async fn names_what_is_bad(bootstrap: &str, own: &[(&str, &str)]) {
    let message = last_line(bootstrap, &[BAD.as_slice(), &GOOD, own].concat()).await;
    for (name, _) in BAD.iter().chain(own) {
        assert!(message.contains(name), "{name}: {message}");
    }
    for (name, _) in GOOD {
        assert!(!message.contains(name), "{name}: {message}");
    }
    assert!(!message.contains(VALUE), "{message}");
}

async fn last_line(bootstrap: &str, env: &[(&str, &str)]) -> String {
    let host = RuntimeApi::start(Path::new(bootstrap), env.iter().copied()).expect("it starts");
    let Err(InvokeError::InitFailed(reason)) = host.init().await else { panic!("it is ready") };
    assert_eq!(reason.lines().next(), Some("exit status: 1"));
    let mut lines: Vec<String> = host.logs().into_iter().map(|line| line.text).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}
