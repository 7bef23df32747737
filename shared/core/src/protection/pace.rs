//! The rate of attempts to an origin: additive increase, multiplicative decrease, from its answers.
//!
//! Without a 429 or an outage there is no limit. A 429 lowers the pace to a share of what the origin accepted just before; success raises
//! it again, until it is well above the demand and the limit is removed. After an outage it begins low and grows over a minute to what
//! the origin accepted before, so that waiting messages do not arrive together.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::breaker::RAMP;
use super::count::Count;
use crate::time::Timestamp;

/// No pace is lower, in attempts a second.
pub const SLOWEST: f64 = 10.0;

/// What is left of what an origin took, when it asks to slow down.
const DECREASE: f64 = 0.7;

/// More than this share of 429s lowers the pace, in hundredths: single ones concern single recipients.
pub(super) const LIMITED_PERCENT: u64 = 1;

/// How long a pace stays after it was lowered: attempts from before are no news.
const SETTLES_WITHIN: Duration = Duration::from_secs(3);

/// Near an origin's limit, which a 429 has shown, a pace grows by this share of the accepted rate a second.
const INCREASE: f64 = 0.01;

/// Before that its capacity is unknown: a pace grows by this share of itself a second, and doubles in 28. Workers see it two seconds late
/// and cache it as long, and it must not be too much by then.
const DISCOVERY: f64 = 0.025;

/// A pace that is this many times the demand limits nothing, and is removed.
const AMPLE: f64 = 3.0;

const GROWS_AT_MOST: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Pace {
    /// Attempts a second; none: as many as there are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<f64>,
    /// What the origin was last seen to take, in attempts a second.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub took: Option<f64>,
    /// Whether that was too much, and not only what there was.
    #[serde(default)]
    at_its_limit: bool,
    at: Timestamp,
    since: Timestamp,
}

impl Pace {
    pub fn outage(&mut self, took: f64) {
        if took > 0.0 {
            self.took = Some(took);
        }
    }

    pub fn ramp(&mut self, now: Timestamp) {
        let low = self.took.map_or(SLOWEST, |took| took * 0.05);
        self.limit = Some(low.max(SLOWEST));
        (self.at, self.since) = (now, now);
    }

    /// Learns what the `lately` counted attempts of the last `span` saw.
    pub fn learn(&mut self, lately: Count, span: Duration, now: Timestamp) {
        if lately.asked() == 0 {
            return;
        }
        let secs = span.as_secs_f64().max(1.0);
        let per_second = |n: u64| n as f64 / secs;
        if lately.passes(lately.limited, LIMITED_PERCENT, 1) {
            if self.limit.is_none() || now.since(self.at) >= SETTLES_WITHIN {
                let accepted = per_second(lately.accepted());
                let from = self.limit.map_or(accepted, |limit| limit.min(accepted));
                if self.limit.is_none() {
                    self.since = now;
                }
                self.limit = Some((from * DECREASE).max(SLOWEST));
                self.took = Some(accepted.max(SLOWEST));
                self.at_its_limit = true;
                self.at = now;
            }
            return;
        }
        let Some(limit) = self.limit else { return };
        let grown_for = now.since(self.at).min(GROWS_AT_MOST).as_secs_f64();
        let grown = match self.took {
            Some(took) if limit < took => (limit + took / RAMP.as_secs_f64() * grown_for).min(took),
            Some(took) if self.at_its_limit => limit + took.max(SLOWEST) * INCREASE * grown_for,
            Some(_) | None => limit * (1.0 + DISCOVERY).powf(grown_for),
        };
        if grown >= self.took.unwrap_or(f64::INFINITY) {
            // It is past what it took, and takes more.
            self.took = self.took.map(|took| took.max(per_second(lately.accepted()).min(grown)));
        }
        let asked = per_second(lately.asked());
        let settled = now.since(self.since) >= RAMP && self.took.is_none_or(|took| grown >= took);
        // While messages are held back, the number of those that wait is unknown.
        self.limit = (!settled || lately.held > 0 || grown < asked * AMPLE).then_some(grown);
        self.at_its_limit &= self.limit.is_some();
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    const SECOND: Duration = Duration::from_secs(1);

    fn counted(attempts: u64, limited: u64, held: u64) -> Count {
        Count { attempts, limited, held, ..Count::default() }
    }

    fn limit(pace: &Pace) -> u64 {
        pace.limit.expect("it is limited") as u64
    }

    /// Learns the same count in each of these seconds.
    fn learn(pace: &mut Pace, seconds: std::ops::RangeInclusive<u64>, count: Count) {
        seconds.for_each(|second| pace.learn(count, SECOND, at(second)));
    }

    /// The pace of an origin that is back, and took so much a second before.
    fn ramping(took: f64) -> Pace {
        let mut pace = Pace::default();
        pace.outage(took);
        pace.ramp(at(0));
        pace
    }

    #[test]
    fn an_origin_without_429_or_with_single_ones_has_no_limit() {
        let mut pace = Pace::default();
        learn(&mut pace, 0..=99, counted(10_000, 0, 0));
        assert_eq!(pace.limit, None);
        learn(&mut pace, 100..=100, counted(1000, 10, 0));
        assert_eq!(pace.limit, None);
    }

    #[test]
    fn a_429_lowers_the_pace_and_success_raises_it_slowly() {
        let mut pace = Pace::default();
        for (second, attempts, limited, expected) in [
            // 70 % of the 800 that were taken; what was under way is no news.
            (0, 1000, 200, 560),
            (1, 700, 100, 560),
            (4, 560, 100, 322),
        ] {
            pace.learn(counted(attempts, limited, 0), SECOND, at(second));
            assert_eq!(limit(&pace), expected, "{second}");
        }
        let mut before = 322;
        for second in 5..20 {
            pace.learn(counted(320, 0, 300), SECOND, at(second));
            let step = limit(&pace) - before;
            assert!((4..=8).contains(&step), "{step}");
            before += step;
        }
    }

    #[test]
    fn the_limit_is_removed_well_above_the_demand() {
        let mut pace = Pace::default();
        pace.learn(counted(100, 50, 0), SECOND, at(0));
        learn(&mut pace, 1..=9, counted(5, 0, 0));
        assert!(pace.limit.is_some(), "not before it is where it came from");
        learn(&mut pace, 10..=119, counted(5, 0, 0));
        assert_eq!(pace.limit, None);
    }

    #[test]
    fn after_an_outage_the_pace_grows_over_a_minute() {
        let mut pace = ramping(1200.0);
        assert_eq!(limit(&pace), 60);
        learn(&mut pace, 1..=30, counted(100, 0, 100));
        assert!((600..=700).contains(&limit(&pace)), "{pace:?}");
        learn(&mut pace, 31..=60, counted(100, 0, 100));
        assert!((1200..=1300).contains(&limit(&pace)), "{pace:?}");

        let mut late = ramping(1000.0);
        late.learn(counted(100, 0, 100), SECOND, at(3600));
        assert!(limit(&late) < 140, "an hour without updates does not make it jump: {late:?}");
    }

    #[test]
    fn an_unknown_origin_s_pace_doubles_in_28_seconds() {
        let mut pace = ramping(0.0);
        learn(&mut pace, 1..=56, counted(100, 0, 100));
        assert!((38..=41).contains(&limit(&pace)), "{pace:?}");
    }
}
