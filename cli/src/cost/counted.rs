//! What was counted of a stack's use, at the same prices as a bill.

use serde::Serialize;

use super::counts::FIRST_ATTEMPT;
use super::line::{FAIR_REQUESTS, MILLION, line};
use super::prices::Prices;

const GIGABYTE: f64 = 1e9;

/// What a stack was counted to have used; `None` is what nothing counts there.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) write_units: Option<f64>,
    pub(crate) read_units: Option<f64>,
    pub(crate) invocations: Option<f64>,
    pub(crate) gb_seconds: Option<f64>,
    pub(crate) sqs_requests: Option<f64>,
    pub(crate) log_bytes: Option<f64>,
}

/// A count with its price and what it costs, in USD.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Used {
    pub(crate) service: &'static str,
    pub(crate) what: &'static str,
    pub(crate) amount: Option<f64>,
    pub(crate) price: f64,
    pub(crate) per: f64,
    pub(crate) usd: Option<f64>,
}

impl Counts {
    /// SQS has no count of requests. A batch is sent, received and deleted by a request each, as a bill counts them.
    pub(crate) fn sqs_requests_of(batches: f64) -> f64 {
        batches * f64::from(FIRST_ATTEMPT.sqs_requests) / f64::from(FIRST_ATTEMPT.invocations)
    }

    /// At list prices: one for each count.
    pub(crate) fn priced(&self) -> [Used; 7] {
        let prices = Prices::list();
        let used = |service, what, amount: Option<f64>, price, per| {
            let usd = amount.map(|amount| line(service, what, amount, price, per).usd);
            Used { service, what, amount, price, per, usd }
        };
        let log_gb = self.log_bytes.map(|bytes| bytes / GIGABYTE);
        [
            used("DynamoDB", "write units", self.write_units, prices.dynamodb_million_write_units, MILLION),
            used("DynamoDB", "read units", self.read_units, prices.dynamodb_million_read_units, MILLION),
            used("Lambda", "invocations", self.invocations, prices.lambda_million_invocations, MILLION),
            used("Lambda", "GB-seconds", self.gb_seconds, prices.lambda_million_gb_seconds, MILLION),
            used("SQS", "requests", self.sqs_requests, prices.sqs_million_requests, MILLION),
            used("CloudWatch Logs", "GB", log_gb, prices.logs_gb, 1.0),
            used("SQS", FAIR_REQUESTS, self.sqs_requests, prices.sqs_million_fair_requests, MILLION),
        ]
    }

    /// What this costs: list prices, in USD.
    pub(crate) fn usd(&self) -> f64 {
        self.priced().iter().filter_map(|used| used.usd).sum()
    }
}

pub(crate) fn gb_seconds(milliseconds: f64, memory_mb: f64) -> f64 {
    milliseconds / 1e3 * memory_mb / 1024.0
}

/// The region of the list prices, and their year and month.
pub(crate) fn list_prices() -> (String, String) {
    let Prices { region, as_of, .. } = Prices::list();
    (region, as_of)
}
