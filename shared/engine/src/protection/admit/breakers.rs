//! What breakers let a batch do, and what a worker sees itself before they react.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::{Rng, RngExt};

use super::super::guard::KnownOrigin;
use super::super::seen::ProbeOf;
use super::{Admission, Ask, Round};
use crate::ports::Protection;
use redial_core::protection::breaker::{Decision, FAST_FROM_SECS, Rule, Span};
use redial_core::protection::spread::{Concerned, Trouble};
use redial_core::protection::token_bucket::{Answer, Request, TokenBucket};
use redial_core::protection::votes::PROBES;
use redial_core::protection::wake;
use redial_core::protection::{Circuit, Whose};

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
    /// Decides on those whose recipients' own breakers do not let them pass, and on those recipients' probes: only an origin that lets pass
    /// gets them.
    pub(super) async fn ask_recipients(
        &mut self,
        doubted: &BTreeMap<Circuit, Vec<usize>>,
        order: &[usize],
        rng: &mut (dyn Rng + Send),
    ) {
        for (circuit, of) in doubted {
            let mine: Vec<usize> = order.iter().copied().filter(|at| of.contains(at)).collect();
            let (word, mine) = {
                let known = self.guard.known();
                match self.word_on(known.of(circuit), mine) {
                    (Word::Breaker(Decision::Probes { .. }, _), _) if !known.passes(circuit, self.now) => {
                        continue;
                    }
                    word_and_mine => word_and_mine,
                }
            };
            self.follow(circuit, word, mine, rng).await;
        }
    }

    /// Decides on those whose origins are not asked now, and on probes.
    pub(super) async fn ask_breakers(
        &mut self,
        origins: &[Circuit],
        order: &[usize],
        rng: &mut (dyn Rng + Send),
    ) {
        for circuit in origins {
            let (word, mine) = {
                let known = self.guard.known();
                let mine = order.iter().copied().filter(|at| self.asks[*at].origin == *circuit.origin());
                self.word_on(known.of(circuit), mine.collect())
            };
            self.follow(circuit, word, mine, rng).await;
        }
    }

    /// Does with these messages what a breaker decides.
    async fn follow(
        &mut self,
        circuit: &Circuit,
        word: Word,
        mut mine: Vec<usize>,
        rng: &mut (dyn Rng + Send),
    ) {
        if mine.is_empty() {
            return;
        }
        match word {
            Word::Go | Word::Breaker(Decision::Go, _) => {}
            Word::Pause { only_last_retries } => {
                let last_retry = |at: &usize| self.asks[*at].is_retry && self.asks[*at].is_last;
                mine.retain(|at| !only_last_retries || last_retry(at));
                for at in mine {
                    let pause = Span { from: self.now.plus(OWN_PAUSE), width: OWN_PAUSE };
                    self.decided[at] = self.later(at, pause, None, rng);
                }
            }
            Word::Breaker(Decision::Later { soon }, _) => self.hold(mine, soon, None, rng),
            Word::Breaker(Decision::LinesUp { soon, far }, _) => {
                match self.looks_soon(circuit, mine.len(), soon, far).await {
                    Some(soon) => self.hold(mine, soon, None, rng),
                    None => self.line_up(circuit, mine, soon, far, rng),
                }
            }
            Word::Breaker(Decision::Probes { left, since, may_be_last, soon }, asked_per_second) => {
                let candidates = self.candidates(&mine, may_be_last);
                // Of a thousand workers that would like to, a few try; more, if none did for a while.
                let share = TRY_FOR_PROBES / asked_per_second.max(1.0) * mine.len() as f64;
                let share = share * (1.0 + self.now.since(since).as_secs_f64());
                let tries = left > 0 && !candidates.is_empty() && rng.random::<f64>() < share;
                let going =
                    if tries { self.send_probes(circuit, &candidates, rng).await } else { Vec::new() };
                mine.retain(|at| !going.contains(at));
                self.hold(mine, soon, None, rng);
            }
        }
    }

    /// What a breaker lets these do, and whom of them it concerns.
    fn word_on(&self, known: Option<&KnownOrigin>, mut mine: Vec<usize>) -> (Word, Vec<usize>) {
        let Some(it) = known else { return (Word::Go, mine) };
        let place = |at: usize| self.asks[at].whose.tenant();
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
            decision @ (Decision::Go
            | Decision::Probes { .. }
            | Decision::Later { .. }
            | Decision::LinesUp { .. }) => {
                mine.retain(|at| it.state.concerns(place(*at)));
                (Word::Breaker(decision, it.state.asked_per_second(self.now)), mine)
            }
        }
    }

    /// When messages look again that wait for an origin: `None` if they are so many that most of them look later. Were it always soon,
    /// each of a growing number of messages would look once a cooldown, and the cost of a dead origin would grow with the square of
    /// time. So they take places in a line that moves at [`LOOKS_PER_SECOND`], until it is so long that it ends when the others look.
    async fn looks_soon(&mut self, circuit: &Circuit, waiting: usize, soon: Span, far: Span) -> Option<Span> {
        let end = match circuit {
            // The others wait in the origin's line.
            Circuit::Origin(_) => soon.end(),
            Circuit::Recipient(_) if far.end() <= soon.end() => return Some(soon),
            Circuit::Recipient(_) => far.end(),
        };
        let crowded = self.guard.known().of(circuit).and_then(|it| it.crowded);
        if crowded == Some(soon.from) {
            return None;
        }
        let key = TokenBucket::Waiting(circuit.to_string()).key();
        let places = u32::try_from(waiting).unwrap_or(u32::MAX);
        let request = Request::new(key, places, LOOKS_PER_SECOND, Some(end), soon.from);
        match self.store.lease(request.clone()).await {
            Ok(Answer::Leased { begin }) => {
                let width = begin.plus(request.span).since(soon.from).min(end.since(soon.from));
                Some(Span { width: width.max(soon.width), ..soon })
            }
            Ok(Answer::Empty { .. }) => {
                // Asking again before the next cooldown is of no use: the line gets no shorter until then.
                self.guard.known().entry(circuit.clone()).crowded = Some(soon.from);
                None
            }
            Err(error) => {
                self.changes.errors.push(error);
                None
            }
        }
    }

    /// Until soon, or until far, if it is not over by then.
    fn later(
        &self,
        at: usize,
        soon: Span,
        far: Option<Span>,
        rng: &mut (dyn Rng + Send),
    ) -> Option<Admission> {
        let ask = &self.asks[at];
        let at = wake::far_or_soon(soon, far, ask.rank, ask.deadline, rng)?;
        Some(Admission::Later { at })
    }

    /// These wait in their origin's line; those that are urgent, or have little time, look again by themselves, and so do all that one
    /// recipient's breaker holds back.
    fn line_up(
        &mut self,
        circuit: &Circuit,
        waiting: Vec<usize>,
        soon: Span,
        far: Span,
        rng: &mut (dyn Rng + Send),
    ) {
        let has_line = matches!(circuit, Circuit::Origin(_));
        for at in waiting {
            let Ask { rank, deadline, .. } = self.asks[at];
            let lines_up = has_line && wake::may_wait(soon, far, rank, deadline);
            let later = self.later(at, soon, Some(far), rng);
            self.decided[at] = Some(match later {
                Some(Admission::Later { at: or_at }) if lines_up => Admission::LinesUp { or_at },
                later => later.unwrap_or(Admission::TooLate),
            });
        }
    }

    fn hold(&mut self, held: Vec<usize>, soon: Span, far: Option<Span>, rng: &mut (dyn Rng + Send)) {
        for at in held {
            let later = self.later(at, soon, far, rng);
            self.decided[at] = Some(later.unwrap_or(Admission::TooLate));
        }
    }

    /// Which of these may become probes. No last attempt is spent on one, unless no other message comes.
    fn candidates(&self, mine: &[usize], none_came: bool) -> Vec<usize> {
        let (last, others): (Vec<usize>, Vec<usize>) = mine.iter().partition(|at| self.asks[**at].is_last);
        if others.is_empty() && none_came { last } else { others }
    }

    /// Sends some of these as probes, as far as probes are left and limits have slots for them; answers which of them go.
    async fn send_probes(
        &mut self,
        circuit: &Circuit,
        candidates: &[usize],
        rng: &mut (dyn Rng + Send),
    ) -> Vec<usize> {
        let now = self.now;
        let whose = |at: &usize| self.asks[*at].whose;
        let likely: Vec<usize> = {
            let known = self.guard.known();
            let of: Vec<Whose> = candidates.iter().map(whose).collect();
            let chosen = known.of(circuit).map(|it| it.state.breaker().choose_probes(&of, now));
            chosen.unwrap_or_default().into_iter().map(|at| candidates[at]).collect()
        };
        let probes = self.take_for_probes(&likely, rng).await;
        if probes.is_empty() {
            return Vec::new();
        }
        let of: Vec<Whose> = probes.iter().map(|probe| whose(&probe.place)).collect();
        let changed = self
            .guard
            .change(self.store, circuit, now, |state, _| {
                let going = state.send_probes(&of, now);
                (!going.is_empty()).then_some(going)
            })
            .await;
        let (going, moved) = match changed {
            Ok(changed) => {
                changed.map_or((Vec::new(), Ok(None)), |(going, transition)| (going, Ok(transition)))
            }
            Err(error) => (Vec::new(), Err(error)),
        };
        self.changes.take(moved);
        let probes = probes.into_iter().enumerate();
        let (go, stay): (Vec<_>, Vec<_>) = probes.partition(|(nth, _)| going.contains(nth));
        self.give_back(stay.iter().map(|(_, probe)| probe));
        let of = match circuit {
            Circuit::Origin(_) => ProbeOf::Origin,
            Circuit::Recipient(_) => ProbeOf::Recipient,
        };
        for (_, probe) in &go {
            self.decided[probe.place] = Some(Admission::Go { at: probe.at, probe: Some(of) });
        }
        go.iter().map(|(_, probe)| probe.place).collect()
    }
}
