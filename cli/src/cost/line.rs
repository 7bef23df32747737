//! A line of a bill.

use serde::Serialize;

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

pub(super) fn line(service: &'static str, what: &'static str, amount: f64, price: f64, per: f64) -> Line {
    Line { service, what, amount, price, per, usd: amount / per * price }
}

/// Requests to SQS with messages that have a group id. Polls of empty queues have none.
pub(crate) const FAIR_REQUESTS: &str = "requests of fair queues";

pub(super) const THOUSAND: f64 = 1_000.0;
pub(super) const MILLION: f64 = 1_000_000.0;
