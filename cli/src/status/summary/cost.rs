//! What deliveries cost: what functions and tables were counted to have used, at the list prices of `redial cost`.
//!
//! A delivery counts when it ends, with all that its retries used. Numbers of AWS's own metrics are of the whole stack, so schedules and
//! requests of the HTTP API are among them. What nothing counts is left out and named, never taken for nothing: an emulator has no metrics of
//! tables and logs.

use serde_json::{Value, json};

use super::metrics::Flow;
use crate::cost::{Counts, FAIR_REQUESTS, Used, list_prices};

/// What is on a bill and never counted here.
const LEFT_OUT: [&str; 3] = ["storage", "data transfer", "what is paid by the month"];

/// What nothing counts, and is calculated from another count.
const CALCULATED: [&str; 2] = ["requests", FAIR_REQUESTS];

const MILLION: f64 = 1e6;

/// The cost of what ended since a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Cost {
    /// That ended, in whatever way; `None` if nothing was counted.
    deliveries: Option<u64>,
    counts: Counts,
}

impl Cost {
    pub(super) fn of(flow: Option<Flow>, counts: Counts) -> Self {
        let write_units = flow.and_then(|flow| flow.write_units);
        let write_units = write_units.map(|units| units as f64);
        Self { deliveries: flow.map(Flow::ended), counts: Counts { write_units, ..counts } }
    }

    fn used(&self) -> [Used; 7] {
        self.counts.priced()
    }

    /// What is counted everywhere but here.
    fn missing(&self) -> impl Iterator<Item = &'static str> {
        let name = |used: &Used| if used.what == "GB" { "logs" } else { used.what };
        // The requests of fair queues are those that are named already.
        let is_missing = |used: &Used| used.amount.is_none() && used.what != FAIR_REQUESTS;
        self.used().into_iter().filter(is_missing).map(move |used| name(&used))
    }

    fn usd(&self) -> Option<f64> {
        let is_counted = self.used().iter().any(|used| used.amount.is_some());
        (self.deliveries.is_some() && is_counted).then(|| self.counts.usd())
    }

    fn usd_per_million(&self) -> Option<f64> {
        let deliveries = self.deliveries.filter(|n| *n > 0)?;
        Some(self.usd()? / deliveries as f64 * MILLION)
    }

    pub(super) fn in_words(&self) -> String {
        let (Some(usd), Some(a_million)) = (self.usd(), self.usd_per_million()) else {
            let why = if self.usd().is_none() { "nothing was counted" } else { "no delivery has ended" };
            return format!("COST unknown: {why}");
        };
        let missing: Vec<&str> = self.missing().collect();
        let at_least = if missing.is_empty() { "" } else { "at least " };
        let not_counted = missing.into_iter().chain(LEFT_OUT).collect::<Vec<_>>();
        format!(
            "COST {at_least}{a_million:.2} USD a million deliveries, {usd:.4} USD in all, at list prices; not counted: {}",
            not_counted.join(", ")
        )
    }

    pub(super) fn to_json(self) -> Value {
        let (region, as_of) = list_prices();
        json!({
            "deliveries": self.deliveries,
            "usd": self.usd(),
            "usd_per_million": self.usd_per_million(),
            "at_least": self.missing().next().is_some(),
            "counted": self.used(),
            "calculated": CALCULATED,
            "left_out": LEFT_OUT,
            "region": region,
            "as_of": as_of,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(write_units: Option<u64>) -> Flow {
        // Of a thousand that ended, 980 were sent.
        Flow { counted: [1_200, 980, 200, 3, 10, 4, 5, 1], write_units, ..Flow::default() }
    }

    fn counts() -> Counts {
        Counts {
            write_units: None,
            read_units: Some(1_000.0),
            invocations: Some(120.0),
            gb_seconds: Some(9.0),
            sqs_requests: Some(360.0),
            log_bytes: Some(800_000.0),
        }
    }

    #[test]
    fn a_delivery_costs_what_was_counted_by_those_that_ended() {
        let cost = Cost::of(Some(flow(Some(1_900))), counts());
        let expected = 1_900.0 * 0.625 + 1_000.0 * 0.125 + 120.0 * 0.2 + 9.0 * 16.67 + 360.0 * 0.5 + 400.0;
        let json = cost.to_json();
        assert_eq!(json["deliveries"], 1_000);
        let usd = json["usd_per_million"].as_f64().expect("a number");
        assert!((usd - expected / 1_000.0).abs() < 1e-9, "{usd} instead of {}", expected / 1_000.0);
        assert_eq!((&json["at_least"], &json["calculated"]), (&json!(false), &json!(CALCULATED)));
        assert_eq!([4, 6].map(|at| &json["counted"][at]["what"]), CALCULATED);
        assert_eq!(
            cost.in_words(),
            "COST 2.07 USD a million deliveries, 0.0021 USD in all, at list prices; not counted: storage, data transfer, \
             what is paid by the month"
        );
    }

    #[test]
    fn what_is_missing_makes_it_at_least_and_is_named() {
        let cost =
            Cost::of(Some(flow(Some(1_900))), Counts { read_units: None, log_bytes: None, ..counts() });
        let words = cost.in_words();
        assert!(words.starts_with("COST at least 1.54 USD a million deliveries, "), "{words}");
        assert!(words.contains("; not counted: read units, logs, storage, "), "{words}");
        let json = cost.to_json();
        assert_eq!((&json["at_least"], &json["counted"][1]["amount"]), (&json!(true), &Value::Null));
        assert_eq!(json["counted"][1]["usd"], Value::Null);
    }

    #[test]
    fn without_counts_or_ends_there_is_no_cost_and_no_zero() {
        let nothing = Cost::of(None, Counts::default());
        assert_eq!(nothing.in_words(), "COST unknown: nothing was counted");
        // The schedules run, too.
        assert_eq!(Cost::of(None, counts()).in_words(), "COST unknown: nothing was counted");
        assert_eq!(nothing.to_json()["usd"], Value::Null);
        let none_ended = Flow { counted: [9, 0, 9, 0, 0, 0, 0, 0], write_units: Some(36), ..Flow::default() };
        let none_ended = Cost::of(Some(none_ended), counts());
        assert_eq!(none_ended.in_words(), "COST unknown: no delivery has ended");
        let json = none_ended.to_json();
        assert_eq!((&json["deliveries"], &json["usd_per_million"]), (&json!(0), &Value::Null));
        assert!(json["usd"].is_number(), "what was used is known: {json}");
    }
}
