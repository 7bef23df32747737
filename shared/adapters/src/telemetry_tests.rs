use redial_core::audience::{Expansion, RunKey};
use redial_core::channel::Channel;
use redial_core::endpoint::{Endpoint, EndpointHash, HashKeys, Origin};
use redial_core::identity::RunId;
use redial_core::ledger::HeldBy;
use redial_core::page::PageKey;
use redial_core::protection::{AtOrigin, Count};
use redial_core::quota::Quota;
use redial_core::traceparent::Traceparent;
use serde_json::json;

use super::*;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The line of a second dimension, or of the stack alone: metrics, their units and their sums.
fn line(dimension: Option<(&str, &str)>, metrics: &[(&str, &str, Value)]) -> Value {
    let names: Vec<&str> = std::iter::once("Stack").chain(dimension.map(|(name, _)| name)).collect();
    let definitions: Value =
        metrics.iter().map(|(name, unit, _)| json!({"Name": name, "Unit": unit})).collect();
    let of_all = json!({"Namespace": "Redial", "Dimensions": [names], "Metrics": definitions});
    let mut line = json!({"_aws": {"Timestamp": 7, "CloudWatchMetrics": [of_all]}, "Stack": "my-stack"});
    if let Some((name, value)) = dimension {
        line[name] = json!(value);
    }
    for (name, _, value) in metrics {
        line[*name] = value.clone();
    }
    line
}

#[test]
fn metrics_have_one_line_with_reasons_and_providers_and_one_a_lane() {
    let count = |name, n: u64| (name, "Count", json!(n));
    let lines_of = |telemetry: &JsonTelemetry| telemetry.take_lines(Timestamp::from_ms(7));
    let telemetry = JsonTelemetry::new("my-stack".to_owned());
    assert!(lines_of(&telemetry).is_empty());
    telemetry.count(Metric::Attempts, 2);
    telemetry.count(Metric::Attempts, 1);
    telemetry.count(Metric::Expired, 0);
    telemetry.measure(Metric::RetryOverhead, 12.5);
    telemetry.dead_letter(Reason::Rejected, Some(Lane::Bulk));
    telemetry.dead_letter(Reason::Rejected, None);
    telemetry.count_on(Metric::Sent, Lane::Bulk, 5);
    telemetry.measure_on(Metric::DispatchLatency, Lane::Bulk, 40.0);
    telemetry.measure_on(Metric::DispatchLatency, Lane::Transactional, 3.0);
    let latency = |ms: f64| ("DispatchLatency", "Milliseconds", json!([ms]));
    let overhead = ("RetryOverhead", "Milliseconds", json!([12.5]));
    let mut of_stack =
        line(None, &[count("Attempts", 3), count("Sent", 5), count("DeadLetters", 2), overhead]);
    of_stack["DeadLettersByReason"] = json!({"rejected": 2});
    let of_bulk = line(Some(("Lane", "bulk")), &[count("Sent", 5), count("DeadLetters", 1), latency(40.0)]);
    let of_transactional = line(Some(("Lane", "transactional")), &[latency(3.0)]);
    let expected = [of_stack, of_transactional, of_bulk];
    assert_eq!(lines_of(&telemetry), expected);

    let telemetry = JsonTelemetry::new("my-stack".to_owned());
    telemetry.count(Metric::Deferred, 1);
    telemetry.count_with(Metric::Deferred, Provider::Fcm, 2);
    telemetry.count_with(Metric::Deferred, Provider::Other, 4);
    telemetry.count_with(Metric::BreakersOpened, Provider::Fcm, 1);
    telemetry.count_with(Metric::BreakersOpened, Provider::Wns, 0);
    let mut of_stack = line(None, &[count("Deferred", 7), count("BreakersOpened", 1)]);
    of_stack["DeferredByProvider"] = json!({"fcm": 2, "other": 4});
    of_stack["BreakersOpenedByProvider"] = json!({"fcm": 1});
    assert_eq!(lines_of(&telemetry), [of_stack]);
}

/// The lines that are written while `what` runs, without their times.
fn logged(what: impl FnOnce()) -> Vec<Value> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let writer = file.reopen().expect("the file");
    let logging = tracing_subscriber::registry().with(json_lines(Mutex::new(writer)));
    tracing::subscriber::with_default(logging, what);
    let text = std::fs::read_to_string(file.path()).expect("text");
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        line.as_object_mut().expect("an object").remove("timestamp").expect("a time");
        line
    };
    text.lines().map(line).collect()
}

#[test]
fn a_breaker_change_is_logged_with_its_counts_and_no_origin() {
    let telemetry = JsonTelemetry::new("my-stack".to_owned());
    let (since, until) = (Timestamp::from_secs(1_800_000_000), Timestamp::from_ms(1_800_000_030_250));
    let half_open = Phase::HalfOpen { since, sent: 5, succeeded: 4 };
    let recipient = AtOrigin {
        origin: Origin::parse("https://hooks.example").expect("valid"),
        tenant: Tenant::parse("acme").expect("valid"),
        endpoint: EndpointHash::parse(&format!("hmac:k1:{}", "0a".repeat(32))).expect("valid"),
    };
    let count = Count { attempts: 50, failures: 31, limited: 2, retries: 9, held: 5, older: 10, refused: 0 };
    for (from, to, names, has_end) in [
        (Phase::Closed, Phase::Open { until }, ["closed", "open"], true),
        (Phase::Ramping { since }, Phase::Paused { until }, ["ramping", "paused"], true),
        (half_open, Phase::Ramping { since }, ["half_open", "ramping"], false),
    ] {
        let holds_back = if has_end { HoldsBack::OneTenant } else { HoldsBack::OneRecipient(&recipient) };
        let (provider, origin_hash) = (Provider::Other, "hmac:k1:0a");
        let event = BreakerEvent { provider, origin_hash, from, to, count, holds_back };
        let mut line = json!({
            "level": "WARN", "target": "redial_adapters::telemetry", "event": "breaker", "provider": "other",
            "origin_hash": "hmac:k1:0a", "from": names[0], "to": names[1], "attempts": 60, "failures": 31, "limited": 2,
        });
        if has_end {
            line["until"] = json!("2027-01-15T08:00:30.250Z");
            line["holds_back"] = json!("one_tenant");
        } else {
            line["holds_back"] = json!("one_recipient");
            line["tenant"] = json!("acme");
            line["endpoint_hash"] = json!(recipient.endpoint.as_str());
        }
        assert_eq!(logged(|| telemetry.breaker(&event)), [line]);
    }
}

#[test]
fn a_quarantined_subscription_is_logged_without_its_endpoint() {
    let subscription = redial_core::identity::SubscriptionKey {
        tenant: Tenant::parse("acme").expect("valid"),
        id: redial_core::identity::SubscriptionId::parse("s1").expect("valid"),
    };
    let (endpoint_hash, reason) = ("hmac:k1:0a", Reason::Gone);
    let event = QuarantineEvent { subscription: &subscription, endpoint_hash, reason, together: 30, of: 100 };
    let lines = logged(|| JsonTelemetry::new("my-stack".to_owned()).quarantined(&event));
    let line = json!({
        "level": "WARN", "target": "redial_adapters::telemetry", "event": "quarantined", "tenant": "acme",
        "subscription": "s1", "endpoint_hash": "hmac:k1:0a", "reason": "gone", "together": 30, "of": 100,
    });
    assert_eq!(lines, [line]);
}

#[test]
fn a_part_of_an_audience_that_expired_is_logged_with_how_far_it_came() {
    let tenant = Tenant::parse("acme").expect("valid");
    let run = RunKey { tenant, id: RunId::parse("n1-2k").expect("valid") };
    let (message, part) = (DeliveryId::parse("n1").expect("valid"), Expansion { run, shard: 3 });
    let event = AudienceExpired { message: &message, part: &part, recipients: 1_000 };
    let lines = logged(|| JsonTelemetry::new("my-stack".to_owned()).audience_expired(&event));
    let line = json!({
        "level": "WARN", "target": "redial_adapters::telemetry", "event": "audience_expired", "correlation_id": "n1",
        "tenant": "acme", "run": "n1-2k", "part": 3, "recipients": 1_000,
    });
    assert_eq!(lines, [line]);
}

#[test]
fn an_exceeded_quota_is_logged_with_its_numbers() {
    let tenant = Tenant::parse("acme").expect("valid");
    let exceeded = Exceeded { quota: Quota::Parked, limit: 10, used: 12 };
    let lines = logged(|| JsonTelemetry::new("my-stack".to_owned()).quota_exceeded(&tenant, &exceeded));
    let line = json!({
        "level": "WARN", "target": "redial_adapters::telemetry", "event": "quota_exceeded", "tenant": "acme",
        "quota": "parked", "limit": 10, "used": 12,
    });
    assert_eq!(lines, [line]);
}

#[test]
fn an_ignored_limit_is_logged_without_its_origin() {
    let tenant = Tenant::parse("acme").expect("valid");
    let lines = logged(|| {
        limit_ignored(None, "an origin's", "expected a number");
        limit_ignored(Some(&tenant), "subscription h1", "expected a number");
    });
    let line = json!({
        "level": "ERROR", "target": "redial_adapters::telemetry", "event": "limit_ignored",
        "limit": "an origin's", "errors": "expected a number",
    });
    let mut of_tenant = line.clone();
    of_tenant["tenant"] = json!("acme");
    of_tenant["limit"] = json!("subscription h1");
    assert_eq!(lines, [line, of_tenant]);
}

#[test]
fn an_attempt_that_was_not_sent_logs_the_failure() {
    let telemetry = JsonTelemetry::new("my-stack".to_owned());
    let (id, tenant) = (DeliveryId::parse("d1").expect("valid"), Tenant::parse("acme").expect("valid"));
    let event = |not_sent| AttemptEvent {
        correlation_id: &id,
        endpoint_hash: None,
        tenant: &tenant,
        tags: Some("eu order"),
        traceparent: Traceparent::parse(TRACEPARENT),
        channel: "webhook",
        provider: "other",
        attempt: 0,
        status_code: None,
        retry_after_header: None,
        verdict: "retry",
        plan: "retry",
        reason: Some(Reason::NotSent),
        not_sent,
        policy_source: "channel",
        provider_word: None,
        delay_ms: Some(500),
        took_ms: 9,
    };
    let failures = NotSent::ALL.map(Some).into_iter().chain([None]);
    let lines = logged(|| failures.for_each(|failure| telemetry.attempt(&event(failure))));
    let logged: Vec<Option<&str>> = lines.iter().map(|line| line["not_sent"].as_str()).collect();
    let labels = ["dns", "connect", "connect_timeout", "tls", "no_resources"].map(Some);
    assert_eq!(logged, [labels.as_slice(), &[None]].concat());
    assert!(lines.iter().all(|line| line["reason"] == "not_sent" && line["tags"] == "eu order"));
    assert!(lines.iter().all(|line| line["trace_id"] == TRACE));
    let metrics = serde_json::to_string(&telemetry.take_lines(Timestamp::default())).expect("JSON");
    assert!(!metrics.contains("order"), "tags are no dimension: {metrics}");
}

#[test]
fn each_invocation_logs_its_successes_together_whichever_have_lines() {
    let tenant = Tenant::parse("acme").expect("valid");
    // `order-224` is in the sample.
    let ids = ["order-1", "order-224", "order-3"].map(|id| DeliveryId::parse(id).expect("valid"));
    for (success_logs, expected) in [
        (SuccessLogs::All, &["order-1", "order-224", "order-3", "order-1"][..]),
        (SuccessLogs::Sampled, &["order-224", "order-1"]),
        (SuccessLogs::None, &["order-1"]),
    ] {
        let telemetry = JsonTelemetry::new("my-stack".to_owned()).logging(success_logs);
        let attempt = |id, verdict, took_ms| {
            telemetry.attempt(&AttemptEvent {
                correlation_id: id,
                endpoint_hash: None,
                tenant: &tenant,
                tags: Some("eu order"),
                traceparent: None,
                channel: "webhook",
                provider: "other",
                attempt: 0,
                status_code: Some(200),
                retry_after_header: None,
                verdict,
                plan: verdict,
                reason: None,
                not_sent: None,
                policy_source: "channel",
                provider_word: None,
                delay_ms: None,
                took_ms,
            });
        };
        let mut lines = logged(|| {
            ids.iter().zip([10, 20, 60]).for_each(|(id, took_ms)| attempt(id, "sent", took_ms));
            attempt(&ids[0], "retry", 900);
            telemetry.take_lines(Timestamp::default());
        });
        let sum = lines.pop().expect("the line of successes");
        let with_lines: Vec<&str> = lines.iter().filter_map(|line| line["correlation_id"].as_str()).collect();
        assert_eq!(with_lines, expected, "{success_logs}");
        let expected = json!({
            "level": "INFO", "target": "redial_adapters::telemetry", "event": "successes", "sent": 3,
            "logged": with_lines.len() - 1, "success_logs": success_logs.label(), "took_ms": 30, "longest_ms": 60,
        });
        assert_eq!(sum, expected);
        assert_eq!(logged(|| drop(telemetry.take_lines(Timestamp::default()))), [] as [Value; 0]);
    }
}

#[test]
fn a_held_back_message_is_logged_with_its_cause_and_end_time() {
    let id = DeliveryId::parse("order-1").expect("valid");
    let tenant = Tenant::parse("acme").expect("valid");
    let telemetry = JsonTelemetry::new("my-stack".to_owned());
    let lines = logged(|| {
        telemetry.held_back(&HeldEvent {
            correlation_id: &id,
            endpoint_hash: Some("hmac:k1:0a3fc1d2"),
            tenant: &tenant,
            tags: None,
            channel: "web_push",
            provider: "fcm",
            attempt: 1,
            by: HeldBy::Origin,
            until: Timestamp::from_secs(1_800_000_000),
        });
    });
    let expected = json!({
        "level": "INFO", "target": "redial_adapters::telemetry", "event": "held_back", "correlation_id": "order-1",
        "endpoint_hash": "hmac:k1:0a3fc1d2", "tenant": "acme", "channel": "web_push", "provider": "fcm", "attempt": 1,
        "by": "origin", "until": "2027-01-15T08:00:00.000Z",
    });
    assert_eq!(lines, [expected]);
}

#[test]
fn recipients_of_a_page_have_one_line_with_those_of_them_that_are_logged() {
    let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
    let hash = keys.endpoint(&Endpoint::parse("https://push.example/1").expect("valid"));
    let id = |text: &str| DeliveryId::parse(text).expect("valid");
    let run = RunId::parse("P0AZkl2npXCrP85Xl7Zb5dOWd8d_HY2rdf97e7I4Pd0").expect("valid");
    let run = RunKey { tenant: Tenant::parse("acme").expect("valid"), id: run };
    let page = PageKey { run, shard: 3, first: 100 };
    let message = id("news");
    let ids: Vec<DeliveryId> = (0..100).map(|place| page.position(place).delivery()).collect();
    let event = || PageEvent {
        message: &message,
        tags: Some("eu order"),
        traceparent: Traceparent::parse(TRACEPARENT),
        page: &page,
        sent: ids
            .iter()
            .enumerate()
            .map(|(place, id)| SentByPage {
                correlation_id: id,
                place,
                endpoint_hash: (place > 0).then_some(&hash),
                channel: if place == 1 { Channel::Webhook } else { Channel::WebPush },
                provider: if place == 1 { Provider::Other } else { Provider::Fcm },
                status_code: Some(201),
                took_ms: 80 + place as u64,
            })
            .collect(),
    };
    let lines = |success_logs| {
        let telemetry = JsonTelemetry::new("my-stack".to_owned()).logging(success_logs);
        let lines = logged(|| {
            telemetry.sent_by_page(&event());
            telemetry.take_lines(Timestamp::default());
        });
        let (sum, own) = lines.split_last().expect("the line of successes");
        assert_eq!((&sum["event"], &sum["sent"]), (&json!("successes"), &json!(100)));
        (own.to_vec(), sum["logged"].clone())
    };
    let list = |line: &Value, field: &str| -> Vec<String> {
        line[field].as_str().expect("a text").split(' ').map(str::to_owned).collect()
    };
    let (own, count) = lines(SuccessLogs::All);
    let [line] = own.as_slice() else { panic!("{own:?}") };
    assert_eq!(count, 100);
    for (field, value) in [
        ("event", json!("sent_by_page")),
        ("correlation_id", json!("news")),
        ("tenant", json!("acme")),
        ("tags", json!("eu order")),
        ("run", json!(page.run.id.as_str())),
        ("part", json!(3)),
        ("trace_id", json!(TRACE)),
        ("verdict", json!("sent")),
    ] {
        assert_eq!(line[field], value, "{field}");
    }
    let short = hash.short();
    for (field, first) in [
        ("numbers", ["100", "101", "102"]),
        ("endpoints", ["-", short, short]),
        ("to", ["fcm", "webhook", "fcm"]),
        ("statuses", ["201", "201", "201"]),
        ("took_ms", ["80", "81", "82"]),
    ] {
        let list = list(line, field);
        assert_eq!((list.len(), &list[..3]), (100, first.map(str::to_owned).as_slice()), "{field}");
    }
    let sampled = ids.iter().filter(|id| SuccessLogs::Sampled.logs(id.as_str())).count();
    let (own, count) = lines(SuccessLogs::Sampled);
    assert_eq!(count, sampled);
    assert_eq!(own.first().map_or(0, |line| list(line, "numbers").len()), sampled);
    assert_eq!(lines(SuccessLogs::None), (Vec::new(), json!(0)));
}
