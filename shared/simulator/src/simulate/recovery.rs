//! How a provider's traffic comes back after an outage, and what waiting for it costs.
//!
//! A recovery is judged against what is possible: an outage's *backlog* is what had arrived and not ended when it was over, and the *least
//! time* is what a provider takes for it that spends its whole capacity on the backlog and on what arrives meanwhile. No sender knows the
//! end of an outage at once, nor that capacity: the rest is what probing, the ramp and messages that wait too long take.

use std::time::Duration;

use redial_core::{protection::pace::Pace, time::Timestamp};
use serde::Serialize;

use super::scenario::{Scenario, start};

/// What is counted for a recovery, if there are workers and an outage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Observed {
    outage_end: Option<Timestamp>,
    ended_before: u64,
    first_traffic: Option<Timestamp>,
    held: u64,
    deferrals_before: u64,
    deferrals_after: u64,
}

/// How it came back: its JSON is a contract, to which fields are only ever added, and at the end.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Recovery {
    /// Messages that had arrived and not ended when the outage was over.
    pub(crate) backlog: u64,
    /// From the end of the outage to the first attempt that was accepted and was no probe, in seconds; null if none was.
    pub(crate) first_traffic_after_s: Option<f64>,
    /// From the end of the outage until the last message ended that ever failed or was held back, in seconds; null if none was.
    pub(crate) drained_after_s: Option<f64>,
    /// In which time the provider's capacity has room for the backlog and what arrives meanwhile, in seconds.
    pub(crate) least_s: f64,
    /// Messages that were held back at least once.
    pub(crate) held: u64,
    /// How often messages were held back before the end of the outage, and after it.
    pub(crate) deferrals_before_end: u64,
    pub(crate) deferrals_after_end: u64,
    /// The least time of a sender that does not know the capacity and finds it by a pace that grows as Redial's, in seconds.
    pub(crate) least_finding_s: f64,
}

impl Observed {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let outage = scenario.outage.filter(|_| scenario.workers.is_some());
        let outage_end = outage.map(|outage| start().plus(Duration::from_secs(outage.end_s.into())));
        Self { outage_end, ..Self::default() }
    }

    fn is_over(&self, now: Timestamp) -> bool {
        self.outage_end.is_some_and(|end| now >= end)
    }

    pub(super) fn accepted(&mut self, is_probe: bool, at: Timestamp) {
        if self.first_traffic.is_none() && !is_probe && self.is_over(at) {
            self.first_traffic = Some(at);
        }
    }

    pub(super) fn deferred(&mut self, was_held: bool, now: Timestamp) {
        self.held += u64::from(!was_held);
        let deferrals =
            if self.is_over(now) { &mut self.deferrals_after } else { &mut self.deferrals_before };
        *deferrals += 1;
    }

    pub(super) fn ended(&mut self, now: Timestamp) {
        self.ended_before += u64::from(!self.is_over(now));
    }

    pub(super) fn figures(&self, scenario: &Scenario, drained_at: Option<Timestamp>) -> Option<Recovery> {
        let end = self.outage_end?;
        let arrived = arrived_by(scenario, end);
        let backlog = arrived.saturating_sub(self.ended_before);
        let after = |at: Timestamp| at.since(end).as_secs_f64();
        Some(Recovery {
            backlog,
            first_traffic_after_s: self.first_traffic.map(after),
            drained_after_s: drained_at.map(after),
            least_s: least(backlog, u64::from(scenario.messages()) - arrived, scenario),
            held: self.held,
            deferrals_before_end: self.deferrals_before,
            deferrals_after_end: self.deferrals_after,
            least_finding_s: least_finding(backlog, u64::from(scenario.messages()) - arrived, scenario),
        })
    }
}

/// How many messages come before that moment.
fn arrived_by(scenario: &Scenario, at: Timestamp) -> u64 {
    let (mut low, mut high) = (0, scenario.messages());
    while low < high {
        let middle = low + (high - low) / 2;
        if scenario.arrival(middle) < at { low = middle + 1 } else { high = middle }
    }
    u64::from(low)
}

/// What the capacity takes for the backlog and for what comes meanwhile, of which there are `to_come` at most.
fn least(backlog: u64, to_come: u64, scenario: &Scenario) -> f64 {
    let (capacity, rate) = (scenario.capacity.per_second(), scenario.rate.per_second());
    let all = (backlog + to_come) as f64 / capacity;
    // With all capacity taken by what arrives, the backlog waits for the end of the arrivals.
    let free = capacity - rate;
    if free > 0.0 { (backlog as f64 / free).min(all) } else { all }
}

/// The same with a pace that begins when the outage is over, and grows until it meets the capacity.
fn least_finding(backlog: u64, to_come: u64, scenario: &Scenario) -> f64 {
    let (capacity, rate) = (scenario.capacity.per_second(), scenario.rate.per_second());
    let mut pace = Pace::default();
    pace.outage(rate.min(capacity));
    pace.ramp(Duration::ZERO, start());
    let (mut left, mut to_come) = (backlog as f64, to_come as f64);
    let mut secs = 0_u64;
    while left > 0.0 {
        let comes = rate.min(to_come);
        to_come -= comes;
        let goes = pace.expected(Duration::from_secs(secs)).map_or(capacity, |pace| pace.min(capacity));
        left += comes - goes;
        secs += 1;
    }
    secs as f64
}

#[cfg(test)]
mod tests {
    use super::super::{
        fixtures::{rate, scenario},
        scenario::Workers,
        tenants::Tenants,
    };
    use super::*;

    /// 100 messages a second for 60 s, an outage from 10 s to 40 s, room for 300 a second.
    fn flow() -> Scenario {
        let workers = Workers { number: 5, limit: None, counter_lag: Duration::ZERO };
        Scenario {
            tenants: Tenants::one(6_000),
            rate: rate("100/s"),
            outage: super::super::Outage::parse("10..40").ok(),
            capacity: rate("300/s"),
            workers: Some(workers),
            ..scenario()
        }
    }

    #[test]
    fn the_backlog_is_what_came_and_had_not_ended() {
        let at = |secs| start().plus(Duration::from_secs(secs));
        let mut observed = Observed::new(&flow());
        (0..1_000).for_each(|_| observed.ended(at(9)));
        observed.accepted(false, at(9));
        observed.accepted(true, at(45));
        observed.accepted(false, at(50));
        for (was_held, secs) in [(false, 20), (true, 39), (false, 40)] {
            observed.deferred(was_held, at(secs));
        }
        let figures = observed.figures(&flow(), Some(at(70))).expect("workers and an outage");
        assert_eq!((figures.backlog, figures.least_s), (3_000, 15.0));
        assert_eq!((figures.first_traffic_after_s, figures.drained_after_s), (Some(10.0), Some(30.0)));
        assert_eq!((figures.held, figures.deferrals_before_end, figures.deferrals_after_end), (2, 2, 1));
    }

    #[test]
    fn the_least_time_counts_what_comes_meanwhile_and_no_more_than_comes() {
        for (backlog, to_come, capacity, secs) in [
            (3_000, 2_000, "300/s", 15.0),
            (3_000, 300, "300/s", 11.0),
            (3_000, 2_000, "100/s", 50.0),
            (3_000, 2_000, "50/s", 100.0),
        ] {
            let scenario = Scenario { capacity: rate(capacity), ..flow() };
            assert_eq!(least(backlog, to_come, &scenario), secs, "{capacity}, {to_come}");
        }
    }

    #[test]
    fn a_sender_that_has_to_find_the_capacity_needs_longer() {
        // The ramp takes half a minute to what came before, and what is beyond that is found by a hundredth more a second.
        for (backlog, capacity, secs) in
            [(3_000, "300/s", 80..=100), (0, "300/s", 0..=0), (3_000, "101/s", 90..=6_000)]
        {
            let scenario = Scenario { capacity: rate(capacity), ..flow() };
            let found = least_finding(backlog, 6_000, &scenario);
            assert!(secs.contains(&(found as u64)), "{capacity}: {found}");
            assert!(found >= least(backlog, 6_000, &scenario), "{capacity}: {found}");
        }
    }

    #[test]
    fn without_workers_or_an_outage_there_is_none() {
        for scenario in [Scenario { workers: None, ..flow() }, Scenario { outage: None, ..flow() }] {
            assert_eq!(Observed::new(&scenario).figures(&scenario, None), None);
        }
    }
}
