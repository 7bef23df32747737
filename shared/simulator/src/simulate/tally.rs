//! What is counted while a policy is simulated, and the figures that follow from it.

use std::{collections::BTreeMap, time::Duration};

use redial_core::{plan::Plan, reason::Reason, route::Route, time::Timestamp};
use serde::Serialize;

use super::{
    load::Load,
    recovery::{Observed, Recovery},
    scenario::{Contender, Scenario, start},
};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    recovery: Observed,
    attempts: u64,
    load: Load,
    dead_lettered: BTreeMap<Reason, u32>,
    ended_otherwise: BTreeMap<&'static str, u32>,
    ended: u64,
    drained_at: Option<Timestamp>,
    waits_in_sqs: u64,
    waits_parked: u64,
    deferrals: u64,
    /// By the place of the tenant among the scenario's.
    tenants: BTreeMap<usize, OfTenant>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct OfTenant {
    /// From arrival to acceptance, in milliseconds: of 28 days and a minute at most, so that they fit.
    delivery_ms: Vec<u32>,
    last_sent: Option<Timestamp>,
}

impl Tally {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self { recovery: Observed::new(scenario), ..Self::default() }
    }

    pub(super) fn arrived(&mut self, at: Timestamp) {
        self.attempts += 1;
        self.load.count(at);
    }

    /// The provider accepts an attempt at that moment.
    pub(super) fn accepted(&mut self, is_probe: bool, at: Timestamp) {
        self.recovery.accepted(is_probe, at);
    }

    pub(super) fn waits(&mut self, route: &Route) {
        match route {
            Route::Queue(_) => self.waits_in_sqs += 1,
            Route::Park(_) => self.waits_parked += 1,
        }
    }

    /// A message waits in the provider's line.
    pub(super) fn lined_up(&mut self) {
        self.waits_parked += 1;
    }

    pub(super) fn deferred(&mut self, was_held: bool, now: Timestamp) {
        self.deferrals += 1;
        self.recovery.deferred(was_held, now);
    }

    /// A message of the tenant of that place ends with this plan, `took` after it came; it was in trouble if it ever failed
    /// or was held back.
    pub(super) fn end(&mut self, plan: Plan, tenant: usize, took: Duration, troubled: bool, now: Timestamp) {
        self.ended += 1;
        self.recovery.ended(now);
        if troubled {
            self.drained_at = Some(now);
        }
        match plan {
            Plan::Sent => {
                let of_tenant = self.tenants.entry(tenant).or_default();
                of_tenant.delivery_ms.push(u32::try_from(took.as_millis()).unwrap_or(u32::MAX));
                of_tenant.last_sent = Some(now);
            }
            Plan::DeadLetter(reason) => *self.dead_lettered.entry(reason).or_default() += 1,
            Plan::Gone { .. }
            | Plan::Expand
            | Plan::Expired
            | Plan::Cancelled
            | Plan::FailedNoRetries(_)
            | Plan::Retry { .. }
            | Plan::Defer { .. } => *self.ended_otherwise.entry(plan.label()).or_default() += 1,
        }
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    pub(super) fn figures(self, scenario: &Scenario, contender: &Contender) -> Figures {
        let mut delivery_ms: Vec<u32> =
            self.tenants.values().flat_map(|it| it.delivery_ms.iter().copied()).collect();
        delivery_ms.sort_unstable();
        let after = scenario.outage.map(|it| self.load.peak_from(it.end_s));
        Figures {
            name: contender.name.clone(),
            attempts_per_message: self.attempts as f64 / f64::from(scenario.messages()),
            peak_per_second: self.load.peak(),
            peak_after_outage_per_second: after.map(|peak| peak.map_or(0, |(_, count)| count)),
            drained_at_s: self.drained_at.map(|at| at.since(start()).as_secs_f64()),
            sent: u32::try_from(delivery_ms.len()).unwrap_or(u32::MAX),
            dead_lettered: self.dead_lettered,
            p50_s: percentile(&delivery_ms, 50),
            p99_s: percentile(&delivery_ms, 99),
            ended_otherwise: self.ended_otherwise,
            waits_in_sqs: self.waits_in_sqs,
            waits_parked: self.waits_parked,
            ttl_s: contender.ttl.as_secs(),
            attempts_during_outage: scenario.outage.map(|it| self.load.sum(it.start_s, it.end_s)),
            deferrals: self.deferrals,
            tenants: of_tenants(self.tenants, scenario),
            recovery: self.recovery.figures(scenario, self.drained_at),
            load: self.load,
            protected: scenario.workers.is_some().then_some(contender.breaker),
        }
    }
}

/// By tenant, where there are several.
fn of_tenants(mut counted: BTreeMap<usize, OfTenant>, scenario: &Scenario) -> Vec<TenantFigures> {
    let shares = scenario.tenants.shares();
    if shares.len() < 2 {
        return Vec::new();
    }
    let figures = shares.iter().enumerate().map(|(place, share)| {
        let OfTenant { mut delivery_ms, last_sent } = counted.remove(&place).unwrap_or_default();
        delivery_ms.sort_unstable();
        TenantFigures {
            name: share.tenant.to_string(),
            messages: share.messages,
            sent: u32::try_from(delivery_ms.len()).unwrap_or(u32::MAX),
            last_sent_at_s: last_sent.map(|at| at.since(start()).as_secs_f64()),
            p50_s: percentile(&delivery_ms, 50),
            p99_s: percentile(&delivery_ms, 99),
        }
    });
    figures.collect()
}

/// The smallest of the sorted milliseconds that at least `hundredths` % of them do not exceed (nearest rank), in
/// seconds.
fn percentile(sorted: &[u32], hundredths: usize) -> Option<f64> {
    let rank = (sorted.len() * hundredths).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).map(|ms| f64::from(*ms) / 1000.0)
}

/// What a policy did: its JSON is a contract, to which fields are only ever added, and at the end.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Figures {
    /// The policy's name, `+` its jitter where that was exchanged, and with workers `, breaker on` or `, breaker off`.
    pub(crate) name: String,
    pub(crate) attempts_per_message: f64,
    /// The most requests that arrived in any second.
    pub(crate) peak_per_second: u32,
    /// The same from the end of the outage on; null without an outage.
    pub(crate) peak_after_outage_per_second: Option<u32>,
    /// When the last message ended of those that ever failed or were held back, in seconds from the start; null if none was.
    pub(crate) drained_at_s: Option<f64>,
    pub(crate) sent: u32,
    pub(crate) dead_lettered: BTreeMap<Reason, u32>,
    /// Half of the messages that were accepted took no longer, in seconds; null if none was.
    pub(crate) p50_s: Option<f64>,
    /// 99 of a hundred took no longer.
    pub(crate) p99_s: Option<f64>,
    /// Messages that ended in another way: `expired`, `failed_no_retries`.
    pub(crate) ended_otherwise: BTreeMap<&'static str, u32>,
    pub(crate) waits_in_sqs: u64,
    pub(crate) waits_parked: u64,
    pub(crate) ttl_s: u32,
    /// Requests that arrived while the provider was out; null without an outage.
    pub(crate) attempts_during_outage: Option<u64>,
    /// How often a message was held back: it used no attempt.
    pub(crate) deferrals: u64,
    /// The same by tenant, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tenants: Vec<TenantFigures>,
    /// How it came back, where there are workers and an outage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recovery: Option<Recovery>,
    #[serde(skip)]
    pub(crate) load: Load,
    /// Whether workers spared the provider; none: there were no workers.
    #[serde(skip)]
    pub(crate) protected: Option<bool>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct TenantFigures {
    pub(crate) name: String,
    pub(crate) messages: u32,
    pub(crate) sent: u32,
    /// When the last of those was, in seconds from the start; null if none was.
    pub(crate) last_sent_at_s: Option<f64>,
    /// Half of those took no longer, in seconds; null if there are none.
    pub(crate) p50_s: Option<f64>,
    /// 99 of a hundred took no longer.
    pub(crate) p99_s: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::super::{
        fixtures::{contender, scenario},
        tenants::Tenants,
    };
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let hundred: Vec<u32> = (1..=100).map(|seconds| seconds * 1000).collect();
        assert_eq!((percentile(&hundred, 50), percentile(&hundred, 99)), (Some(50.0), Some(99.0)));
        assert_eq!(
            (percentile(&[7], 50), percentile(&[7], 99), percentile(&[], 99)),
            (Some(0.007), Some(0.007), None)
        );
        assert_eq!(percentile(&[1, 2, 3], 50), Some(0.002));
    }

    #[test]
    fn the_json_has_the_promised_fields_in_their_order() {
        let mut tally = Tally::default();
        let at = |s| start().plus(Duration::from_secs(s));
        (0..3).for_each(|second| tally.arrived(at(second)));
        tally.end(Plan::Sent, 0, Duration::from_millis(100), false, at(1));
        tally.end(Plan::DeadLetter(Reason::RetriesExhausted), 0, Duration::from_secs(62), true, at(62));
        tally.end(Plan::Expired, 0, Duration::from_secs(90), false, at(90));
        tally.deferred(false, at(2));
        let scenario = Scenario { tenants: Tenants::one(3), ..scenario() };
        let figures = tally.figures(&scenario, &contender("web-push"));
        assert_eq!(
            serde_json::to_string(&figures).expect("JSON"),
            concat!(
                r#"{"name":"web-push","attempts_per_message":1.0,"peak_per_second":1,"#,
                r#""peak_after_outage_per_second":0,"drained_at_s":62.0,"sent":1,"#,
                r#""dead_lettered":{"retries_exhausted":1},"p50_s":0.1,"p99_s":0.1,"#,
                r#""ended_otherwise":{"expired":1},"waits_in_sqs":0,"waits_parked":0,"ttl_s":14400,"#,
                r#""attempts_during_outage":0,"deferrals":1}"#
            )
        );
    }

    #[test]
    fn several_tenants_are_reported_separately() {
        let tenants = Tenants::parse("acme:2,other:1").expect("tenants");
        let scenario = Scenario { tenants, ..scenario() };
        let mut tally = Tally::default();
        for (tenant, took_ms, at_s) in [(0, 100, 1), (0, 300, 3)] {
            let now = start().plus(Duration::from_secs(at_s));
            tally.end(Plan::Sent, tenant, Duration::from_millis(took_ms), false, now);
        }
        tally.end(Plan::Expired, 1, Duration::from_secs(90), false, start());
        let figures = tally.figures(&scenario, &contender("web-push"));
        assert_eq!(
            serde_json::to_string(&figures.tenants).expect("JSON"),
            concat!(
                r#"[{"name":"acme","messages":2,"sent":2,"last_sent_at_s":3.0,"p50_s":0.1,"p99_s":0.3},"#,
                r#"{"name":"other","messages":1,"sent":0,"last_sent_at_s":null,"p50_s":null,"p99_s":null}]"#
            )
        );
        assert_eq!((figures.sent, figures.p50_s), (2, Some(0.1)));
    }

    #[test]
    fn what_never_happened_is_null() {
        let scenario = Scenario { outage: None, ..scenario() };
        let figures = Tally::default().figures(&scenario, &contender("web-push"));
        assert_eq!((figures.peak_after_outage_per_second, figures.drained_at_s), (None, None));
        assert_eq!((figures.attempts_during_outage, figures.deferrals), (None, 0));
        assert_eq!((figures.p50_s, figures.p99_s), (None, None));
    }
}
