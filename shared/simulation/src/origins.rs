//! What happened to origins: POSTs and their answers, and the moves of breakers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redial_core::endpoint::Origin;
use redial_core::outcome::Outcome;
use redial_core::protection::breaker::{Cooldowns, Phase};
use redial_core::protection::votes::{MAJORITY, PROBES};
use redial_core::protection::{OriginState, Whose};
use redial_core::rate::Rate;
use redial_core::time::Timestamp;
use redial_engine::ports::Limited;

/// Two clocks, each two seconds off in its own direction.
const SKEW: Duration = Duration::from_secs(4);

/// An attempt that left before its breaker opened is over after this.
const UNDER_WAY: Duration = Duration::from_secs(35);

/// What an answer says of an origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    Well,
    Fails,
    Limited,
}

impl Sign {
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Response(response) if response.status == 429 => Self::Limited,
            Outcome::Response(response) if response.status < 500 => Self::Well,
            Outcome::Response(_) | Outcome::NotSent(_) | Outcome::InDoubt(_) | Outcome::Impossible(_) => {
                Self::Fails
            }
        }
    }
}

/// A limit that an operator set, and for how long.
#[derive(Clone, PartialEq, Debug)]
pub struct SetLimit {
    pub limited: Limited,
    pub rate: Rate,
    pub from: Timestamp,
    pub until: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub struct Origins {
    pub of: BTreeMap<Origin, Past>,
    pub limits: Vec<SetLimit>,
    /// All POSTs that a limit may hold for.
    pub posts: BTreeMap<Limited, Vec<Timestamp>>,
}

/// A POST, and whose it was.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    pub at: Timestamp,
    pub sign: Sign,
    pub whose: Whose,
    /// Whether the origin's breaker concerned its tenant then.
    pub concerned: bool,
}

/// An origin's.
#[derive(Debug, Default)]
pub struct Past {
    pub posts: Vec<Posted>,
    /// The last move of its breaker.
    pub moved: Option<Timestamp>,
    /// When it was last forgotten whose attempts failed: at each move but the end of a ramp.
    pub forgotten: Timestamp,
    /// When its breaker opened last.
    opened: Timestamp,
    /// Since when it has been half open.
    pub half_open: Option<Timestamp>,
    version: u64,
    state: OriginState,
}

impl Past {
    /// Follows the stored state; answers what its breaker must not have done. An operator moves it as he likes.
    pub fn follow(
        &mut self,
        version: u64,
        state: &OriginState,
        by_hand: bool,
        is_calm: bool,
        now: Timestamp,
    ) -> Vec<String> {
        if version == self.version && !by_hand {
            self.notes_phase(now);
            return Vec::new();
        }
        let (before, after) =
            (self.state.breaker().last_changed_phase(), state.breaker().last_changed_phase());
        let mut wrong = Vec::new();
        if version != self.version && !by_hand {
            wrong = self.wrongs(before, after, is_calm, now);
        }
        let is_open_anew = matches!(after, Phase::Open { .. }) && before != after;
        // Counts start again, too, where an operator closes what is closed.
        let is_turned = by_hand && version != self.version;
        if is_turned || before.label() != after.label() || is_open_anew {
            self.moved = Some(now);
            let is_ramp_s_end = matches!((before, after), (Phase::Ramping { .. }, Phase::Closed)) && !by_hand;
            if !is_ramp_s_end {
                self.forgotten = now;
            }
            if matches!(after, Phase::Open { .. }) {
                self.opened = now;
            }
        }
        (self.version, self.state) = (version, state.clone());
        self.notes_phase(now);
        wrong
    }

    pub fn notes_post(&mut self, at: Timestamp, sign: Sign, whose: Whose) {
        let concerned = self.state.concerns(whose.tenant());
        self.posts.push(Posted { at, sign, whose, concerned });
    }

    fn notes_phase(&mut self, now: Timestamp) {
        match self.phase(now) {
            Phase::HalfOpen { .. } => self.half_open = self.half_open.or(Some(now)),
            Phase::Closed | Phase::Open { .. } | Phase::Ramping { .. } | Phase::Paused { .. } => {
                self.half_open = None;
            }
        }
    }

    /// Since when its breaker has been open for one tenant alone; `None` if it is not.
    pub fn open_for_one_since(&self, now: Timestamp) -> Option<Timestamp> {
        let is_open = matches!(self.phase(now), Phase::Open { .. });
        (is_open && self.is_for_one_tenant()).then_some(self.opened)
    }

    fn wrongs(&self, before: Phase, after: Phase, is_calm: bool, now: Timestamp) -> Vec<String> {
        // What goes to a tenant that is not held back is no probe.
        let is_probe = |it: &&Posted| it.concerned && self.state.concerns(it.whose.tenant());
        let since = |from: Timestamp, sign| -> Vec<Whose> {
            let posts = self.posts.iter().filter(|it| it.at >= from && it.sign == sign).filter(is_probe);
            posts.map(|it| it.whose).collect()
        };
        let mut wrong = Vec::new();
        match (before, after) {
            (_, Phase::HalfOpen { sent, .. }) if sent > PROBES => {
                wrong.push(format!("sent {sent} probes at once"));
            }
            (Phase::Open { until }, Phase::HalfOpen { .. }) if now.plus(SKEW) < until => {
                wrong.push("half-opened before its cooldown was over".to_owned());
            }
            (Phase::Open { .. }, Phase::Closed | Phase::Ramping { .. } | Phase::Paused { .. }) => {
                wrong.push(format!("went from open to {}", after.label()));
            }
            (Phase::HalfOpen { .. }, Phase::Ramping { .. } | Phase::Closed) => {
                let well = since(self.opened, Sign::Well).len();
                let mut against = since(self.opened, Sign::Fails);
                against.extend(since(self.opened, Sign::Limited));
                // With fewer successes only the troubles of some are outvoted.
                if well == 0 || (well < MAJORITY as usize && against.is_empty()) {
                    wrong.push(format!("closed after {well} successes"));
                }
                let failed = since(self.opened.plus(UNDER_WAY), Sign::Fails);
                if is_calm && failed.len() > well && are_many(&failed) {
                    wrong.push(format!("closed although {} probes failed", failed.len()));
                }
            }
            (Phase::HalfOpen { .. } | Phase::Closed | Phase::Ramping { .. }, Phase::Open { until }) => {
                let Cooldowns { first, longest } = Cooldowns::default();
                let lasts = until.since(now);
                if lasts.saturating_add(UNDER_WAY) < first || lasts > longest.mul_f64(1.2) {
                    wrong.push(format!("opened for {lasts:?}"));
                }
            }
            (
                Phase::Closed
                | Phase::Open { .. }
                | Phase::HalfOpen { .. }
                | Phase::Ramping { .. }
                | Phase::Paused { .. },
                _,
            ) => {}
        }
        wrong
    }

    pub fn phase(&self, now: Timestamp) -> Phase {
        self.state.breaker().phase(now)
    }

    /// Whether its breaker holds back one tenant alone.
    pub fn is_for_one_tenant(&self) -> bool {
        self.state.is_for_one_tenant()
    }

    /// The POSTs that left in that time.
    pub fn posted(&self, from: Timestamp, until: Timestamp) -> impl Iterator<Item = Posted> {
        let recent = self.posts.iter().rev().skip_while(move |it| it.at > until);
        recent.take_while(move |it| it.at >= from).copied()
    }
}

/// Whether these are of more tenants and recipients than the trouble of some.
fn are_many(of: &[Whose]) -> bool {
    let tenants: BTreeSet<_> = of.iter().map(|whose| whose.tenant()).collect();
    let recipients: BTreeSet<_> = of.iter().map(|whose| (whose.tenant(), whose.mark())).collect();
    tenants.len() >= 2 && recipients.len() >= 3
}
