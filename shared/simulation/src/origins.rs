//! What happened to origins: POSTs and their answers, and the moves of breakers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redial_core::endpoint::Origin;
use redial_core::protection::breaker::{Cooldowns, Phase};
use redial_core::protection::votes::{MAJORITY, PROBES};
use redial_core::protection::{Circuit, OriginState, Whose};
use redial_core::rate::Rate;
use redial_core::time::Timestamp;
use redial_engine::ports::Limited;

use crate::posted::{Posted, Sign};
use crate::votes::Voters;

/// A cooldown is no longer than this part of the time that an origin has been out.
const COOLDOWN_PART: u32 = 20;

/// Two clocks, each two seconds off in its own direction.
const SKEW: Duration = Duration::from_secs(4);

/// By how late attempts a worker tells whose an origin's troubles are, and by when it has added the last of them.
const SHOWN_FOR: Duration = Duration::from_secs(150);
const TOLD_WITHIN: Duration = Duration::from_secs(3);

/// An attempt that left before its breaker opened is over after this.
const UNDER_WAY: Duration = Duration::from_secs(35);

/// A probe leaves a second or two after it was admitted, and a breaker is open for longer.
const LEAVES_WITHIN: Duration = Duration::from_secs(3);

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
    /// Of single recipients, where a scenario has many.
    pub recipients: BTreeMap<Circuit, Past>,
    pub limits: Vec<SetLimit>,
    /// All POSTs that a limit may hold for.
    pub posts: BTreeMap<Limited, Vec<Timestamp>>,
}

/// An origin's.
#[derive(Debug, Default)]
pub struct Past {
    pub posts: Vec<Posted>,
    /// The last move of its breaker.
    pub moved: Option<Timestamp>,
    /// When it was last forgotten whose attempts failed: at each move but the end of a ramp.
    pub forgotten: Timestamp,
    /// When its breaker opened last, and how long its origin had been out then.
    opened: Timestamp,
    /// Who was there when it opened after it had been closed.
    voters: Voters,
    /// Whether workers knew of no other recipient's attempts when it opened after it had been closed: then it holds back others, too.
    pub opened_by_one: bool,
    out_for: Duration,
    /// Since when it has been out: when its breaker opened first without having closed since.
    out_since: Option<Timestamp>,
    /// Since when it has been half open.
    pub half_open: Option<Timestamp>,
    /// Whether its recipients are many: of few a scenario's other faults may hide who was there.
    pub is_of_a_crowd: bool,
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
            wrong.extend(self.wrong_vote(before, after, now).filter(|_| is_calm && self.is_of_a_crowd));
        }
        if self.state.is_for_one_tenant() && !state.is_for_one_tenant() {
            self.voters = self.voters.with_all(self.posts.iter().rev().copied(), now);
        }
        let is_open_anew = matches!(after, Phase::Open { .. }) && before != after;
        // Counts start again, too, where an operator closes what is closed.
        let is_turned = by_hand && version != self.version;
        if is_turned || before.label() != after.label() || is_open_anew {
            self.moved = Some(now);
            if is_open_anew && !matches!(before, Phase::HalfOpen { .. } | Phase::Open { .. }) {
                let of_late = self.posts.iter().rev().take_while(|it| it.at >= self.forgotten);
                let concerned = of_late.filter(|it| state.concerns(it.whose.tenant()));
                self.voters = Voters::of(concerned.copied(), now);
                self.opened_by_one = self.tells_of_one(now);
            }
            let is_ramp_s_end = matches!((before, after), (Phase::Ramping { .. }, Phase::Closed)) && !by_hand;
            if !is_ramp_s_end {
                self.forgotten = now;
            }
            if matches!(after, Phase::Open { .. }) {
                self.opened = now;
                self.out_for = now.since(*self.out_since.get_or_insert(now));
            }
        }
        (self.version, self.state) = (version, state.clone());
        self.notes_phase(now);
        wrong
    }

    pub fn notes_post(&mut self, posted: Posted) {
        let concerned = self.state.concerns(posted.whose.tenant());
        self.posts.push(Posted { concerned, ..posted });
    }

    /// Whether all attempts that show whose its troubles are were to one recipient: those that workers have made since their first failure.
    fn tells_of_one(&self, now: Timestamp) -> bool {
        let (mut failing, mut recipients) = (BTreeSet::new(), BTreeSet::new());
        for post in self.posted(now.minus(SHOWN_FOR), now.minus(TOLD_WITHIN)).collect::<Vec<_>>().iter().rev()
        {
            if post.sign != Sign::Well {
                failing.insert(post.worker);
            }
            if failing.contains(&post.worker) {
                recipients.insert(post.whose.recipient());
            }
        }
        recipients.len() <= 1
    }

    /// The probes since it opened last, the first one first, without those that were under way then: they are of the phase before.
    fn probes(&self) -> Vec<Posted> {
        let since = self.opened.plus(LEAVES_WITHIN);
        let recent = self.posts.iter().rev().take_while(|it| it.at >= since);
        let mut probes: Vec<Posted> = recent.filter(|it| it.is_probe).copied().collect();
        probes.reverse();
        probes
    }

    /// Whether its breaker ramps although a probe failed.
    pub fn outvotes(&self, now: Timestamp) -> bool {
        let ramps = matches!(self.phase(now), Phase::Ramping { .. });
        ramps && self.probes().iter().any(|it| it.sign != Sign::Well)
    }

    /// Why the last POST, if it was a probe, must not have been one.
    pub fn wrong_probe(&self) -> Option<String> {
        self.posts.last().filter(|it| it.is_probe)?;
        self.voters.wrong_probe(&self.probes())
    }

    /// What is wrong with a move out of the half-open phase, by whose probes decided on it.
    pub fn wrong_vote(&self, before: Phase, after: Phase, now: Timestamp) -> Option<String> {
        match (before, after) {
            (Phase::HalfOpen { .. }, Phase::Ramping { .. } | Phase::Closed) => {
                self.voters.wrong_close(&self.probes(), now)
            }
            (Phase::HalfOpen { .. }, Phase::Open { .. }) => self.voters.wrong_open(&self.probes(), now),
            (
                Phase::Closed
                | Phase::Open { .. }
                | Phase::HalfOpen { .. }
                | Phase::Ramping { .. }
                | Phase::Paused { .. },
                _,
            ) => None,
        }
    }

    /// How long the origin has been out.
    pub fn out_for(&self, now: Timestamp) -> Duration {
        self.out_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    fn notes_phase(&mut self, now: Timestamp) {
        let phase = self.phase(now);
        if phase == Phase::Closed {
            self.out_since = None;
            self.opened_by_one = false;
        }
        match phase {
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
                let out_for = self.out_for(now);
                let most = (out_for / COOLDOWN_PART).max(first).min(longest).mul_f64(1.2);
                if lasts.saturating_add(UNDER_WAY) < first || lasts > most {
                    wrong.push(format!("opened for {lasts:?} after it had been out for {out_for:?}"));
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
