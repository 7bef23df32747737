//! An origin's shared state: its breaker, its pace, and the results of its recent attempts.
//!
//! Workers add their counts to a few counters that only grow. At intervals one of them reads the counters, records the difference
//! since the last look, judges, and writes this state back, unless another worker has. A look that is not written back does no harm:
//! the next one sees the same counters.

use std::time::Duration;

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::breaker::{Breaker, Cooldowns, FAST, FAST_FROM_SECS, Phase, SLOW};
use super::count::{Count, Window};
use super::pace::{LIMITED_PERCENT, Pace};
use super::patience::PROVEN_AGAIN_AFTER;
use super::spread::{Concerned, Counted, Recent, Spread, Trouble};
use super::whose::{Place, Whose};
use crate::time::Timestamp;

pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(900);

/// More than this share of 429s, in hundredths, among at least this number of attempts in ten seconds, is a storm: everyone stays away for the
/// Retry-After that came with them.
const STORM_PERCENT: u64 = 50;
const STORM_AT_LEAST: u64 = 20;

/// Retries stay within this share of the first attempts, in hundredths, while the origin fails. A retry that succeeds amplifies
/// nothing. Retries over it are held back and use no attempt.
pub const RETRY_PERCENT: u64 = 20;

/// Besides, this many a second, so that an origin with few messages is retried at all.
pub const RETRY_FLOOR_PER_SECOND: f64 = 10.0;

/// Retries are limited while more than this share of the attempts fail, in hundredths.
const FAILING_PERCENT: u64 = 10;

/// Others are in trouble, too, if more than this share of their attempts are, in hundredths. Half of what opens a breaker, for they are
/// fewer, and without the worst.
const SPREAD_PERCENT: u64 = 10;

/// What is said of a second is the mean of no fewer than these.
const SHORTEST_REACH: f64 = 3.0;

/// A state that no worker has updated for this long limits nothing.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OriginState {
    breaker: Breaker,
    pub pace: Pace,
    fast: Window,
    slow: Window,
    /// The counters' sum at the last look; none: whatever they are now is where counting begins.
    counted: Option<Count>,
    /// The attempts of ten seconds that were refused. Besides the other counts, and left out while there are none: an earlier release
    /// neither reads nor writes it.
    #[serde(default = "refusals", skip_serializing_if = "Window::is_empty")]
    refused: Window,
    /// Those of the counters' sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counted_refused: Option<u64>,
    /// Whom breaker and pace hold back; none: everyone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    only: Option<Place>,
    #[serde(default, skip_serializing_if = "is_default")]
    spread: Recent,
    /// That of the counters' sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counted_spread: Option<Spread>,
    /// When a webhook's receiver there answered, to about a day; none: not lately, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answered: Option<Timestamp>,
    /// The attempts of five minutes that it was opened or paused for last.
    pub judged: Count,
    /// Increases with each reset of the counts: what workers counted before it is ignored.
    pub epoch: u32,
    pub looked_at: Timestamp,
}

impl Default for OriginState {
    fn default() -> Self {
        Self {
            breaker: Breaker::default(),
            pace: Pace::default(),
            fast: Window::new(FAST.within_secs, FAST.bucket_secs),
            slow: Window::new(SLOW.within_secs, SLOW.bucket_secs),
            counted: Some(Count::default()),
            refused: refusals(),
            counted_refused: None,
            only: None,
            spread: Recent::default(),
            counted_spread: Some(Spread::default()),
            answered: None,
            judged: Count::default(),
            epoch: 0,
            looked_at: Timestamp::default(),
        }
    }
}

impl OriginState {
    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Whether breaker and pace hold back one tenant alone: the others at this origin do well, or there were none.
    pub fn is_for_one_tenant(&self) -> bool {
        self.only.is_some()
    }

    /// Whether breaker and pace hold back a tenant that has this place here.
    pub fn concerns(&self, place: Place) -> bool {
        self.only.is_none_or(|only| only == place)
    }

    /// Whose the recent attempts were.
    pub fn spread(&self, now: Timestamp) -> Spread {
        self.spread.sum(now)
    }

    pub fn lately(&self, now: Timestamp) -> Count {
        self.fast.sum(now)
    }

    pub fn five_minutes(&self, now: Timestamp) -> Count {
        self.slow.sum(now)
    }

    /// Messages that want to be sent a second, as far as is known.
    pub fn asked_per_second(&self, now: Timestamp) -> f64 {
        self.measured(now).max(self.pace.took.unwrap_or(0.0))
    }

    /// Attempts and held-back messages that workers report a second, as far as is known.
    pub fn reported_per_second(&self, now: Timestamp) -> f64 {
        let measured = self.measured(now);
        if measured > 0.0 { measured } else { self.pace.took.unwrap_or(0.0) }
    }

    /// The most attempts a second; none: any number.
    pub fn limit(&self, now: Timestamp) -> Option<f64> {
        self.pace.limit.filter(|_| now.since(self.looked_at) < FORGOTTEN_AFTER)
    }

    /// The most retries a second; none: any number.
    pub fn retry_limit(&self, now: Timestamp) -> Option<f64> {
        retries_per_second(self.lately(now), self.refused.sum(now).attempts, FAST.within_secs.into())
    }

    /// When it answered, to about a day.
    pub fn answered(&self) -> Option<Timestamp> {
        self.answered
    }

    /// Whether it is news that it answers at `now`.
    pub fn is_answer_news(&self, now: Timestamp) -> bool {
        self.answered.is_none_or(|at| now.since(at) >= PROVEN_AGAIN_AFTER)
    }

    /// Notes that it answered; whether that is news.
    pub fn note_answer(&mut self, now: Timestamp) -> bool {
        let is_news = self.is_answer_news(now);
        if is_news {
            self.answered = Some(now);
        }
        is_news
    }

    /// Whether workers have to report often: they report little of a healthy origin.
    pub fn is_watched(&self, now: Timestamp) -> bool {
        let of_late = self.five_minutes(now);
        of_late.failures + of_late.limited > 0
            || concerns(self.refused.sum(now).attempts)
            || self.holds_back(now)
    }

    /// Whether a breaker or a pace is in force.
    pub fn holds_back(&self, now: Timestamp) -> bool {
        self.limit(now).is_some() || !matches!(self.breaker.phase(now), Phase::Closed)
    }

    /// Looks at the counters' sum, with the Retry-After that the looking worker saw last.
    pub fn look(
        &mut self,
        sum: impl Into<Counted>,
        retry_after: Option<Duration>,
        now: Timestamp,
        cooldowns: &Cooldowns,
        rng: &mut dyn Rng,
    ) {
        let Counted { count: sum, spread } = sum.into();
        self.learn_of_others(spread, now);
        let new = self.new_of(sum);
        let refused = Count { attempts: new.refused, ..Count::default() };
        let new = Count { refused: 0, ..new };
        let span = now.since(self.looked_at).min(Duration::from_secs(FAST.within_secs.into()));
        (self.counted, self.counted_refused) = (Some(sum), Some(sum.refused));
        self.looked_at = now;
        if !matches!(self.breaker.phase(now), Phase::Closed | Phase::Ramping { .. }) {
            // Attempts from before it opened are no news, and probes are reported separately.
            return;
        }
        self.slow.note(new, now);
        self.fast.note(new, now);
        self.refused.note(refused, now);
        self.learn_pace(new, span, now);
        let before = self.took(now);
        let of_late = self.spread.sum(now);
        let fails = of_late.concerned(Trouble::Failures, SPREAD_PERCENT);
        if self.breaker.judge(fails != Concerned::Recipients && self.fails(now), now, cooldowns, rng) {
            self.breaker.hear(of_late.voters(fails, Trouble::Failures));
            self.opened(before, now);
            self.only = only(fails);
        } else if let Some(retry_after) = retry_after
            && let lately = self.lately(now)
            && lately.passes(lately.limited, STORM_PERCENT, STORM_AT_LEAST)
            && let limited = of_late.concerned(Trouble::Limited, SPREAD_PERCENT)
            && limited != Concerned::Recipients
            && self.breaker.pause(retry_after.min(LONGEST_PAUSE), now)
        {
            self.forget(now);
            self.only = only(limited);
        }
    }

    /// Who else is in trouble: what was found to be one tenant's concerns everyone then.
    fn learn_of_others(&mut self, sum: Spread, now: Timestamp) {
        let new = self.counted_spread.as_ref().map(|before| sum.since(before));
        self.counted_spread = Some(sum);
        let Some(new) = new.filter(|new| !new.is_empty()) else { return };
        self.spread.note(&new, now);
        let Some(only) = self.only else { return };
        let of_late = self.spread.sum(now);
        let concerns_others = of_late.concerns_others(only, Trouble::Failures, SPREAD_PERCENT)
            || of_late.concerns_others(only, Trouble::Limited, SPREAD_PERCENT);
        let is_over = self.pace.limit.is_none() && self.breaker.phase(now) == Phase::Closed;
        if concerns_others || is_over {
            self.only = None;
        }
    }

    /// A pace that 429s lower is that of those who got them.
    fn learn_pace(&mut self, new: Count, span: Duration, now: Timestamp) {
        let of_late = self.measured(now);
        if new.limited == 0 {
            return self.pace.learn(new, span, of_late, now);
        }
        let had_none = self.pace.limit.is_none();
        match self.spread.sum(now).concerned(Trouble::Limited, LIMITED_PERCENT) {
            Concerned::Recipients => {
                let attempts = new.attempts.saturating_sub(new.limited);
                self.pace.learn(Count { attempts, limited: 0, ..new }, span, of_late, now);
            }
            concerned @ (Concerned::Everyone | Concerned::Tenant(_)) => {
                self.pace.learn(new, span, of_late, now);
                if had_none && self.pace.limit.is_some() {
                    self.only = only(concerned);
                }
            }
        }
    }

    /// Lets some of these go as probes; answers which.
    pub fn send_probes(&mut self, of: &[Whose], now: Timestamp) -> Vec<usize> {
        self.breaker.send_probes(of, now)
    }

    /// Whose probes succeeded, and whose failed.
    pub fn probed(
        &mut self,
        answers: &[(Whose, bool)],
        now: Timestamp,
        cooldowns: &Cooldowns,
        rng: &mut dyn Rng,
    ) {
        if self.breaker.probed(answers, now, cooldowns, rng) {
            self.ramp(now);
        }
    }

    fn ramp(&mut self, now: Timestamp) {
        self.forget(now);
        self.pace.ramp(self.breaker.out_for(now), now);
        self.looked_at = now;
    }

    /// Opens its breaker for `lasting`, as an operator has requested.
    pub fn open(&mut self, lasting: Duration, now: Timestamp, cooldowns: &Cooldowns, rng: &mut dyn Rng) {
        let before = self.took(now);
        self.breaker.open(Some(lasting), now, cooldowns, rng);
        self.breaker.hear(self.spread.sum(now).voters(Concerned::Everyone, Trouble::Failures));
        self.opened(before, now);
        self.only = None;
    }

    /// Closes its breaker at an operator's word as if its probes had succeeded: what waits goes at a pace that grows. One that lets attempts
    /// pass stays as it is.
    pub fn close_gently(&mut self, now: Timestamp) {
        if self.breaker.close_gently(now) {
            self.only = None;
            self.ramp(now);
        }
    }

    /// Closes its breaker at an operator's word: everything passes at once, and counting is reset.
    pub fn close(&mut self, now: Timestamp) {
        self.breaker.close();
        self.pace = Pace::default();
        self.only = None;
        self.forget(now);
        self.looked_at = now;
    }

    /// Closes an abandoned breaker. Counts and the time of the last look stay: workers that read it count on from there.
    pub(super) fn close_abandoned(&mut self, now: Timestamp) {
        if self.breaker.is_abandoned(now) {
            self.breaker.close();
            self.pace = Pace::default();
            self.only = None;
        }
    }

    /// What came to the counters since the last look.
    fn new_of(&self, sum: Count) -> Count {
        let refused = self.counted_refused.unwrap_or(sum.refused);
        self.counted.and_then(|before| sum.since(Count { refused, ..before })).unwrap_or_default()
    }

    fn opened(&mut self, took: f64, now: Timestamp) {
        self.pace.outage(took);
        self.forget(now);
    }

    fn forget(&mut self, now: Timestamp) {
        self.fast.take(now);
        let judged = self.slow.take(now).with_older();
        if !judged.is_empty() {
            self.judged = judged;
        }
        self.refused.take(now);
        self.spread.take(now);
        self.counted = None;
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Attempts and messages held back a second. Late reports fall into few buckets of time: then the longer window is more exact.
    fn measured(&self, now: Timestamp) -> f64 {
        let fast = per_second(&self.fast, self.lately(now).asked(), now);
        fast.min(per_second(&self.slow, self.five_minutes(now).asked(), now))
    }

    fn fails(&self, now: Timestamp) -> bool {
        SLOW.is_broken_by(self.slow.sum(now).with_older())
            || (FAST_FROM_SECS..=FAST.within_secs).any(|secs| FAST.is_broken_by(self.fast.sum_of(secs, now)))
    }

    fn took(&self, now: Timestamp) -> f64 {
        per_second(&self.slow, self.slow.sum(now).accepted(), now)
    }
}

fn only(concerned: Concerned) -> Option<Place> {
    match concerned {
        Concerned::Tenant(place) => Some(place),
        Concerned::Everyone | Concerned::Recipients => None,
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn per_second(window: &Window, n: u64, now: Timestamp) -> f64 {
    n as f64 / window.reach(now).as_secs_f64().max(SHORTEST_REACH)
}

/// Whether that number of refusals in ten seconds needs a limit: the retry budget's floor has room for fewer.
pub fn concerns(refused: u64) -> bool {
    refused as f64 >= RETRY_FLOOR_PER_SECOND
}

fn refusals() -> Window {
    Window::new(FAST.within_secs, FAST.bucket_secs)
}

/// The retries a second that an origin may have, from the attempts of the last `secs` seconds, of which `refused` were refused; none:
/// any number.
fn retries_per_second(lately: Count, refused: u64, secs: f64) -> Option<f64> {
    let failed = lately.failures.saturating_add(lately.limited).saturating_add(refused);
    if !lately.passes(failed, FAILING_PERCENT, 1) {
        return None;
    }
    let budget = lately.firsts() as f64 / secs * RETRY_PERCENT as f64 / 100.0 + RETRY_FLOOR_PER_SECOND;
    // Far below it no limit is needed.
    (lately.retries as f64 / secs * 2.0 > budget).then_some(budget)
}

#[cfg(test)]
#[path = "origin_tests.rs"]
mod tests;
