//! What is counted while a policy is simulated, and the figures that follow from it.

use std::{collections::BTreeMap, time::Duration};

use redial_core::{plan::Plan, reason::Reason, route::Route, time::Timestamp};
use serde::Serialize;

use super::{
    load::Load,
    scenario::{Contender, Scenario, start},
};

/// The counts of one policy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    attempts: u64,
    load: Load,
    /// From arrival to acceptance, in milliseconds: of 28 days and a minute at most, so that they fit.
    delivery_ms: Vec<u32>,
    dead_lettered: BTreeMap<Reason, u32>,
    ended_otherwise: BTreeMap<&'static str, u32>,
    ended: u64,
    drained_at: Option<Timestamp>,
    waits_in_sqs: u64,
    waits_parked: u64,
}

impl Tally {
    /// A request arrives at the provider.
    pub(super) fn arrived(&mut self, at: Timestamp) {
        self.attempts += 1;
        self.load.count(at);
    }

    /// A wait begins, on this road.
    pub(super) fn waits(&mut self, road: &Route) {
        match road {
            Route::Queue(_) => self.waits_in_sqs += 1,
            Route::Park(_) => self.waits_parked += 1,
        }
    }

    /// A message ends with this plan, so long after it came.
    pub(super) fn end(&mut self, plan: Plan, took: Duration, ever_failed: bool, now: Timestamp) {
        self.ended += 1;
        if ever_failed {
            self.drained_at = Some(now);
        }
        match plan {
            Plan::Sent => self.delivery_ms.push(u32::try_from(took.as_millis()).unwrap_or(u32::MAX)),
            Plan::DeadLetter(reason) => *self.dead_lettered.entry(reason).or_default() += 1,
            Plan::Gone { .. }
            | Plan::Expired
            | Plan::FailedNoRetries(_)
            | Plan::Retry { .. }
            | Plan::Defer { .. } => *self.ended_otherwise.entry(plan.label()).or_default() += 1,
        }
    }

    /// How many messages have ended.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    /// The figures.
    pub(super) fn figures(mut self, scenario: &Scenario, contender: &Contender) -> Figures {
        self.delivery_ms.sort_unstable();
        let seconds = |ms: u32| f64::from(ms) / 1000.0;
        let after = scenario.outage.map(|it| self.load.peak_from(it.end_s()));
        Figures {
            name: contender.name.clone(),
            attempts_per_message: self.attempts as f64 / f64::from(scenario.messages),
            peak_per_second: self.load.peak(),
            peak_after_outage_per_second: after.map(|peak| peak.map_or(0, |(_, count)| count)),
            drained_at_s: self.drained_at.map(|at| at.since(start()).as_secs_f64()),
            sent: u32::try_from(self.delivery_ms.len()).unwrap_or(u32::MAX),
            dead_lettered: self.dead_lettered,
            p50_s: percentile(&self.delivery_ms, 50).map(seconds),
            p99_s: percentile(&self.delivery_ms, 99).map(seconds),
            ended_otherwise: self.ended_otherwise,
            waits_in_sqs: self.waits_in_sqs,
            waits_parked: self.waits_parked,
            ttl_s: contender.ttl.as_secs(),
            load: self.load,
        }
    }
}

/// The smallest of the sorted values that no fewer than so many hundredths of them do not exceed (nearest rank).
fn percentile(sorted: &[u32], hundredths: usize) -> Option<u32> {
    let rank = (sorted.len() * hundredths).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// What a policy did: its JSON is a contract, to which fields are only ever added, and at the end.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Figures {
    /// The policy's name, `+` its jitter where that was exchanged.
    pub(crate) name: String,
    /// Requests that were made, for each message.
    pub(crate) attempts_per_message: f64,
    /// The most requests that arrived in any second.
    pub(crate) peak_per_second: u32,
    /// The same from the end of the outage on; null without an outage.
    pub(crate) peak_after_outage_per_second: Option<u32>,
    /// When the last message ended of those that ever failed, in seconds from the start; null if none ever did.
    pub(crate) drained_at_s: Option<f64>,
    /// Messages that were accepted.
    pub(crate) sent: u32,
    /// Messages that became dead letters, by reason.
    pub(crate) dead_lettered: BTreeMap<Reason, u32>,
    /// Half of the messages that were accepted took no longer, in seconds; null if none was.
    pub(crate) p50_s: Option<f64>,
    /// 99 of a hundred took no longer.
    pub(crate) p99_s: Option<f64>,
    /// Messages that ended in another way: `expired`, `failed_no_retries`.
    pub(crate) ended_otherwise: BTreeMap<&'static str, u32>,
    /// Waits that a retry queue's delay took.
    pub(crate) waits_in_sqs: u64,
    /// Waits that were parked.
    pub(crate) waits_parked: u64,
    /// The TTL of the messages.
    pub(crate) ttl_s: u32,
    /// Requests by the second.
    #[serde(skip)]
    pub(crate) load: Load,
}

#[cfg(test)]
mod tests {
    use super::super::scenario::tests::{contender, scenario};
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!((percentile(&hundred, 50), percentile(&hundred, 99)), (Some(50), Some(99)));
        assert_eq!(
            (percentile(&[7], 50), percentile(&[7], 99), percentile(&[], 99)),
            (Some(7), Some(7), None)
        );
        assert_eq!(percentile(&[1, 2, 3], 50), Some(2));
    }

    #[test]
    fn the_json_has_the_promised_fields_in_their_order() {
        let mut tally = Tally::default();
        let at = |s| start().plus(Duration::from_secs(s));
        (0..3).for_each(|second| tally.arrived(at(second)));
        tally.end(Plan::Sent, Duration::from_millis(100), false, at(1));
        tally.end(Plan::DeadLetter(Reason::RetriesExhausted), Duration::from_secs(62), true, at(62));
        tally.end(Plan::Expired, Duration::from_secs(90), false, at(90));
        let scenario = Scenario { messages: 3, ..scenario() };
        let figures = tally.figures(&scenario, &contender("web-push"));
        assert_eq!(
            serde_json::to_string(&figures).expect("JSON"),
            concat!(
                r#"{"name":"web-push","attempts_per_message":1.0,"peak_per_second":1,"#,
                r#""peak_after_outage_per_second":0,"drained_at_s":62.0,"sent":1,"#,
                r#""dead_lettered":{"retries_exhausted":1},"p50_s":0.1,"p99_s":0.1,"#,
                r#""ended_otherwise":{"expired":1},"waits_in_sqs":0,"waits_parked":0,"ttl_s":14400}"#
            )
        );
    }

    #[test]
    fn what_never_happened_is_null() {
        let scenario = Scenario { outage: None, ..scenario() };
        let figures = Tally::default().figures(&scenario, &contender("web-push"));
        assert_eq!((figures.peak_after_outage_per_second, figures.drained_at_s), (None, None));
        assert_eq!((figures.p50_s, figures.p99_s), (None, None));
    }
}
