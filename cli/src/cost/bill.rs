//! A bill: amounts and prices.

use clap::Args;
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

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Traffic {
    /// Number of messages
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(super) messages: u64,
    /// Retries per message, on average
    #[arg(long, value_name = "RATE", default_value_t = 0.05, value_parser = rate)]
    pub(super) retry_rate: f64,
    /// Waits of more than 15 minutes per message, on average: long retries and scheduled sends
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = rate)]
    pub(super) long_wait_rate: f64,
    /// Dead letters per message, on average; the attempts before them count as messages and retries
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    pub(super) dead_letter_rate: f64,
    /// Messages in a batch, 1 to 10
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(super) batch: u32,
    /// Bytes of a payload
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=262_144))]
    pub(super) payload_bytes: u32,
    /// Memory of the functions, in MB
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(128..=10_240))]
    pub(super) memory_mb: u32,
    /// Duration of an invocation, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=900_000))]
    pub(super) batch_ms: u32,
    /// Bytes of log per attempt
    #[arg(long, value_name = "BYTES", default_value_t = 600)]
    pub(super) log_bytes: u32,
}

/// From 0 to 100, on average.
fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 100: 0.05 is one in twenty messages".to_owned())
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Line {
    pub(super) service: &'static str,
    pub(super) what: &'static str,
    pub(super) amount: f64,
    /// Of one million, a thousand, or one, as `per` says.
    pub(super) price: f64,
    pub(super) per: f64,
    pub(super) usd: f64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Bill {
    pub(super) traffic: Vec<Line>,
    pub(super) traffic_usd: f64,
    /// What the stack costs per month, whatever the traffic.
    pub(super) month: Vec<Line>,
    pub(super) month_usd: f64,
}

fn line(service: &'static str, what: &'static str, amount: f64, price: f64, per: f64) -> Line {
    Line { service, what, amount, price, per, usd: amount / per * price }
}

const MILLION: f64 = 1_000_000.0;

impl Bill {
    pub(super) fn of(traffic: &Traffic, prices: &Prices) -> Self {
        let Traffic { batch, payload_bytes, memory_mb, batch_ms, log_bytes, .. } = *traffic;
        let messages = traffic.messages as f64;
        let retries = messages * traffic.retry_rate;
        let waits = messages * traffic.long_wait_rate;
        let letters = messages * traffic.dead_letter_rate;
        let attempts =
            [(FIRST_ATTEMPT, messages), (RETRY, retries), (LONG_WAIT, waits), (DEAD_LETTER, letters)];
        let sum = |of: fn(&Counts) -> u32, ten: f64| -> f64 {
            attempts.iter().map(|(counts, n)| f64::from(of(counts)) / ten * n).sum()
        };
        // Calls and invocations are billed per batch, units per item.
        let requests = sum(|counts| counts.sqs_requests, batch.into());
        let invocations = sum(|counts| counts.invocations, batch.into());
        let kilobytes = ((f64::from(payload_bytes) + ENVELOPE_BYTES) / 1024.0).ceil();
        let whole_messages = f64::from(LONG_WAIT.write_units) / 10.0 * waits + BODY_WRITES * letters;
        let writes = sum(|counts| counts.write_units, 10.0) + whole_messages * (kilobytes - 1.0);
        let reads = sum(|counts| counts.read_units, 10.0);
        let gb_seconds = invocations * f64::from(batch_ms) / 1000.0 * f64::from(memory_mb) / 1024.0;
        // A dead letter is a line of its own.
        let log_gb = (messages + retries + letters) * f64::from(log_bytes) / 1e9;
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
        let by_provider_or_lane = 2 * Provider::ALL.len() + 3 * Lane::ALL.len();
        let metrics = (Metric::ALL.len() + Reason::ALL.len() + by_provider_or_lane) as f64;
        let [dashboards, secrets] =
            ["CloudWatch::Dashboard", "SecretsManager::Secret"].map(|of| count(&format!("Type: AWS::{of}")));
        let transition_price = prices.states_thousand_transitions;
        let transitions = (waits * TRANSITIONS).min(EXECUTIONS_A_MONTH * TRANSITIONS);
        let month = vec![
            line("CloudWatch", "alarms' metrics", alarm_metrics, prices.alarm_month, 1.0),
            line("CloudWatch", "metrics, at most", metrics, prices.metric_month, 1.0),
            line("CloudWatch", "dashboards", dashboards, prices.dashboard_month, 1.0),
            line("Secrets Manager", "secrets", secrets, prices.secret_month, 1.0),
            line("Step Functions", "transitions, at most", transitions, transition_price, 1000.0),
        ];
        let usd = |lines: &[Line]| lines.iter().map(|line| line.usd).sum();
        Self { traffic_usd: usd(&lines), month_usd: usd(&month), traffic: lines, month }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAFFIC: Traffic = Traffic {
        messages: 1_000_000,
        retry_rate: 0.0,
        long_wait_rate: 0.0,
        dead_letter_rate: 0.0,
        batch: 10,
        payload_bytes: 200,
        memory_mb: 256,
        batch_ms: 300,
        log_bytes: 600,
    };

    #[test]
    fn a_million_deliveries_cost_by_their_retries_waits_batches_and_dead_letters() {
        // SQS requests, write and read units, invocations, GB-seconds, GB of logs, and USD.
        for (traffic, [requests, writes, reads, invocations, gb_seconds, logs, usd]) in [
            (TRAFFIC, [300e3, 2e6, 1e6, 100e3, 7_500.0, 0.6, 1.94]),
            (Traffic { retry_rate: 1.0, ..TRAFFIC }, [600e3, 4e6, 2e6, 200e3, 15_000.0, 1.2, 3.88]),
            (Traffic { long_wait_rate: 1.0, ..TRAFFIC }, [300e3, 4.1e6, 2e6, 100e3, 7_500.0, 0.6, 3.38]),
            (Traffic { batch: 1, ..TRAFFIC }, [3e6, 2e6, 1e6, 1e6, 75_000.0, 0.6, 4.33]),
            (Traffic { dead_letter_rate: 1.0, ..TRAFFIC }, [600e3, 8.1e6, 1e6, 200e3, 15_000.0, 1.2, 6.32]),
        ] {
            let bill = Bill::of(&traffic, &Prices::list());
            let amounts: Vec<f64> =
                bill.traffic.iter().map(|line| (line.amount * 10.0).round() / 10.0).collect();
            assert_eq!(amounts, [requests, writes, reads, invocations, gb_seconds, logs], "{traffic:?}");
            assert_eq!((bill.traffic_usd * 100.0).round() / 100.0, usd, "{traffic:?}");
        }
    }

    #[test]
    fn a_long_dead_letter_is_stored_and_deleted_whole() {
        let writes = |dead_letter_rate| {
            let traffic = Traffic { dead_letter_rate, payload_bytes: 2_400, ..TRAFFIC };
            Bill::of(&traffic, &Prices::list()).traffic[1].amount.round()
        };
        assert_eq!(writes(1.0) - writes(0.0), 10_100_000.0);
    }

    #[test]
    fn the_template_s_resources_cost_by_the_month() {
        let bill = Bill::of(&Traffic { messages: 0, ..TRAFFIC }, &Prices::list());
        assert_eq!(bill.traffic_usd, 0.0);
        let amount = |what: &str| bill.month.iter().find(|line| line.what == what).expect("a line").amount;
        assert!(amount("alarms' metrics") >= 34.0 && amount("secrets") >= 3.0 && amount("dashboards") >= 1.0);
    }
}
