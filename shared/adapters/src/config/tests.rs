use std::collections::HashMap;

use redial_core::quota::Limit;

use super::*;

fn complete() -> HashMap<&'static str, &'static str> {
    HashMap::from([
        ("INGEST_QUEUE_URL", "https://sqs.example/1/ingest"),
        ("BULK_QUEUE_URL", "https://sqs.example/1/bulk"),
        ("RETRY_QUEUE_URL", "https://sqs.example/1/retry"),
        ("RETRY_BULK_QUEUE_URL", "https://sqs.example/1/retry-bulk"),
        ("DLQ_URL", "https://sqs.example/1/dlq"),
        ("DELIVERIES_TABLE", "deliveries"),
        ("SUBSCRIPTIONS_TABLE", "subscriptions"),
        ("AUDIENCES_TABLE", "audiences"),
        ("PARKED_TABLE", "parked"),
        ("DEAD_LETTERS_TABLE", "dead_letters"),
        ("CONTROL_TABLE", "control"),
        ("WAIT_STATE_MACHINE_ARN", "arn:aws:states:eu-central-1:1:stateMachine:wait"),
        ("VAPID_SUBJECT", "mailto:ops@example.com"),
        ("VAPID_SECRET_ID", "vapid"),
        ("ENDPOINT_HASH_KEY", "k1:0123456789abcdef"),
        ("WEBHOOK_KEY", "k1:0123456789abcdef"),
        ("TOKEN_KEY", "k1:0123456789abcdef"),
    ])
}

fn from(vars: &HashMap<&str, &str>) -> impl Fn(&str) -> Option<String> {
    move |name| vars.get(name).map(|value| (*value).to_owned())
}

/// The complete variables, but for these; an empty one is a missing one.
fn with(changes: &[(&'static str, &'static str)]) -> HashMap<&'static str, &'static str> {
    let mut vars = complete();
    vars.extend(changes.iter().copied());
    vars
}

fn read(changes: &[(&'static str, &'static str)]) -> Result<DispatchConfig, ConfigError> {
    dispatch(from(&with(changes)))
}

/// One error has all of these texts, and no value.
fn has_all<T: std::fmt::Debug>(read: Result<T, ConfigError>, texts: &[&str]) {
    let error = read.expect_err("invalid").to_string();
    for text in texts {
        assert!(error.contains(text), "{text}: {error}");
    }
    assert!(!error.contains("s3cret"), "{error}");
}

#[test]
fn defaults_are_as_documented() {
    let config = read(&[]).expect("complete");
    assert_eq!(config.waits, WaitSettings::default());
    assert_eq!(config.lease_margin, Duration::from_secs(10));
    assert_eq!(config.protection, protection::Settings::default());
    assert_eq!(config.stack.policy_max_age, Duration::from_secs(30));
    assert_eq!(config.webhook_timeout, Duration::from_secs(15));
    assert!(config.egress_allow.is_empty());
    let cleanup = cleanup(from(&complete())).expect("complete");
    let five_days = Duration::from_secs(5 * 86_400);
    assert_eq!((config.switched_off_after, cleanup.switched_off_after), (five_days, five_days));
}

#[test]
fn one_error_names_everything_missing_or_invalid_and_no_value() {
    let changes = [
        ("DLQ_URL", " "),
        ("CONTROL_TABLE", ""),
        ("VAPID_SUBJECT", ""),
        ("VAPID_SECRET_ID", ""),
        ("ENDPOINT_HASH_KEY", ""),
        ("WEBHOOK_KEY", "k1:s3cret"),
        ("WEBHOOK_TIMEOUT_SECONDS", "61"),
        ("WAIT_SHARDS", "s3cret"),
        ("SQS_MAX_DELAY_SECONDS", "901"),
        ("EGRESS_ALLOW", "s3cret"),
        ("EGRESS_CA_FILE", "/nowhere/ca.pem"),
        ("PUSH_HOSTS", "a_b"),
        ("EVENTS_QUEUE_ARN", "s3cret"),
        ("STRIP_PAYLOAD_FIELDS", "s3cret,,"),
    ];
    has_all(read(&changes), &changes.map(|(name, _)| name));
    has_all(read(&changes), &["DLQ_URL is missing", "ENDPOINT_HASH_SECRET_ID"]);
    assert!(read(&[("EGRESS_ALLOW", "")]).is_ok());
}

#[test]
fn a_queue_of_events_in_another_region_is_refused() {
    let arn = "arn:aws:sqs:eu-central-1:123456789012:app";
    for name in ["EVENTS_QUEUE_ARN", "PRODUCERS_EVENTS_QUEUE_ARN"] {
        let read = |region| cleanup(from(&with(&[(name, arn), ("AWS_REGION", region)])));
        let expected = format!(
            "{name} (parameter EventsQueueArn) is a queue in eu-central-1, and the stack is in eu-west-1 (expected a queue in eu-west-1)"
        );
        has_all(read("eu-west-1"), &[&expected]);
        assert!(read("eu-central-1").is_ok() && read("").is_ok());
    }
}

#[test]
fn successes_are_logged_as_one_of_three_words_says() {
    for (text, expected) in [
        ("", SuccessLogs::All),
        ("all", SuccessLogs::All),
        ("sampled", SuccessLogs::Sampled),
        ("none", SuccessLogs::None),
    ] {
        assert_eq!(read(&[("SUCCESS_LOGS", text)]).expect("valid").success_logs, expected, "{text:?}");
    }
    has_all(read(&[("SUCCESS_LOGS", "s3cret")]), &["SUCCESS_LOGS must be `all`, `sampled` or `none`"]);
}

#[test]
fn suspect_subscriptions_are_sent_to_unless_they_are_to_be_held() {
    let default = read(&[]).expect("complete");
    assert_eq!((default.suspects, default.probed_every), (Suspects::Send, suspicion::PROBED_EVERY));
    assert_eq!(read(&[("SUSPECT_SUBSCRIPTIONS", "hold")]).expect("valid").suspects, Suspects::Hold);
    has_all(
        read(&[("SUSPECT_SUBSCRIPTIONS", "s3cret")]),
        &["SUSPECT_SUBSCRIPTIONS must be `send` or `hold`"],
    );
    has_all(read(&[("SUSPECT_PROBE_SECONDS", "0")]), &["SUSPECT_PROBE_SECONDS"]);
    assert_eq!(cleanup(from(&complete())).expect("complete").suspect_apart, suspicion::APART);
}

#[test]
fn spans_go_nowhere_unless_a_collector_is_named() {
    let none = read(&[("OTLP_ENDPOINT", ""), ("OTLP_HEADERS_SECRET_ID", "")]).expect("complete");
    assert!(none.otlp.is_none() && none.otlp_headers.is_none());
    let given = [("OTLP_ENDPOINT", "http://collector:4318"), ("OTLP_HEADERS_SECRET_ID", "arn:of:headers")];
    let config = read(&given).expect("complete");
    let url = config.otlp.map(|collector| collector.url().to_string());
    assert_eq!(url.as_deref(), Some("http://collector:4318/v1/traces"));
    let headers = config.otlp_headers;
    assert!(matches!(headers, Some(SecretLocation::SecretsManager(id)) if id == "arn:of:headers"));
    for (endpoint, error) in [
        ("s3cret", "OTLP_ENDPOINT is not the address of a collector (expected "),
        ("ftp://s3cret", "OTLP_ENDPOINT must begin with https:// or http://"),
        ("https://user:s3cret@collector", "OTLP_ENDPOINT must not contain a user name"),
    ] {
        has_all(read(&[("OTLP_ENDPOINT", endpoint)]), &[error]);
    }
    has_all(read(&[("OTLP_HEADERS", "s3cret")]), &["OTLP_HEADERS is invalid: expected NAME=VALUE"]);
}

#[test]
fn numbers_and_switches_have_ranges() {
    for (name, good, bad, range) in [
        ("POLICY_CACHE_SECONDS", ["0", "60"], ["61", "-1", "1.5", "s3cret"], "0 to 60"),
        ("BREAKER_COOLDOWN_SECONDS", ["1", "900"], ["0", "901", "1.5", "s3cret"], "1 to 900"),
    ] {
        for text in good {
            let config = read(&[(name, text)]).expect("within its range");
            let first = config.protection.cooldowns.first;
            let found = if name == "POLICY_CACHE_SECONDS" { config.stack.policy_max_age } else { first };
            assert_eq!(found.as_secs().to_string(), text, "{name}");
            assert_eq!(config.protection.cooldowns.longest, Duration::from_secs(900));
        }
        for text in bad {
            let expected = format!("{name} is not a number from {range}");
            has_all(read(&[(name, text)]), &[&expected]);
            if name == "POLICY_CACHE_SECONDS" {
                has_all(cleanup(from(&with(&[(name, text)]))), &[&expected]);
            }
        }
    }
    for (text, judges) in [("off", false), ("on", true)] {
        assert_eq!(read(&[("BREAKER", text)]).expect("valid").protection.judges, judges);
    }
    has_all(read(&[("BREAKER", "s3cret")]), &["BREAKER must be `on` or `off`"]);
    let cleanup = cleanup(from(&with(&[("POLICY_CACHE_SECONDS", "7")]))).expect("valid");
    assert_eq!(cleanup.stack.policy_max_age, Duration::from_secs(7));
}

#[test]
fn the_http_api_reads_its_cors_origins_and_its_rate_limit() {
    let read = |changes: &[(&'static str, &'static str)]| ingest(from(&with(changes)));
    let config = read(&[]).expect("complete");
    assert_eq!(config.rate.map(|rate| rate.to_string()).as_deref(), Some(DEFAULT_API_RATE));
    assert!(config.cors_origins.is_empty());
    let sites = "https://a.example, http://localhost:3000";
    let config = read(&[("API_RATE_LIMIT", "off"), ("API_CORS_ORIGINS", sites)]).expect("complete");
    let origins: Vec<_> = config.cors_origins.iter().map(Origin::as_str).collect();
    assert_eq!((config.rate, origins.join(", ").as_str()), (None, sites));
    let changes = [("API_RATE_LIMIT", "s3cret"), ("API_CORS_ORIGINS", "*"), ("DLQ_URL", "")];
    has_all(read(&changes), &changes.map(|(name, _)| name));
}

#[test]
fn quotas_are_numbers_or_off_in_both_functions_that_keep_to_them() {
    let default = quota::Limits::DEFAULT;
    assert_eq!(default.to_string(), "1000000000");
    let changes = [("QUOTA_SUBSCRIPTIONS", "5"), ("QUOTA_PARKED", "off")];
    let expected = quota::Limits { subscriptions: Limit::Most(5), parked: Limit::Off, dead_letters: default };
    assert_eq!(read(&changes).expect("complete").quotas, expected);
    assert_eq!(ingest(from(&with(&changes))).expect("complete").quotas, expected);
    let changes = ["QUOTA_SUBSCRIPTIONS", "QUOTA_PARKED", "QUOTA_DEAD_LETTERS"].map(|name| (name, "s3cret"));
    let problems = changes.map(|(name, _)| format!("{name} is not a quota (expected a whole number from 0"));
    let problems = problems.each_ref().map(String::as_str);
    has_all(read(&changes), &problems);
    has_all(ingest(from(&with(&changes))), &problems);
}

#[test]
fn the_http_api_needs_no_private_vapid_key_and_no_webhook_key() {
    let others = [("VAPID_SECRET_ID", ""), ("VAPID_SUBJECT", ""), ("WEBHOOK_KEY", "")];
    assert!(ingest(from(&with(&others))).is_ok());
    has_all(read(&others), &["VAPID_SECRET_ID", "WEBHOOK_KEY_SECRET_ID"]);
    has_all(ingest(from(&with(&[("TOKEN_KEY", "")]))), &["TOKEN_KEY or TOKEN_KEY_SECRET_ID is missing"]);
}

#[test]
fn events_are_relayed_to_the_queue_and_the_bus_that_cleanup_is_given() {
    let read = |changes: &[(&'static str, &'static str)]| cleanup(from(&with(changes)));
    let (queue, bus) = (
        "arn:aws:sqs:eu-central-1:123456789012:app",
        "arn:aws:events:eu-central-1:123456789012:event-bus/app",
    );
    let config = read(&[("PRODUCERS_EVENTS_QUEUE_ARN", queue), ("EVENT_BUS_ARN", bus)]).expect("valid");
    assert_eq!(config.event_bus.as_deref(), Some(bus));
    assert!(config.producers_events.is_some_and(|own| own.is_source(queue)));
    let none = read(&[("EVENT_BUS_ARN", " ")]).expect("valid");
    assert_eq!((none.event_bus, none.producers_events, none.callbacks), (None, None, false));
    assert!(read(&[("CALLBACKS", "on")]).expect("valid").callbacks);
    let bad =
        [("PRODUCERS_EVENTS_QUEUE_ARN", "s3cret"), ("EVENT_BUS_ARN", "s3cret"), ("CALLBACKS", "s3cret")];
    has_all(read(&bad), &bad.map(|(name, _)| name));
}
