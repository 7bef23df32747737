//! The circuit breaker of an origin: during an outage a few probes are sent, and nothing else.
//!
//! ```text
//!           too many failures                   its cooldown ends
//!  closed ───────────────────► open (cooldown) ──────────────────► half-open: a few probes
//!    ▲                          ▲                                    │           │
//!    │ the ramp is over         └────── most fail, a longer cooldown ┘           │ most succeed
//!    └───────────────────────── ramping: a pace that grows ◄─────────────────────┘
//! ```
//!
//! Whose probes they are, and what follows from their answers, is [`votes`](super::votes).
//!
//! It is a value without a clock: `now` and the random source are arguments, so that a thousand workers that share it, a
//! simulation and a test run the same. How fast attempts go while it ramps is the pace's to say.

use std::time::Duration;

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::count::Count;
use super::votes::{PROBES, Verdict, Voters, Votes};
use super::whose::Whose;
use crate::time::Timestamp;

pub const SLOW: Rule = Rule { percent: 20, at_least: 20, within_secs: 300, bucket_secs: 10 };

/// More than 50 % of at least 50 attempts within ten seconds, and be it the last [`FAST_FROM_SECS`] of them.
pub const FAST: Rule = Rule { percent: 50, at_least: 50, within_secs: 10, bucket_secs: 1 };

/// [`FAST`] judges at least this many seconds: one bad second is no outage.
pub const FAST_FROM_SECS: u32 = 3;

/// A share of a minimum of attempts within a time, counted in buckets of `bucket_secs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    pub percent: u64,
    pub at_least: u64,
    pub within_secs: u32,
    pub bucket_secs: u32,
}

impl Rule {
    pub fn is_broken_by(&self, count: Count) -> bool {
        count.passes(count.failures, self.percent, self.at_least)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cooldowns {
    /// The first, and the shortest.
    pub first: Duration,
    pub longest: Duration,
}

impl Default for Cooldowns {
    fn default() -> Self {
        Self { first: Duration::from_secs(30), longest: Duration::from_secs(900) }
    }
}

impl Cooldowns {
    /// The cooldown of an origin that has been out for `out_for`.
    fn after(&self, out_for: Duration) -> Duration {
        (out_for / COOLDOWN_PART).max(self.first).min(self.longest)
    }
}

/// A cooldown is a twentieth of the time that the origin has been out: after its recovery nothing waits for a probe for longer than that.
const COOLDOWN_PART: u32 = 20;

/// Most messages that wait look again after three tenths of the time that the origin has been out, or a fifth of it and six minutes, if that
/// is less; give or take a tenth. So each looks a few times, and all are back within a third of the outage's length after its end.
const LOOKS_AGAIN_AFTER: [(f64, Duration); 2] = [(0.3, Duration::ZERO), (0.2, Duration::from_secs(360))];

/// Share of that time that is added or taken off at random.
const LOOKS_AGAIN_JITTER: f64 = 0.1;

/// Those who wait look again after no longer than this: the ledger knows a delivery for 15 days after its last change.
const LOOKS_AGAIN_WITHIN: Duration = Duration::from_secs(6 * 86_400);

/// After this time without another message, a last attempt may be a probe, too.
const LAST_RESORT: Duration = Duration::from_secs(20);

/// The first one of a half-open breaker waits for this part of the time that the origin has been out: each of them may cost a message.
const LAST_RESORT_PART: u32 = 3;

/// Share of a cooldown that is added to it at random, so that origins that failed together are not probed together.
const COOLDOWN_JITTER: f64 = 0.1;

/// How long a half-open breaker waits for its probes' answers before it lets others through.
pub const PROBES_ANSWERED_WITHIN: Duration = Duration::from_secs(30);

pub const RAMP: Duration = Duration::from_secs(60);

/// A half-open breaker without a probe is abandoned after this time, or after as long as its origin was out, if that is longer: whatever
/// waited for it has looked again within a third of that.
const ABANDONED_AFTER: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "phase")]
pub enum Phase {
    /// Everything passes.
    Closed,
    /// Nothing passes.
    Open { until: Timestamp },
    /// Since the last probe passed, or, while none has, since probes were first allowed.
    HalfOpen { since: Timestamp, sent: u32, succeeded: u32 },
    /// Everything passes at a pace that grows.
    Ramping { since: Timestamp },
    /// The origin asked everyone to stay away until then.
    Paused { until: Timestamp },
}

impl Phase {
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen { .. } => "half_open",
            Self::Ramping { .. } => "ramping",
            Self::Paused { .. } => "paused",
        }
    }
}

/// What a breaker decides for an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It passes.
    Go,
    /// Only `left` more may go, and their results decide on the others: those that have to wait return within `soon`.
    Probes { left: u32, since: Timestamp, may_be_last: bool, soon: Span },
    /// Within `soon`: the origin asked everyone to stay away until then.
    Later { soon: Span },
    /// A few look again within `soon`. The others wait in the origin's line until it lets them go, or look again within `far`.
    LinesUp { soon: Span, far: Span },
}

/// A span of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub from: Timestamp,
    pub width: Duration,
}

impl Span {
    pub fn end(&self) -> Timestamp {
        self.from.plus(self.width)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Breaker {
    #[serde(flatten)]
    phase: Phase,
    /// How often it opened without having closed between. Only an earlier release reads it.
    openings: u32,
    /// When it opened first without having closed since. An earlier release leaves it out; then it is as if it had just opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    out_since: Option<Timestamp>,
    /// Who was there when it opened. An earlier release knows neither these nor their votes: it leaves them out.
    #[serde(default, skip_serializing_if = "is_default")]
    voters: Voters,
    #[serde(default, skip_serializing_if = "Votes::is_empty")]
    votes: Votes,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            phase: Phase::Closed,
            openings: 0,
            out_since: None,
            voters: Voters::default(),
            votes: Votes::default(),
        }
    }
}

impl Breaker {
    /// Where it stands at `now`: what time alone changes is in it.
    pub fn phase(&self, now: Timestamp) -> Phase {
        match self.phase {
            Phase::Open { until } if now >= until => Phase::HalfOpen { since: until, sent: 0, succeeded: 0 },
            // Its probes were not answered: their workers died, or were slow. Others go in their place. `since` stays: looking
            // must not move it, because last attempts become probes once no probe has passed for a while.
            Phase::HalfOpen { since, succeeded, sent }
                if sent > self.answered(succeeded) && now.since(since) >= PROBES_ANSWERED_WITHIN =>
            {
                Phase::HalfOpen { since, sent: self.answered(succeeded), succeeded }
            }
            Phase::Paused { until } if now >= until => ramping(until, now),
            Phase::Ramping { since } => ramping(since, now),
            phase @ (Phase::Closed | Phase::Open { .. } | Phase::HalfOpen { .. } | Phase::Paused { .. }) => {
                phase
            }
        }
    }

    /// Whether it is half open and was not probed for so long that nothing can be waiting for it.
    pub fn is_abandoned(&self, now: Timestamp) -> bool {
        let Phase::HalfOpen { since, .. } = self.phase(now) else { return false };
        now.since(since) >= self.out_for(since).max(ABANDONED_AFTER)
    }

    fn answered(&self, succeeded: u32) -> u32 {
        succeeded.saturating_add(self.votes.failed())
    }

    /// Where it stood when it was last changed.
    pub fn last_changed_phase(&self) -> Phase {
        self.phase
    }

    pub fn decide(&self, now: Timestamp, cooldowns: &Cooldowns) -> Decision {
        match self.phase(now) {
            Phase::Closed | Phase::Ramping { .. } => Decision::Go,
            Phase::Open { until } => {
                let out_for = self.out_for(now);
                let again =
                    LOOKS_AGAIN_AFTER.map(|(share, more)| out_for.mul_f64(share).saturating_add(more));
                let again = again.into_iter().min().unwrap_or_default().min(LOOKS_AGAIN_WITHIN);
                let soon = Span { from: until, width: cooldowns.first };
                let far = Span {
                    from: until.max(now.plus(again.mul_f64(1.0 - LOOKS_AGAIN_JITTER))),
                    width: again.mul_f64(2.0 * LOOKS_AGAIN_JITTER).max(cooldowns.first),
                };
                Decision::LinesUp { soon, far: if now.plus(again) > soon.end() { far } else { soon } }
            }
            Phase::Paused { until } => Decision::Later { soon: Span { from: until, width: RAMP } },
            Phase::HalfOpen { sent, since, succeeded } => Decision::Probes {
                since,
                left: PROBES.saturating_sub(sent),
                may_be_last: now.since(since) >= self.last_resort(succeeded, now, cooldowns),
                soon: Span {
                    from: now.plus(Duration::from_secs(2)),
                    width: cooldowns.first.min(PROBES_ANSWERED_WITHIN),
                },
            },
        }
    }

    /// How long the origin has been out.
    pub fn out_for(&self, now: Timestamp) -> Duration {
        self.out_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// How long after the last probe a last attempt may be one.
    fn last_resort(&self, succeeded: u32, now: Timestamp, cooldowns: &Cooldowns) -> Duration {
        let first = (self.out_for(now) / LAST_RESORT_PART).min(cooldowns.longest);
        if succeeded > 0 { LAST_RESORT } else { first.max(LAST_RESORT) }
    }

    /// Which of these may go as probes.
    pub fn choose_probes(&self, of: &[Whose], now: Timestamp) -> Vec<usize> {
        let Phase::HalfOpen { sent, .. } = self.phase(now) else { return Vec::new() };
        let left = PROBES.saturating_sub(sent);
        self.votes_at(now).choose(of, left, self.voters, now)
    }

    /// Lets some of these go as probes; answers which.
    pub fn send_probes(&mut self, of: &[Whose], now: Timestamp) -> Vec<usize> {
        let going = self.choose_probes(of, now);
        self.votes = self.votes_at(now);
        self.phase = self.phase(now);
        if let (Phase::HalfOpen { sent, succeeded, .. }, false) = (self.phase, going.is_empty()) {
            let sent = sent.saturating_add(u32::try_from(going.len()).unwrap_or(u32::MAX));
            self.phase = Phase::HalfOpen { since: now, sent, succeeded };
            self.votes.send(going.iter().map(|at| of[*at]), now);
        }
        going
    }

    /// Without those that were not answered in time.
    fn votes_at(&self, now: Timestamp) -> Votes {
        let mut votes = self.votes.clone();
        if self.phase(now) != self.phase {
            votes.forget_unanswered();
        }
        votes
    }

    /// Records the results of probes: whose they were, and whether they succeeded. `true` if that closed it: attempts may go again, at a
    /// pace that grows.
    pub fn probed(
        &mut self,
        answers: &[(Whose, bool)],
        now: Timestamp,
        cooldowns: &Cooldowns,
        rng: &mut dyn Rng,
    ) -> bool {
        let Phase::HalfOpen { since, sent, succeeded: before } = self.phase else { return false };
        answers.iter().for_each(|(whose, succeeded)| self.votes.answer(*whose, *succeeded));
        let new = answers.iter().filter(|(_, succeeded)| *succeeded).count();
        let succeeded = before.saturating_add(u32::try_from(new).unwrap_or(u32::MAX));
        let verdict = self.votes.verdict(succeeded, self.voters, now);
        match verdict {
            Some(Verdict::Closes) => {
                self.phase = Phase::Ramping { since: now };
                self.votes = Votes::default();
            }
            Some(Verdict::Opens) => self.open(None, now, cooldowns, rng),
            // An answer may come after another probe was sent in its place.
            None => {
                let sent = sent.max(self.answered(succeeded));
                self.phase = Phase::HalfOpen { since, sent, succeeded };
            }
        }
        verdict == Some(Verdict::Closes)
    }

    /// Who was there when it opened: their votes decide when it is half open.
    pub fn hear(&mut self, voters: Voters) {
        self.voters = voters;
    }

    /// Opens it if its attempts fail too often. `true` if that opened it.
    pub fn judge(&mut self, fails: bool, now: Timestamp, cooldowns: &Cooldowns, rng: &mut dyn Rng) -> bool {
        let opens = self.passes(now) && fails;
        if opens {
            self.open(None, now, cooldowns, rng);
        }
        opens
    }

    pub fn open(
        &mut self,
        lasting: Option<Duration>,
        now: Timestamp,
        cooldowns: &Cooldowns,
        rng: &mut dyn Rng,
    ) {
        self.openings = self.openings.saturating_add(1);
        self.out_since = self.out_since.or(Some(now));
        let cooldown = cooldowns.after(self.out_for(now));
        let jittered = cooldown.saturating_add(cooldown.mul_f64(COOLDOWN_JITTER * rng.random::<f64>()));
        self.phase = Phase::Open { until: now.plus(lasting.unwrap_or(jittered)) };
        self.votes = Votes::default();
    }

    /// Lets nothing pass for as long as the origin asked, if anything passes now.
    pub fn pause(&mut self, lasting: Duration, now: Timestamp) -> bool {
        let pauses = self.passes(now);
        if pauses {
            self.phase = Phase::Paused { until: now.plus(lasting) };
        }
        pauses
    }

    pub fn close(&mut self) {
        *self = Self::default();
    }

    /// Lets attempts go again, at a pace that grows, if it lets none pass now. `true` if that closed it.
    pub fn close_gently(&mut self, now: Timestamp) -> bool {
        let closes = !self.passes(now);
        if closes {
            self.phase = Phase::Ramping { since: now };
            self.votes = Votes::default();
        }
        closes
    }

    /// Moves to the phase of `now`. Whether attempts pass in it.
    fn passes(&mut self, now: Timestamp) -> bool {
        let phase = self.phase(now);
        if phase == Phase::Closed && phase != self.phase {
            (self.openings, self.out_since) = (0, None);
        }
        self.phase = phase;
        matches!(phase, Phase::Closed | Phase::Ramping { .. })
    }
}

fn ramping(since: Timestamp, now: Timestamp) -> Phase {
    if now.since(since) >= RAMP { Phase::Closed } else { Phase::Ramping { since } }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
