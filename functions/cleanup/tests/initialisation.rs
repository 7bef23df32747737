//! The binary, started as Lambda starts it, in an environment that will not do.

use redial_testkit::initialisation::{VALUE, names_what_is_bad, names_what_is_missing};

const BOOTSTRAP: &str = env!("CARGO_BIN_EXE_cleanup");

#[tokio::test]
async fn everything_that_is_missing_is_named_in_one_message() {
    names_what_is_missing(BOOTSTRAP, &["WEBHOOK_KEY_SECRET_ID"], &["VAPID", "STATE_MACHINE", "TOKEN_KEY"])
        .await;
}

#[tokio::test]
async fn everything_that_is_bad_is_named_in_one_message_and_no_value_is_printed() {
    let own = [
        ("WEBHOOK_KEY", VALUE),
        ("SPIKE_WINDOW_SECONDS", "0"),
        ("SPIKE_AT_LEAST", VALUE),
        ("SPIKE_SHARE", "1.5"),
        ("WAIT_LATE_SECONDS", VALUE),
        ("WEBHOOK_SWITCHED_OFF_AFTER_SECONDS", "0"),
        ("SUSPECT_APART_SECONDS", "0"),
        ("EVENTS_RELAY_QUEUE_ARN", VALUE),
        ("PRODUCERS_EVENTS_QUEUE_ARN", VALUE),
        ("EVENT_BUS_ARN", VALUE),
        ("CALLBACKS", VALUE),
    ];
    names_what_is_bad(BOOTSTRAP, &own).await;
}
