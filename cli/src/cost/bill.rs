//! A bill: amounts and prices.

use redial_core::{lane::Lane, metric::Metric, provider::Provider, reason::Reason};
use serde::Serialize;

use super::counts::{Counts, DEAD_LETTER, FIRST_ATTEMPT, LONG_WAIT, RETRY};
use super::prices::Prices;

/// Its resources are billed by the month.
const TEMPLATE: &str = include_str!("../../../infra/template.yaml");

/// Bytes of a stored message besides its payload: the names of its fields, its subscription.
const ENVELOPE_BYTES: f64 = 600.0;

/// Writes of a dead letter that cost units for its whole body: stored and deleted. Its description and all rows of indexes stay
/// small.
const BODY_WRITES: f64 = 2.0;

/// Transitions of an execution, and the most executions of a month: one per minute and lane.
const TRANSITIONS: f64 = 4.0;
const EXECUTIONS_A_MONTH: f64 = 2.0 * 60.0 * 24.0 * 30.0;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Traffic {
    pub(crate) messages: f64,
    /// Per message, on average, as the next two.
    pub(crate) retry_rate: f64,
    /// Waits of more than 15 minutes.
    pub(crate) long_wait_rate: f64,
    pub(crate) dead_letter_rate: f64,
    /// Messages in a batch, 1 to 10.
    pub(crate) batch: f64,
    pub(crate) payload_bytes: f64,
    pub(crate) memory_mb: f64,
    /// Duration of an invocation.
    pub(crate) batch_ms: f64,
    /// Per attempt.
    pub(crate) log_bytes: f64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) service: &'static str,
    pub(crate) what: &'static str,
    pub(crate) amount: f64,
    /// Of one million, a thousand, or one, as `per` says.
    pub(crate) price: f64,
    pub(crate) per: f64,
    pub(crate) usd: f64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Bill {
    pub(crate) traffic: Vec<Line>,
    pub(crate) traffic_usd: f64,
    /// What the stack costs per month, whatever the traffic.
    pub(crate) month: Vec<Line>,
    pub(crate) month_usd: f64,
}

fn line(service: &'static str, what: &'static str, amount: f64, price: f64, per: f64) -> Line {
    Line { service, what, amount, price, per, usd: amount / per * price }
}

const MILLION: f64 = 1_000_000.0;

impl Bill {
    pub(crate) fn of(traffic: &Traffic, prices: &Prices) -> Self {
        let Traffic { messages, batch, .. } = *traffic;
        let retries = messages * traffic.retry_rate;
        let waits = messages * traffic.long_wait_rate;
        let letters = messages * traffic.dead_letter_rate;
        let attempts =
            [(FIRST_ATTEMPT, messages), (RETRY, retries), (LONG_WAIT, waits), (DEAD_LETTER, letters)];
        let sum = |of: fn(&Counts) -> u32, ten: f64| -> f64 {
            attempts.iter().map(|(counts, n)| f64::from(of(counts)) / ten * n).sum()
        };
        // Calls and invocations are billed per batch, units per item.
        let requests = sum(|counts| counts.sqs_requests, batch);
        let invocations = sum(|counts| counts.invocations, batch);
        let kilobytes = ((traffic.payload_bytes + ENVELOPE_BYTES) / 1024.0).ceil();
        let whole_messages = f64::from(LONG_WAIT.write_units) / 10.0 * waits + BODY_WRITES * letters;
        let writes = sum(|counts| counts.write_units, 10.0) + whole_messages * (kilobytes - 1.0);
        let reads = sum(|counts| counts.read_units, 10.0);
        let gb_seconds = invocations * traffic.batch_ms / 1000.0 * traffic.memory_mb / 1024.0;
        // A dead letter is a line of its own.
        let log_gb = (messages + retries + letters) * traffic.log_bytes / 1e9;
        let lines = vec![
            line("SQS", "requests", requests, prices.sqs_million_requests, MILLION),
            line("DynamoDB", "write units", writes, prices.dynamodb_million_write_units, MILLION),
            line("DynamoDB", "read units", reads, prices.dynamodb_million_read_units, MILLION),
            line("Lambda", "invocations", invocations, prices.lambda_million_invocations, MILLION),
            line("Lambda", "GB-seconds", gb_seconds, prices.lambda_million_gb_seconds, MILLION),
            line("CloudWatch Logs", "GB", log_gb, prices.logs_gb, 1.0),
        ];
        let count = |text: &str| TEMPLATE.matches(text).count() as f64;
        // An alarm is billed by its metrics; a band is two more.
        let alarm_metrics = count("MetricName: ") + 2.0 * count("ANOMALY_DETECTION_BAND(");
        let by_provider = 2 * Provider::ALL.len();
        let by_lane = 3 * Lane::ALL.len();
        let metrics = (Metric::ALL.len() + Reason::ALL.len() + by_provider + by_lane) as f64;
        let transitions = (waits * TRANSITIONS).min(EXECUTIONS_A_MONTH * TRANSITIONS);
        let month = vec![
            line("CloudWatch", "alarms' metrics", alarm_metrics, prices.alarm_month, 1.0),
            line("CloudWatch", "metrics, at most", metrics, prices.metric_month, 1.0),
            line(
                "CloudWatch",
                "dashboards",
                count("Type: AWS::CloudWatch::Dashboard"),
                prices.dashboard_month,
                1.0,
            ),
            line(
                "Secrets Manager",
                "secrets",
                count("Type: AWS::SecretsManager::Secret"),
                prices.secret_month,
                1.0,
            ),
            line(
                "Step Functions",
                "transitions, at most",
                transitions,
                prices.states_thousand_transitions,
                1000.0,
            ),
        ];
        let usd = |lines: &[Line]| lines.iter().map(|line| line.usd).sum();
        Self { traffic_usd: usd(&lines), month_usd: usd(&month), traffic: lines, month }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic() -> Traffic {
        Traffic {
            messages: MILLION,
            retry_rate: 0.0,
            long_wait_rate: 0.0,
            dead_letter_rate: 0.0,
            batch: 10.0,
            payload_bytes: 200.0,
            memory_mb: 256.0,
            batch_ms: 300.0,
            log_bytes: 600.0,
        }
    }

    fn usd(traffic: &Traffic) -> f64 {
        (Bill::of(traffic, &Prices::list()).traffic_usd * 100.0).round() / 100.0
    }

    #[test]
    fn a_million_deliveries_in_batches_of_ten() {
        let bill = Bill::of(&traffic(), &Prices::list());
        let amounts: Vec<f64> = bill.traffic.iter().map(|line| (line.amount * 10.0).round() / 10.0).collect();
        assert_eq!(amounts, [300_000.0, 2_000_000.0, 1_000_000.0, 100_000.0, 7_500.0, 0.6]);
        assert_eq!(usd(&traffic()), 1.94);
        let retried = Traffic { retry_rate: 1.0, ..traffic() };
        assert_eq!(usd(&retried), 3.88, "a retry costs what an attempt costs");
        assert_eq!(usd(&Traffic { long_wait_rate: 1.0, ..traffic() }), 3.32);
        assert_eq!(usd(&Traffic { batch: 1.0, ..traffic() }), 4.33);
    }

    #[test]
    fn a_dead_letter_costs_more_than_its_attempts() {
        let more = |traffic: Traffic| {
            let without = Bill::of(&Traffic { dead_letter_rate: 0.0, ..traffic }, &Prices::list()).traffic;
            let with = Bill::of(&traffic, &Prices::list()).traffic;
            let more: Vec<f64> =
                with.iter().zip(&without).map(|(a, b)| (a.amount - b.amount).round()).collect();
            more
        };
        let each = Traffic { dead_letter_rate: 1.0, ..traffic() };
        assert_eq!(more(each), [300_000.0, 6_000_000.0, 0.0, 100_000.0, 7_500.0, 1.0]);
        let of_three_kilobytes = Traffic { payload_bytes: 2_400.0, ..each };
        assert_eq!(more(of_three_kilobytes)[1], 10_000_000.0, "the body is stored and deleted whole");
        assert_eq!(more(traffic()), [0.0; 6]);
    }

    #[test]
    fn the_template_s_resources_cost_by_the_month() {
        let bill = Bill::of(&Traffic { messages: 0.0, ..traffic() }, &Prices::list());
        assert_eq!(bill.traffic_usd, 0.0);
        let amount = |what: &str| bill.month.iter().find(|line| line.what == what).expect("a line").amount;
        assert!(amount("alarms' metrics") >= 34.0 && amount("secrets") >= 3.0 && amount("dashboards") >= 1.0);
    }
}
