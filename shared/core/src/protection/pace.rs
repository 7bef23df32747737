//! The rate of attempts to an origin: additive increase, multiplicative decrease, from its answers.
//!
//! Without a 429 or an outage there is no limit. A 429 lowers the pace to a share of what the origin accepted just before; success raises
//! it again, until it is well above the demand and the limit is removed. After an outage it begins low and grows over a minute to what
//! the origin accepted before, so that waiting messages do not arrive together.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::breaker::RAMP;
use super::count::Count;
use super::parts::Parts;
use crate::time::Timestamp;

/// No pace is lower, in attempts a second.
pub const SLOWEST: f64 = 10.0;

/// What is left of what an origin took, when it asks to slow down.
const DECREASE: f64 = 0.9;

/// More than this share of 429s lowers the pace, in hundredths: single ones concern single recipients.
pub(super) const LIMITED_PERCENT: u64 = 1;

/// How long a pace stays after it was lowered: workers read of it within two seconds, their attempts' slots are up to a second ahead, and
/// what those came to is known up to three seconds later. What is known before is no news.
const SETTLES_WITHIN: Duration = Duration::from_secs(6);

/// A pace grows to what the origin took within this time.
const CLIMBS_WITHIN: Duration = Duration::from_secs(RAMP.as_secs() / 2);

/// Near an origin's limit, which a 429 has shown, a pace grows by this share of the accepted rate a second.
const INCREASE: f64 = 0.005;

/// Before that its capacity is unknown: a pace grows by this share of itself a second, and doubles in 70. Until a 429 has lowered it for
/// all workers, ten seconds go by, and it must not be too much by then …
const DISCOVERY: f64 = 0.01;

/// … but a low one, of up to this number a second, doubles in 28: a little too much of that is little.
const LOW: f64 = 100.0;
const DISCOVERY_OF_LOW: f64 = 0.025;

/// A pace that is this many times the demand limits nothing, and is removed.
const AMPLE: f64 = 3.0;

/// No pace is expected to become higher than this.
const MOST_EXPECTED: f64 = 1e6;

/// A pace is used up from this share of it on.
const USED_UP: f64 = 0.7;

/// What waits gets no less than this share of a pace.
const LEAST_FOR_WAITING: f64 = 0.5;

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
    /// Of its bucket.
    #[serde(skip_serializing_if = "Parts::is_one", default)]
    parts: Parts,
    /// How long the outage was that it follows, in seconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    out_for: Option<u64>,
    /// When a 429 lowered it last. Growth is no reason to wait with it: near the limit few seconds are without a 429, and each would put it
    /// off.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    lowered: Option<Timestamp>,
}

impl Pace {
    pub fn outage(&mut self, took: f64) {
        if took > 0.0 {
            self.took = Some(took);
        }
    }

    /// How many a second of those that wait may go in the next `ahead`, if `turned_away` a second recently found no room; none: all of them.
    pub fn for_waiting(&self, ahead: Duration, turned_away: f64) -> Option<f64> {
        let expected = self.expected(ahead / 2)?;
        Some((expected - turned_away).max(expected * LEAST_FOR_WAITING))
    }

    pub fn ramp(&mut self, out_for: Duration, now: Timestamp) {
        let low = self.took.map_or(SLOWEST, |took| took * 0.1);
        self.limit_to(low.max(SLOWEST), now);
        self.out_for = Some(out_for.as_secs());
        (self.at, self.since) = (now, now);
    }

    fn limit_to(&mut self, limit: f64, now: Timestamp) {
        match self.limit {
            Some(_) => self.parts.suit(limit, now),
            None => self.parts = Parts::new(limit),
        }
        self.limit = Some(limit);
    }

    /// How many parts its bucket has.
    pub fn parts(&self, now: Timestamp) -> u32 {
        self.parts.number(now)
    }

    /// How long the outage was that it follows, if it does.
    pub fn out_for(&self) -> Option<Duration> {
        self.out_for.map(Duration::from_secs)
    }

    /// What it is expected to be after `ahead`.
    pub fn expected(&self, ahead: Duration) -> Option<f64> {
        let now = self.limit?;
        let grown = self.grown(now, ahead.as_secs_f64());
        // What an origin takes, if a 429 has shown it, is not expected to become more.
        let most = self.took.filter(|_| self.at_its_limit).map_or(MOST_EXPECTED, |took| took.max(now));
        Some(grown.min(most))
    }

    /// What a limit has grown to after `secs` seconds.
    fn grown(&self, limit: f64, secs: f64) -> f64 {
        match self.took {
            Some(took) if limit < took => {
                let (slope, missing) = (took / CLIMBS_WITHIN.as_secs_f64(), took - limit);
                if slope * secs <= missing {
                    limit + slope * secs
                } else {
                    self.grown(took, secs - missing / slope)
                }
            }
            Some(took) if self.at_its_limit => limit + took.max(SLOWEST) * INCREASE * secs,
            Some(_) | None => discovered(limit, secs).min(MOST_EXPECTED),
        }
    }

    /// Learns what the `lately` counted attempts of the last `span` saw, where `of_late` a second were recently asked for.
    pub fn learn(&mut self, lately: Count, span: Duration, of_late: f64, now: Timestamp) {
        if lately.asked() == 0 {
            return;
        }
        let secs = span.as_secs_f64().max(1.0);
        let per_second = |n: u64| n as f64 / secs;
        if lately.passes(lately.limited, LIMITED_PERCENT, 1) {
            let settles = self.lowered.is_some_and(|at| now.since(at) < SETTLES_WITHIN);
            if self.limit.is_none() || !settles {
                // While there is a limit all workers report each second: what comes late is of the seconds before.
                let lately = if self.limit.is_some() { lately.with_older() } else { lately };
                let accepted = per_second(lately.accepted());
                let from = self.limit.map_or(accepted, |limit| limit.min(accepted));
                if self.limit.is_none() {
                    self.since = now;
                }
                self.limit_to((from * DECREASE).max(SLOWEST), now);
                // Reports are bunched: what a second seems to have taken above the pace is another second's.
                self.took = Some(from.max(SLOWEST));
                self.at_its_limit = true;
                (self.at, self.lowered) = (now, Some(now));
            }
            return;
        }
        let Some(limit) = self.limit else { return };
        let grown_for = now.since(self.at).min(GROWS_AT_MOST).as_secs_f64();
        let asked = per_second(lately.asked()).max(of_late);
        let grown = match self.took {
            Some(took) if limit < took => self.grown(limit, grown_for).min(took),
            // Nothing is known of a pace that is not used up; those who waited may come together when it is high.
            Some(_) | None if self.out_for.is_some() && asked < limit * USED_UP => limit,
            Some(_) | None => self.grown(limit, grown_for),
        };
        if grown >= self.took.unwrap_or(f64::INFINITY) {
            // It is past what it took, and takes more.
            self.took = self.took.map(|took| took.max(per_second(lately.accepted()).min(grown)));
        }
        // After an outage messages wait for places for up to as long as it was.
        let settles_within = self.out_for().unwrap_or_default().max(RAMP);
        if lately.held > 0 && self.out_for.is_some() {
            self.since = now;
        }
        let settled = now.since(self.since) >= settles_within && self.took.is_none_or(|took| grown >= took);
        let ample = if self.out_for.is_some() { asked } else { asked * AMPLE };
        // While messages are held back, the number of those that wait is unknown.
        if !settled || lately.held > 0 || grown < ample {
            self.limit_to(grown, now);
        } else {
            (self.limit, self.at_its_limit, self.out_for) = (None, false, None);
        }
        self.at = now;
    }
}

fn discovered(limit: f64, secs: f64) -> f64 {
    let low_for = (LOW / limit).max(1.0).ln() / DISCOVERY_OF_LOW.ln_1p();
    let low_for = low_for.min(secs);
    limit * (1.0 + DISCOVERY_OF_LOW).powf(low_for) * (1.0 + DISCOVERY).powf(secs - low_for)
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
        seconds.for_each(|second| pace.learn(count, SECOND, 0.0, at(second)));
    }

    /// The pace of an origin that is back, and took so much a second before.
    fn ramping(took: f64) -> Pace {
        let mut pace = Pace::default();
        pace.outage(took);
        pace.ramp(Duration::from_secs(600), at(0));
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
            // 90 % of the 800 that were taken; what was under way is no news.
            (0, 1000, 200, 720),
            (5, 700, 100, 720),
            (6, 560, 100, 414),
        ] {
            pace.learn(counted(attempts, limited, 0), SECOND, 0.0, at(second));
            assert_eq!(limit(&pace), expected, "{second}");
        }
        let mut before = 414;
        for second in 7..40 {
            pace.learn(counted(390, 0, 300), SECOND, 0.0, at(second));
            let step = limit(&pace) - before;
            // Over half a minute to what was taken, and then half a hundredth of it a second.
            let expected = match before {
                ..459 => 15..=16,
                // Partly the one, and partly the other.
                459 => 1..=3,
                460.. => 2..=3,
            };
            assert!(expected.contains(&step), "{step}");
            before += step;
        }
        assert_eq!(pace.expected(Duration::from_secs(600)).map(|it| it as u64), Some(limit(&pace)));
    }

    #[test]
    fn a_429_lowers_a_pace_that_has_just_grown() {
        let mut pace = Pace::default();
        pace.learn(counted(1000, 600, 0), SECOND, 0.0, at(0));
        assert_eq!(limit(&pace), 360);
        // Each other second is without a 429.
        for second in 1..=6 {
            let limited = if second % 2 == 0 { 20 } else { 0 };
            pace.learn(counted(380, limited, 50), SECOND, 0.0, at(second));
        }
        assert!(limit(&pace) < 360, "{pace:?}");
    }

    #[test]
    fn an_origin_takes_no_more_than_its_pace_however_many_are_reported_at_once() {
        let mut pace = Pace::default();
        pace.learn(counted(500, 100, 0), SECOND, 0.0, at(0));
        learn(&mut pace, 1..=9, counted(400, 0, 50));
        let before = limit(&pace);
        pace.learn(counted(700, 100, 50), SECOND, 0.0, at(10));
        assert!(pace.took.is_some_and(|took| took as u64 <= before), "{pace:?}");
    }

    #[test]
    fn a_pace_of_an_earlier_release_is_read_and_reads_ours() {
        let earlier = r#"{"limit":360.0,"took":400.0,"at_its_limit":true,"at":5000,"since":0}"#;
        let mut pace: Pace = serde_json::from_str(earlier).expect("a pace");
        assert_eq!(serde_json::to_string(&pace).expect("JSON"), earlier);
        pace.learn(counted(380, 20, 0), SECOND, 0.0, at(6));
        assert!(limit(&pace) < 360, "{pace:?}");
        let high = earlier.replace("360.0", "1600.0");
        let mut pace: Pace = serde_json::from_str(&high).expect("a pace");
        pace.learn(counted(1600, 0, 0), SECOND, 0.0, at(6));
        let known: Pace = serde_json::from_str(&serde_json::to_string(&pace).expect("JSON")).expect("a pace");
        assert_eq!([9, 10].map(|second| known.parts(at(second))), [1, 4], "{pace:?}");
    }

    #[test]
    fn the_limit_is_removed_well_above_the_demand() {
        let mut pace = Pace::default();
        pace.learn(counted(100, 50, 0), SECOND, 0.0, at(0));
        learn(&mut pace, 1..=9, counted(5, 0, 0));
        assert!(pace.limit.is_some(), "not before it is where it came from");
        learn(&mut pace, 10..=119, counted(5, 0, 0));
        assert_eq!(pace.limit, None);
    }

    #[test]
    fn after_an_outage_the_pace_grows_over_half_a_minute() {
        let mut pace = ramping(1200.0);
        assert_eq!(limit(&pace), 120);
        assert!(
            pace.expected(Duration::from_secs(12)).is_some_and(|it| (599.0..=601.0).contains(&it)),
            "{pace:?}"
        );
        learn(&mut pace, 1..=12, counted(100, 0, 100));
        assert!((600..=610).contains(&limit(&pace)), "{pace:?}");
        learn(&mut pace, 13..=28, counted(100, 0, 100));
        assert_eq!(limit(&pace), 1200);
        learn(&mut pace, 29..=60, counted(100, 0, 100));
        assert_eq!(limit(&pace), 1200, "nothing is known of a pace that is not used up");
        learn(&mut pace, 61..=130, counted(1000, 0, 900));
        assert!((2390..=2440).contains(&limit(&pace)), "{pace:?}");

        let mut late = ramping(1000.0);
        late.learn(counted(100, 0, 100), SECOND, 0.0, at(3600));
        assert!(limit(&late) < 290, "an hour without updates does not make it jump: {late:?}");
    }

    #[test]
    fn an_unknown_origin_s_pace_doubles_in_28_seconds_and_then_in_70() {
        let mut pace = ramping(0.0);
        let expected = |pace: &Pace, secs| pace.expected(Duration::from_secs(secs)).map(|it| it as u64);
        assert!(expected(&pace, 56).is_some_and(|it| (38..=41).contains(&it)));
        assert!(expected(&pace, 163).is_some_and(|it| (195..=205).contains(&it)));
        learn(&mut pace, 1..=56, counted(100, 0, 100));
        assert!((38..=41).contains(&limit(&pace)), "{pace:?}");
        learn(&mut pace, 57..=163, counted(100, 0, 100));
        assert!((195..=205).contains(&limit(&pace)), "{pace:?}");
    }

    #[test]
    fn after_an_outage_the_pace_stays_for_as_long_as_messages_may_wait_for_places() {
        let mut pace = ramping(100.0);
        learn(&mut pace, 1..=100, counted(100, 0, 50));
        learn(&mut pace, 101..=699, counted(20, 0, 0));
        assert!(pace.limit.is_some(), "places were given for up to 600 s");
        learn(&mut pace, 700..=701, counted(20, 0, 0));
        assert_eq!((pace.limit, pace.out_for()), (None, None));
    }
}
