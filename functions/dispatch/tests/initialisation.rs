//! The binary, started as Lambda starts it, in an environment that will not do.

use std::path::Path;
use std::time::Duration;

use redial_testkit::initialisation::{VALUE, names_what_is_bad, names_what_is_missing};
use redial_testkit::runtime_api::{RuntimeApi, SqsRecord, sqs_event};
use serde_json::json;

const BOOTSTRAP: &str = env!("CARGO_BIN_EXE_dispatch");

#[tokio::test]
async fn everything_that_is_missing_is_named_in_one_message() {
    names_what_is_missing(
        BOOTSTRAP,
        &[
            "WAIT_STATE_MACHINE_ARN",
            "VAPID_SUBJECT",
            "VAPID_SECRET_ID",
            "WEBHOOK_KEY_SECRET_ID",
            "TOKEN_KEY_SECRET_ID",
        ],
        &["SPIKE", "API_"],
    )
    .await;
}

#[tokio::test]
async fn everything_that_is_bad_is_named_in_one_message_and_no_value_is_printed() {
    let own = [
        ("WAIT_STATE_MACHINE_ARN", VALUE),
        ("VAPID_SUBJECT", VALUE),
        ("VAPID_PRIVATE_KEY", VALUE),
        ("WEBHOOK_KEY", VALUE),
        ("TOKEN_KEY", VALUE),
        ("EGRESS_ALLOW", VALUE),
        ("SEND_TIMEOUT_SECONDS", VALUE),
        ("WEBHOOK_TIMEOUT_SECONDS", "61"),
        ("SQS_MAX_DELAY_SECONDS", "901"),
        ("WAIT_BUCKET_SECONDS", "0"),
        ("WAIT_SHARDS", "-1"),
        ("LEASE_MARGIN_SECONDS", VALUE),
        ("BREAKER", VALUE),
        ("SUCCESS_LOGS", VALUE),
        ("OTLP_ENDPOINT", VALUE),
        ("OTLP_HEADERS", VALUE),
        ("RECORD_TOGETHER", VALUE),
        ("AUDIENCE_PAGES", VALUE),
        ("ORIGIN_LINES", VALUE),
        ("DEFAULT_TIME_ZONE", VALUE),
        ("QUOTA_PARKED", VALUE),
        ("QUOTA_DEAD_LETTERS", VALUE),
        ("BREAKER_COOLDOWN_SECONDS", "901"),
        ("EGRESS_CA_FILE", "/nowhere/ca.pem"),
        ("PUSH_HOSTS", "a_b"),
    ];
    names_what_is_bad(BOOTSTRAP, &own).await;
}

#[tokio::test]
async fn while_its_keys_are_out_of_reach_messages_come_back_one_by_one() {
    let url = |name: &str| format!("https://sqs.us-east-1.amazonaws.com/123456789012/{name}");
    let env = [
        ("INGEST_QUEUE_URL", url("ingest")),
        ("BULK_QUEUE_URL", url("bulk")),
        ("RETRY_QUEUE_URL", url("retry")),
        ("RETRY_BULK_QUEUE_URL", url("retry-bulk")),
        ("DLQ_URL", url("dlq")),
        ("DELIVERIES_TABLE", "deliveries".to_owned()),
        ("SUBSCRIPTIONS_TABLE", "subscriptions".to_owned()),
        ("AUDIENCES_TABLE", "audiences".to_owned()),
        ("PARKED_TABLE", "parked".to_owned()),
        ("DEAD_LETTERS_TABLE", "dead-letters".to_owned()),
        ("CONTROL_TABLE", "control".to_owned()),
        ("ENDPOINT_HASH_SECRET_ID", "hash".to_owned()),
        ("WEBHOOK_KEY_SECRET_ID", "webhooks".to_owned()),
        ("TOKEN_KEY_SECRET_ID", "tokens".to_owned()),
        ("VAPID_SECRET_ID", "vapid".to_owned()),
        ("VAPID_SUBJECT", "mailto:push@shop.example".to_owned()),
        ("WAIT_STATE_MACHINE_ARN", "arn:aws:states:us-east-1:123456789012:stateMachine:wait".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        // Nothing listens there.
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1".to_owned()),
    ];
    let host = RuntimeApi::start(Path::new(BOOTSTRAP), env).expect("it starts");
    host.init().await.expect("an outage does not end it");
    let record = |id: &str| {
        let arn = "arn:aws:sqs:us-east-1:123456789012:ingest";
        SqsRecord::new(id, "{}").queue_arn(arn)
    };
    let event = sqs_event([record("one"), record("two")]);
    let response = host.invoke(event, Duration::from_secs(120)).await.expect("an answer");
    let both = json!([{ "itemIdentifier": "one" }, { "itemIdentifier": "two" }]);
    assert_eq!(response["batchItemFailures"], both);
}
