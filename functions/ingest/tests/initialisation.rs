//! The binary, started as Lambda starts it, with an invalid environment.

use redial_testkit::initialisation::{VALUE, names_what_is_bad, names_what_is_missing};

const BOOTSTRAP: &str = env!("CARGO_BIN_EXE_ingest");

#[tokio::test]
async fn one_error_names_every_missing_variable() {
    names_what_is_missing(
        BOOTSTRAP,
        &["TOKEN_KEY_SECRET_ID"],
        &["WAIT_STATE_MACHINE_ARN", "VAPID_SUBJECT", "VAPID_SECRET_ID", "WEBHOOK_KEY_SECRET_ID"],
    )
    .await;
}

#[tokio::test]
async fn one_error_names_every_invalid_variable_and_no_value() {
    let own = [
        ("TOKEN_KEY", VALUE),
        ("EGRESS_ALLOW", VALUE),
        ("PUSH_HOSTS", "a_b"),
        ("API_CORS_ORIGINS", VALUE),
        ("API_RATE_LIMIT", VALUE),
        ("QUOTA_SUBSCRIPTIONS", VALUE),
        ("QUOTA_PARKED", VALUE),
        ("EVENTS_QUEUE_ARN", VALUE),
    ];
    names_what_is_bad(BOOTSTRAP, &own).await;
}
