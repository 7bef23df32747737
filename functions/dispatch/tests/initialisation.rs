//! The binary, started as Lambda starts it, in an environment that will not do.

use redial_testkit::initialisation::{VALUE, names_what_is_bad, names_what_is_missing};

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
        ("BREAKER_COOLDOWN_SECONDS", "901"),
        ("EGRESS_CA_FILE", "/nowhere/ca.pem"),
        ("PUSH_HOSTS", "a_b"),
    ];
    names_what_is_bad(BOOTSTRAP, &own).await;
}
