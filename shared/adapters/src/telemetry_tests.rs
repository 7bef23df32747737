use std::io;
use std::sync::Arc;

use redial_core::protection::Count;

use super::*;

#[test]
fn metrics_have_one_line_and_one_more_for_each_reason_and_lane() {
    let telemetry = JsonTelemetry::new("my-stack".to_owned());
    telemetry.count(Metric::Attempts, 2);
    telemetry.count(Metric::Attempts, 1);
    telemetry.count(Metric::Expired, 0);
    telemetry.measure(Metric::RetryOverhead, 12.5);
    telemetry.dead_letter(Reason::Rejected, Some(Lane::Bulk));
    telemetry.dead_letter(Reason::Rejected, None);
    telemetry.count_on(Metric::Sent, Lane::Bulk, 5);
    let lines = lines("my-stack", &telemetry.sums(), Timestamp::from_ms(7));
    let aws = |dimensions: Value, metrics: Value| {
        json!({"Timestamp": 7, "CloudWatchMetrics": [
            {"Namespace": "Redial", "Dimensions": [dimensions], "Metrics": metrics},
        ]})
    };
    let metric = |name: &str| json!({"Name": name, "Unit": "Count"});
    let overhead = json!({"Name": "RetryOverhead", "Unit": "Milliseconds"});
    let all = json!([metric("Attempts"), metric("Sent"), metric("DeadLetters"), overhead]);
    assert_eq!(
        lines,
        [
            json!({
                "_aws": aws(json!(["Stack"]), all),
                "Stack": "my-stack", "Attempts": 3, "Sent": 5, "DeadLetters": 2, "RetryOverhead": [12.5],
            }),
            json!({
                "_aws": aws(json!(["Stack", "Lane"]), json!([metric("Sent"), metric("DeadLetters")])),
                "Stack": "my-stack", "Lane": "bulk", "Sent": 5, "DeadLetters": 1,
            }),
            json!({
                "_aws": aws(json!(["Stack", "Reason"]), json!([metric("DeadLetters")])),
                "Stack": "my-stack", "Reason": "rejected", "DeadLetters": 2,
            }),
        ]
    );
}

#[test]
fn metrics_by_provider_are_in_the_sum_and_in_a_line_each() {
    let telemetry = JsonTelemetry::new("my-stack".to_owned());
    telemetry.count(Metric::Deferred, 1);
    telemetry.count_with(Metric::Deferred, Provider::Fcm, 2);
    telemetry.count_with(Metric::Deferred, Provider::Other, 4);
    telemetry.count_with(Metric::BreakersOpened, Provider::Fcm, 1);
    telemetry.count_with(Metric::BreakersOpened, Provider::Wns, 0);
    let lines = lines("my-stack", &telemetry.sums(), Timestamp::from_ms(7));
    let both = json!([{"Name": "Deferred", "Unit": "Count"}, {"Name": "BreakersOpened", "Unit": "Count"}]);
    let aws = |dimensions: Value, metrics: Value| {
        json!({"Timestamp": 7, "CloudWatchMetrics": [
            {"Namespace": "Redial", "Dimensions": [dimensions], "Metrics": metrics},
        ]})
    };
    let with_provider = json!(["Stack", "Provider"]);
    assert_eq!(
        lines,
        [
            json!({"_aws": aws(json!(["Stack"]), both.clone()), "Stack": "my-stack", "Deferred": 7, "BreakersOpened": 1}),
            json!({
                "_aws": aws(with_provider.clone(), both),
                "Stack": "my-stack", "Provider": "fcm", "Deferred": 2, "BreakersOpened": 1,
            }),
            json!({
                "_aws": aws(with_provider, json!([{"Name": "Deferred", "Unit": "Count"}])),
                "Stack": "my-stack", "Provider": "other", "Deferred": 4,
            }),
        ]
    );
}

/// The lines that are written while `what` runs, without their times.
fn logged(what: impl FnOnce()) -> Vec<Value> {
    #[derive(Clone, Default)]
    struct Pipe(Arc<Mutex<Vec<u8>>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let pipe = Pipe::default();
    let writer = pipe.clone();
    let logging = tracing_subscriber::registry().with(json_lines(move || writer.clone()));
    tracing::subscriber::with_default(logging, what);
    let text = String::from_utf8(pipe.0.lock().expect("no panic").clone()).expect("text");
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
    let until = Timestamp::from_ms(1_800_000_030_250);
    let count = Count { attempts: 50, failures: 31, limited: 2, retries: 9, held: 5, older: 10 };
    let event =
        |from, to| BreakerEvent { provider: Provider::Other, origin_hash: "hmac:k1:0a", from, to, count };
    let since = Timestamp::from_secs(1_800_000_000);
    let half_open = Phase::HalfOpen { since, sent: 5, succeeded: 4 };
    let lines = logged(|| {
        telemetry.breaker(&event(Phase::Closed, Phase::Open { until }));
        telemetry.breaker(&event(Phase::Ramping { since }, Phase::Paused { until }));
        telemetry.breaker(&event(half_open, Phase::Ramping { since }));
    });
    let line = |from: &str, to: &str, until: Option<&str>| {
        let mut line = json!({
            "level": "WARN", "target": "redial_adapters::telemetry", "event": "breaker", "provider": "other",
            "origin_hash": "hmac:k1:0a", "from": from, "to": to, "attempts": 60, "failures": 31, "limited": 2,
        });
        if let Some(until) = until {
            line["until"] = json!(until);
        }
        line
    };
    let until = Some("2027-01-15T08:00:30.250Z");
    assert_eq!(
        lines,
        [line("closed", "open", until), line("ramping", "paused", until), line("half_open", "ramping", None),]
    );
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
    assert_eq!(logged, [Some("dns"), Some("connect"), Some("connect_timeout"), Some("tls"), None]);
    assert!(lines.iter().all(|line| line["reason"] == "not_sent"));
}
