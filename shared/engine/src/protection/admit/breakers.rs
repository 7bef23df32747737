//! What breakers let a batch do, and what a worker sees itself before they react.

use std::time::Duration;

use rand::{Rng, RngExt};

use super::super::guard::KnownOrigin;
use super::{Admission, Round};
use crate::ports::Protection;
use redial_core::endpoint::Origin;
use redial_core::protection::Place;
use redial_core::protection::breaker::{Decision, FAST_FROM_SECS, PROBES, Rule};
use redial_core::protection::spread::{Concerned, Trouble};
use redial_core::protection::token_bucket::{Answer, Request, TokenBucket};
use redial_core::protection::wake;
use redial_core::time::Timestamp;

/// How many workers a second try for a half-open breaker's probes, together.
const TRY_FOR_PROBES: f64 = 4.0 * PROBES as f64;

/// A worker that sees this itself does not wait for the others to see it, too: it pauses.
const OWN: Rule = Rule { percent: 50, at_least: 10, within_secs: FAST_FROM_SECS, bucket_secs: 1 };

/// The same, for those who have but one retry left.
const OWN_LAST: Rule = Rule { at_least: 5, ..OWN };

/// If more than this share of the others' attempts fail, too, it is not one tenant's or recipient's trouble.
const OWN_SPREAD_PERCENT: u64 = 10;

/// How long it pauses, and over which time those who wait for it are spread.
const OWN_PAUSE: Duration = Duration::from_secs(2);

/// How many of the messages that wait for an origin look at its breaker a second, once it has been out for long. Looks at a
/// constant rate cost the same each hour, however many messages wait. A hundred messages look once in a thousand seconds at this
/// rate, which is about the longest cooldown.
const LOOKS_PER_SECOND: f64 = 0.1;

/// After so long without another message a last attempt may be a probe, too.
const LAST_RESORT: Duration = Duration::from_secs(20);

/// What an origin's breaker lets a batch do.
enum Word {
    Go,
    /// The worker itself has seen too much: messages that can wait, wait a little. Or only those that have no retry after this one.
    Pause {
        only_last_retries: bool,
    },
    /// What the breaker decides, and how many messages want to be sent there a second.
    Breaker(Decision, f64),
}

impl<P: Protection> Round<'_, P> {
    /// Decides on those whose origins are not asked now, and on probes.
    pub(super) async fn ask_breakers(
        &mut self,
        origins: &[Origin],
        order: &[usize],
        rng: &mut (dyn Rng + Send),
    ) {
        for origin in origins {
            let (word, mut mine) = {
                let known = self.guard.known();
                let mine = order.iter().copied().filter(|at| self.asks[*at].origin == *origin);
                self.word_on(known.origins.get(origin), mine.collect())
            };
            if mine.is_empty() {
                continue;
            }
            match word {
                Word::Go | Word::Breaker(Decision::Go, _) => {}
                Word::Pause { only_last_retries } => {
                    let last_retry = |at: &usize| self.asks[*at].is_retry && self.asks[*at].is_last;
                    mine.retain(|at| !only_last_retries || last_retry(at));
                    for at in mine {
                        self.decided[at] = self.later(at, self.now.plus(OWN_PAUSE), OWN_PAUSE, rng);
                    }
                }
                Word::Breaker(Decision::Later { from, width, longest }, _) => {
                    let width = self.line_up(origin, mine.len(), from, width, longest).await;
                    self.hold(mine, from, width, rng);
                }
                Word::Breaker(Decision::Probes { left, since, from, width }, asked_per_second) => {
                    // No last attempt is spent on a probe, unless no other message comes.
                    mine.sort_by_key(|at| self.asks[*at].is_last);
                    let none_came = self.now.since(since) >= LAST_RESORT;
                    let wanted = mine.iter().filter(|at| none_came || !self.asks[**at].is_last).count();
                    // Of a thousand workers that would like to, a few try; more, if none did for a while.
                    let share = TRY_FOR_PROBES / asked_per_second.max(1.0) * mine.len() as f64;
                    let share = share * (1.0 + self.now.since(since).as_secs_f64());
                    let tries = left > 0 && wanted > 0 && rng.random::<f64>() < share;
                    let candidates = if tries { wanted.min(left as usize) } else { 0 };
                    let going = self.send_probes(origin, &mine[..candidates], rng).await;
                    mine.retain(|at| !going.contains(at));
                    self.hold(mine, from, width, rng);
                }
            }
        }
    }

    /// What an origin's breaker lets these do, and whom of them it concerns.
    fn word_on(&self, known: Option<&KnownOrigin>, mut mine: Vec<usize>) -> (Word, Vec<usize>) {
        let Some(it) = known else { return (Word::Go, mine) };
        let place = |at: usize| Place::of(&self.asks[at].origin, &self.asks[at].tenant);
        let own = it.own.sum(self.now);
        match it.state.breaker().decide(self.now, &self.guard.settings.cooldowns) {
            Decision::Go if OWN_LAST.is_broken_by(own) => {
                match it.own_spread.sum(self.now).concerned(Trouble::Failures, OWN_SPREAD_PERCENT) {
                    Concerned::Everyone => {}
                    Concerned::Tenant(only) => mine.retain(|at| place(*at) == only),
                    Concerned::Recipients => return (Word::Go, mine),
                }
                (Word::Pause { only_last_retries: !OWN.is_broken_by(own) }, mine)
            }
            decision @ (Decision::Go | Decision::Probes { .. } | Decision::Later { .. }) => {
                mine.retain(|at| it.state.concerns(|| place(*at)));
                (Word::Breaker(decision, it.state.asked_per_second(self.now)), mine)
            }
        }
    }

    /// Over which time messages are spread that wait for an origin. Were it always the same, each of a growing number of
    /// messages would look once a cooldown, and the cost of a dead origin would grow with the square of time. So they take
    /// places in a line that moves at [`LOOKS_PER_SECOND`], and are spread as far as it is long. Where it is longer than `longest`
    /// they are so many that some of them always look soon.
    async fn line_up(
        &mut self,
        origin: &Origin,
        waiting: usize,
        from: Timestamp,
        width: Duration,
        longest: Duration,
    ) -> Duration {
        let crowded = self.guard.known().origins.get(origin).and_then(|it| it.crowded);
        if longest <= width || crowded == Some(from) {
            return longest;
        }
        let key = TokenBucket::Waiting(origin.as_str().to_owned()).key();
        let places = u32::try_from(waiting).unwrap_or(u32::MAX);
        let request = Request::new(key, places, LOOKS_PER_SECOND, Some(from.plus(longest)), from);
        match self.store.lease(request.clone()).await {
            Ok(Answer::Leased { begin }) => begin.plus(request.span).since(from).min(longest).max(width),
            Ok(Answer::Empty { .. }) => {
                // Asking again before the next cooldown is of no use: the line gets no shorter until then.
                self.guard.known().origins.entry(origin.clone()).or_default().crowded = Some(from);
                longest
            }
            Err(error) => {
                self.changes.errors.push(error);
                longest
            }
        }
    }

    /// Until later, if it is not over by then.
    fn later(
        &self,
        at: usize,
        from: Timestamp,
        width: Duration,
        rng: &mut (dyn Rng + Send),
    ) -> Option<Admission> {
        let ask = &self.asks[at];
        let at = wake::spread(from, width, ask.rank, ask.deadline, rng)?;
        Some(Admission::Later { at })
    }

    fn hold(&mut self, held: Vec<usize>, from: Timestamp, width: Duration, rng: &mut (dyn Rng + Send)) {
        for at in held {
            let later = self.later(at, from, width, rng);
            self.decided[at] = Some(later.unwrap_or(Admission::TooLate));
        }
    }

    /// Sends these as probes, as far as probes are left and limits have slots for them; answers which of them go.
    async fn send_probes(
        &mut self,
        origin: &Origin,
        candidates: &[usize],
        rng: &mut (dyn Rng + Send),
    ) -> Vec<usize> {
        let mut probes = self.take_for_probes(candidates, rng).await;
        let (now, wanted) = (self.now, u32::try_from(probes.len()).unwrap_or(u32::MAX));
        if wanted == 0 {
            return Vec::new();
        }
        let changed = self
            .guard
            .change(self.store, origin, now, |state, _| {
                let going = state.send_probes(wanted, now);
                (going > 0).then_some(going)
            })
            .await;
        let (going, moved) = match changed {
            Ok(changed) => changed.map_or((0, Ok(None)), |(going, transition)| (going, Ok(transition))),
            Err(error) => (0, Err(error)),
        };
        self.changes.take(moved);
        self.give_back(&probes.split_off(going as usize));
        for probe in &probes {
            self.decided[probe.place] = Some(Admission::Go { at: probe.at, probe: true });
        }
        probes.iter().map(|probe| probe.place).collect()
    }
}
