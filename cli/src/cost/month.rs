//! What a stack costs by the month: without a message, and once there are some.
//!
//! Amounts are those of `infra/template.yaml`, which is counted here and not copied.

use clap::ValueEnum;
use redial_adapters::subscriptions_dynamo::WALKED_AT_A_TIME;
use redial_core::{lane::Lane, metric::Metric};

use super::line::{Line, MILLION, THOUSAND, line};
use super::prices::Prices;

/// Its resources are billed by the month.
const TEMPLATE: &str = include_str!("../../../infra/template.yaml");

const MINUTES: f64 = 60.0 * 24.0 * 30.0;

/// Lambda's pollers of a queue that is empty: five, each of which waits 20 seconds for a message (Lambda developer guide, "Using Lambda
/// with Amazon SQS").
const POLLS_A_MINUTE: f64 = 5.0 * 3.0;

/// What a scheduled invocation takes in an environment that is kept from the last one, and logs.
const SCHEDULED_MS: f64 = 50.0;
const SCHEDULED_LOG_BYTES: f64 = 700.0;

/// Read units of a sweep that finds nothing, at most: the sweep of bodies looks at an hour's parts.
const SWEEP_READS: f64 = 2.0;

/// An item of a subscription, as reads count it.
const SUBSCRIPTION_BYTES: f64 = 700.0;

/// What DynamoDB adds to an item where it bills storage ("Item sizes and formats").
const STORAGE_OVERHEAD_BYTES: f64 = 100.0;

/// Walks over all subscriptions in a month: one a day.
const WALKS: f64 = 30.0;

/// Bytes that a read unit reads of a scan that is not consistent.
const SCANNED_BY_A_UNIT: f64 = 2.0 * 4_096.0;

/// Transitions of an execution, and the most executions of a month: one per minute and lane.
const TRANSITIONS: f64 = 4.0;
const EXECUTIONS_A_MONTH: f64 = 2.0 * MINUTES;

/// Which alarms a stack has
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(super) enum Alarms {
    /// All, and the dashboard
    Full,
    /// Those of failing functions, old messages, dead letters, breakers and late waits
    #[default]
    Basic,
    None,
}

impl Alarms {
    fn includes(self, resource: &str) -> bool {
        match self {
            Self::Full => true,
            Self::Basic => !resource.contains("\n    Condition: HasAllAlarms\n"),
            Self::None => false,
        }
    }
}

fn count(text: &str) -> f64 {
    TEMPLATE.matches(text).count() as f64
}

/// The template's resources of a type: their texts.
fn resources(of_type: &str) -> impl Iterator<Item = &'static str> {
    let heading = format!("\n    Type: AWS::{of_type}\n");
    let is_name = |line: &str| line.starts_with("  ") && !line.starts_with("   ") && line.ends_with(":\n");
    let mut starts: Vec<usize> = Vec::new();
    let mut at = 0;
    for line in TEMPLATE.split_inclusive('\n') {
        if is_name(line) {
            starts.push(at);
        }
        at += line.len();
    }
    starts.push(TEMPLATE.len());
    let texts: Vec<&'static str> = starts.windows(2).map(|ends| &TEMPLATE[ends[0]..ends[1]]).collect();
    texts.into_iter().filter(move |text| text.contains(&heading))
}

/// A month without a message.
pub(super) fn idle(alarms: Alarms, memory_mb: u32, subscriptions: f64, prices: &Prices) -> Vec<Line> {
    // An alarm is billed by its metrics; a band is two more.
    let metrics_of = |text: &str| {
        text.matches("MetricName: ").count() + 2 * text.matches("ANOMALY_DETECTION_BAND(").count()
    };
    // Of a stack without a queue of events of its own.
    let is_relay_s = |text: &str| text.contains("RelayAlarms\n");
    let of_alarms = resources("CloudWatch::Alarm").filter(|text| alarms.includes(text) && !is_relay_s(text));
    let alarm_metrics = of_alarms.map(metrics_of).sum::<usize>() as f64;
    let dashboards = resources("CloudWatch::Dashboard").filter(|text| alarms.includes(text)).count() as f64;
    let secrets = count("Type: AWS::SecretsManager::Secret");
    let polls = count("          Type: SQS\n") * POLLS_A_MINUTE * MINUTES;
    let rates = [("rate(1 minute)", 1.0), ("rate(5 minutes)", 5.0), ("rate(1 hour)", 60.0)];
    let invocations: f64 = rates.map(|(rate, minutes)| count(rate) * MINUTES / minutes).iter().sum();
    // Publishing the VAPID keys reads their secret and writes one item. The secrets' key is AWS's own, whose use is free.
    let published = count("Input: '{\"publish\":\"vapid_keys\"}'\n").min(1.0) * MINUTES / 5.0;
    let scanned = subscriptions * SUBSCRIPTION_BYTES / SCANNED_BY_A_UNIT * WALKS;
    let reads = (invocations - published) * SWEEP_READS + scanned;
    // A walk writes how far it is after each page.
    let pages = (subscriptions / f64::from(WALKED_AT_A_TIME)).ceil().max(1.0) * WALKS;
    let writes = published + pages;
    let subscriptions_gb = subscriptions * (SUBSCRIPTION_BYTES + STORAGE_OVERHEAD_BYTES) / 1e9;
    let gb_seconds = invocations * SCHEDULED_MS / 1000.0 * f64::from(memory_mb) / 1024.0;
    let log_gb = invocations * SCHEDULED_LOG_BYTES / 1e9;
    let mut lines = vec![
        line("CloudWatch", "alarms' metrics", alarm_metrics, prices.alarm_month, 1.0),
        line("CloudWatch", "dashboards", dashboards, prices.dashboard_month, 1.0),
        line("Secrets Manager", "secrets", secrets, prices.secret_month, 1.0),
        line("Secrets Manager", "requests", published, prices.secrets_thousand_requests, THOUSAND),
        line("SQS", "polls of empty queues", polls, prices.sqs_million_requests, MILLION),
        line("Lambda", "scheduled invocations", invocations, prices.lambda_million_invocations, MILLION),
        line("Lambda", "GB-seconds", gb_seconds, prices.lambda_million_gb_seconds, MILLION),
        line("DynamoDB", "write units", writes, prices.dynamodb_million_write_units, MILLION),
        line("DynamoDB", "read units", reads, prices.dynamodb_million_read_units, MILLION),
        line("DynamoDB", "GB of subscriptions", subscriptions_gb, prices.dynamodb_gb_month, 1.0),
        line("DynamoDB", "GB to restore", subscriptions_gb, prices.dynamodb_recovery_gb_month, 1.0),
        line("CloudWatch Logs", "GB", log_gb, prices.logs_gb, 1.0),
    ];
    lines.retain(|line| line.amount > 0.0);
    lines
}

/// What is paid by the month besides once there are messages, `waits` of which are long.
pub(super) fn busy(waits: f64, prices: &Prices) -> Vec<Line> {
    // Each of the stack; deliveries and their failures of each lane, too; and two latencies of the lanes alone.
    let metrics = (Metric::ALL.len() - 2 + (3 + 2) * Lane::ALL.len()) as f64;
    let transitions = (waits * TRANSITIONS).min(EXECUTIONS_A_MONTH * TRANSITIONS);
    vec![
        line("CloudWatch", "metrics, at most", metrics, prices.metric_month, 1.0),
        line(
            "Step Functions",
            "transitions, at most",
            transitions,
            prices.states_thousand_transitions,
            THOUSAND,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::traffic::DEFAULT_SUBSCRIPTIONS;

    fn amount(lines: &[Line], what: &str) -> f64 {
        lines.iter().find(|line| line.what == what).map_or(0.0, |line| line.amount)
    }

    fn usd(lines: &[Line]) -> f64 {
        lines.iter().map(|line| line.usd).sum()
    }

    #[test]
    fn an_idle_month_costs_less_than_six_dollars() {
        let of = |alarms| idle(alarms, 256, DEFAULT_SUBSCRIPTIONS as f64, &Prices::list());
        let (full, basic, none) = (of(Alarms::Full), of(Alarms::Basic), of(Alarms::None));
        assert!(usd(&basic) < 6.0, "{}", usd(&basic));
        assert!(usd(&none) < 4.0, "{}", usd(&none));
        assert!(usd(&full) > usd(&basic));
        let of_alarms = [&full, &basic, &none].map(|lines| amount(lines, "alarms' metrics"));
        assert_eq!(of_alarms, [76.0, 26.0, 0.0]);
        assert_eq!([&full, &basic].map(|lines| amount(lines, "dashboards")), [1.0, 0.0]);
        assert_eq!(amount(&basic, "secrets"), 4.0);
        // Six queues, and a schedule of a minute, three of five and one of an hour.
        assert_eq!(amount(&basic, "polls of empty queues"), 6.0 * 15.0 * 43_200.0);
        assert_eq!(amount(&basic, "scheduled invocations"), 43_200.0 + 3.0 * 8_640.0 + 720.0);
    }

    #[test]
    fn the_daily_walk_scans_all_subscriptions_at_half_a_unit_for_each_4_kb() {
        let of = |subscriptions| idle(Alarms::Basic, 256, subscriptions, &Prices::list());
        let (none, million) = (of(0.0), of(1e6));
        let more = |what| (amount(&million, what) - amount(&none, what)).round();
        assert_eq!(amount(&million, "GB of subscriptions"), 0.8);
        // Thirty times 0.7 GB: storage alone has another hundred bytes an item.
        assert_eq!(more("read units"), 2_563_477.0);
        // Two thousand pages, and one of an empty table.
        assert_eq!(more("write units"), 30.0 * 1_999.0);
    }

    #[test]
    fn no_managed_key_encrypts_a_table() {
        assert_eq!(count("SSESpecification"), 0.0, "its calls of KMS are not on the bill");
    }

    #[test]
    fn the_secrets_own_key_is_free() {
        let own_keys = resources("SecretsManager::Secret").filter(|text| text.contains("KmsKeyId")).count();
        assert_eq!(own_keys, 0, "their calls of KMS are not on the bill");
        let bill = idle(Alarms::Full, 256, 1e6, &Prices::list());
        assert!(bill.iter().all(|line| line.service != "KMS"), "{bill:?}");
    }

    #[test]
    fn executions_of_a_month_are_at_most_one_a_minute_and_lane() {
        let transitions = |waits| amount(&busy(waits, &Prices::list()), "transitions, at most");
        assert_eq!([0.0, 10.0, 1e9].map(transitions), [0.0, 40.0, 345_600.0]);
    }
}
