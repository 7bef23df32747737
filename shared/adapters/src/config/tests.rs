use std::collections::HashMap;

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

fn read(vars: &HashMap<&str, &str>) -> Result<DispatchConfig, ConfigError> {
    dispatch(from(vars))
}

#[test]
fn defaults_are_as_documented() {
    let config = read(&complete()).expect("complete");
    assert_eq!(config.waits, WaitSettings::default());
    assert_eq!(config.lease_margin, Duration::from_secs(10));
    assert_eq!(config.protection, protection::Settings::default());
    assert_eq!(config.stack.policy_max_age, Duration::from_secs(30));
    assert_eq!(config.webhook_timeout, Duration::from_secs(15));
    assert_eq!(config.switched_off_after, Duration::from_secs(5 * 86_400));
    assert!(config.egress_allow.is_empty());
    let vars = complete();
    let config = cleanup(from(&vars)).expect("complete");
    assert_eq!(config.switched_off_after, Duration::from_secs(5 * 86_400));
}

#[test]
fn one_error_names_everything_missing_or_invalid_and_no_value() {
    let mut vars = complete();
    for name in ["DLQ_URL", "CONTROL_TABLE", "VAPID_SUBJECT", "VAPID_SECRET_ID", "ENDPOINT_HASH_KEY"] {
        vars.remove(name);
    }
    vars.insert("WEBHOOK_KEY", "k1:s3cret");
    vars.insert("WEBHOOK_TIMEOUT_SECONDS", "61");
    vars.insert("WAIT_SHARDS", "s3cret");
    vars.insert("SQS_MAX_DELAY_SECONDS", "901");
    vars.insert("EGRESS_ALLOW", "s3cret");
    vars.insert("EGRESS_CA_FILE", "/nowhere/ca.pem");
    vars.insert("PUSH_HOSTS", "a_b");
    vars.insert("EVENTS_QUEUE_ARN", "s3cret");
    let error = read(&vars).expect_err("incomplete").to_string();
    for name in [
        "DLQ_URL",
        "CONTROL_TABLE",
        "VAPID_SUBJECT",
        "VAPID_SECRET_ID",
        "ENDPOINT_HASH_SECRET_ID",
        "WEBHOOK_KEY",
        "WEBHOOK_TIMEOUT_SECONDS",
        "WAIT_SHARDS",
        "SQS_MAX_DELAY_SECONDS",
        "EGRESS_ALLOW",
        "EGRESS_CA_FILE",
        "PUSH_HOSTS",
        "EVENTS_QUEUE_ARN",
    ] {
        assert!(error.contains(name), "{name}: {error}");
    }
    assert!(!error.contains("s3cret"), "{error}");
}

#[test]
fn policies_are_cached_for_at_most_a_minute() {
    let with = |secs| {
        let mut vars = complete();
        vars.insert("POLICY_CACHE_SECONDS", secs);
        let cleanup = cleanup(from(&vars));
        let dispatch = read(&vars).map(|config| config.stack.policy_max_age);
        assert_eq!(cleanup.map(|config| config.stack.policy_max_age), dispatch);
        dispatch
    };
    assert_eq!(with("0"), Ok(Duration::ZERO));
    assert_eq!(with("60"), Ok(Duration::from_secs(60)));
    for bad in ["61", "-1", "1.5", "soon"] {
        let error = with(bad).expect_err("out of its range").to_string();
        assert!(error.contains("POLICY_CACHE_SECONDS is not a number from 0 to 60"), "{error}");
    }
}

#[test]
fn the_breaker_can_be_off_and_its_first_cooldown_is_bounded() {
    let with = |name, value| {
        let mut vars = complete();
        vars.insert(name, value);
        read(&vars).map(|config| config.protection)
    };
    assert!(!with("BREAKER", "off").expect("valid").judges && with("BREAKER", "on").expect("valid").judges);
    let secs = |first, longest| redial_core::protection::Cooldowns {
        first: Duration::from_secs(first),
        longest: Duration::from_secs(longest),
    };
    for (text, first) in [("1", 1), ("30", 30), ("900", 900)] {
        let cooldowns = with("BREAKER_COOLDOWN_SECONDS", text).map(|it| it.cooldowns);
        assert_eq!(cooldowns, Ok(secs(first, 900)));
    }
    for bad in ["0", "901", "soon"] {
        let error = with("BREAKER_COOLDOWN_SECONDS", bad).expect_err("out of its range").to_string();
        assert!(error.contains("BREAKER_COOLDOWN_SECONDS is not a number from 1 to 900"), "{error}");
    }
    let error = with("BREAKER", "s3cret").expect_err("no switch").to_string();
    assert!(error.contains("BREAKER must be `on` or `off`") && !error.contains("s3cret"), "{error}");
}

#[test]
fn the_http_api_reads_its_cors_origins_and_its_rate_limit() {
    let with = |vars: &[(&'static str, &'static str)]| {
        let mut all = complete();
        all.extend(vars.iter().copied());
        ingest(from(&all))
    };
    let config = with(&[]).expect("complete");
    assert_eq!(config.rate.map(|rate| rate.to_string()).as_deref(), Some(DEFAULT_API_RATE));
    assert!(config.cors_origins.is_empty());
    let config =
        with(&[("API_RATE_LIMIT", "off"), ("API_CORS_ORIGINS", "https://a.example, http://localhost:3000")]);
    let config = config.expect("complete");
    let origins: Vec<_> = config.cors_origins.iter().map(Origin::as_str).collect();
    assert_eq!((config.rate, origins), (None, vec!["https://a.example", "http://localhost:3000"]));
    let error = with(&[("API_RATE_LIMIT", "s3cret"), ("API_CORS_ORIGINS", "*"), ("DLQ_URL", "")]);
    let error = error.expect_err("no rate, and no origin").to_string();
    for name in ["API_RATE_LIMIT", "API_CORS_ORIGINS", "DLQ_URL"] {
        assert!(error.contains(name), "{name}: {error}");
    }
    assert!(!error.contains("s3cret"), "{error}");
}

#[test]
fn the_http_api_needs_no_private_vapid_key_and_no_webhook_key() {
    let mut vars = complete();
    for name in ["VAPID_SECRET_ID", "VAPID_SUBJECT", "WEBHOOK_KEY"] {
        vars.remove(name);
    }
    assert!(ingest(from(&vars)).is_ok());
    let others = read(&vars).expect_err("dispatch signs").to_string();
    assert!(others.contains("VAPID_SECRET_ID") && others.contains("WEBHOOK_KEY_SECRET_ID"), "{others}");
    vars.remove("TOKEN_KEY");
    let error = ingest(from(&vars)).expect_err("it makes tokens");
    assert!(error.to_string().contains("TOKEN_KEY or TOKEN_KEY_SECRET_ID is missing"), "{error}");
}

#[test]
fn an_empty_variable_is_a_missing_one() {
    let mut vars = complete();
    vars.insert("DLQ_URL", " ");
    vars.insert("EGRESS_ALLOW", "");
    let error = read(&vars).expect_err("incomplete").to_string();
    assert!(error.contains("DLQ_URL is missing") && !error.contains("EGRESS_ALLOW"), "{error}");
}
