//! The event loop: one policy's messages through the outage, from one moment at which something happens to the next.
//!
//! What happens next is the earliest of six things: answers come, an attempt's slot comes, a message that waited comes back,
//! a new message comes, a batch is handed to a worker, the provider's line is looked after; at the same moment in this order. Everything that is decided is
//! decided by `redial_core`: what an answer means, what follows, where a message waits, whether its TTL is over, whether the
//! provider is to be spared. What is left here is carrying it out on a virtual clock, as dispatch does on the real one; neither
//! queues nor ledger take any time. Slots and batches are there only if the scenario has workers; without them every message
//! is attempted when it is due, and nothing protects the provider.
//!
//! A message that comes back early (SQS delays in whole seconds, a bucket begins up to a minute early) is routed again, and
//! when nothing is left that SQS could delay, it waits inside dispatch: so each attempt is made when it is due. Who may go
//! is asked before that last wait, as dispatch asks it.

use std::{collections::VecDeque, time::Duration};

use rand::{SeedableRng as _, rngs::StdRng};
use redial_core::{
    identity::Attempt,
    lane::Lane,
    plan::{self, Plan, Situation},
    reason::Reason,
    route::{DelaySeconds, Route, WaitSettings, route},
    time::Timestamp,
    verdict::{self, Verdict},
};
use redial_engine::protection::Admission;

use super::{
    calendar::Calendar,
    provider::{Answer, Provider},
    scenario::{Contender, Message, Scenario},
    tally::Tally,
    workers::{Admitted, Fleet, Turn},
};

/// Waits divide in the same way in both lanes; they only divide apart from each other.
const LANE: Lane = Lane::Transactional;

/// Ends of messages are reported in lots of this many.
const LOT: u64 = 1_024;

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    answered_at: Timestamp,
    answer: Answer,
    message: Message,
    turn: Turn,
}

pub(super) struct Engine<'a> {
    scenario: &'a Scenario,
    contender: &'a Contender,
    waits: WaitSettings,
    provider: Provider,
    rng: StdRng,
    arrived: u32,
    waiting: Calendar<Message>,
    /// In the order in which they are answered, because every answer takes equally long.
    under_way: VecDeque<UnderWay>,
    fleet: Option<Fleet<'a>>,
    tally: Tally,
}

impl<'a> Engine<'a> {
    pub(super) fn new(scenario: &'a Scenario, contender: &'a Contender) -> Self {
        Self {
            scenario,
            contender,
            waits: WaitSettings::default(),
            provider: Provider::new(scenario),
            rng: StdRng::seed_from_u64(scenario.seed),
            arrived: 0,
            waiting: Calendar::new(),
            under_way: VecDeque::new(),
            fleet: scenario.workers.as_ref().map(|workers| Fleet::new(workers, scenario, contender)),
            tally: Tally::new(scenario),
        }
    }

    /// Runs until every message has ended. `ended` is called now and then with how many more have.
    pub(super) fn run(mut self, ended: &dyn Fn(u64)) -> Tally {
        let mut reported = 0;
        while self.step() {
            let unreported = self.tally.ended() - reported;
            if unreported >= LOT {
                ended(unreported);
                reported += unreported;
            }
        }
        ended(self.tally.ended() - reported);
        self.tally
    }

    /// Lets the next thing happen; `false` if nothing is left to happen.
    fn step(&mut self) -> bool {
        let answer = self.under_way.front().map(|it| it.answered_at);
        let slot = self.fleet.as_ref().and_then(Fleet::next_slot);
        let back = self.waiting.next_at();
        let arrival = (self.arrived < self.scenario.messages()).then(|| self.scenario.arrival(self.arrived));
        let batch = self.fleet.as_ref().and_then(Fleet::closes_at);
        let line = self.fleet.as_ref().and_then(Fleet::line_looked_after_at);
        let Some(now) = [answer, slot, back, arrival, batch, line].into_iter().flatten().min() else {
            return false;
        };
        if answer == Some(now) {
            self.take_answers(now);
        } else if slot == Some(now)
            && let Some((message, turn)) = self.fleet.as_mut().and_then(Fleet::take_slot)
        {
            self.attempt(message, turn, now);
        } else if back == Some(now)
            && let Some(message) = self.waiting.take()
        {
            self.receive(message, now);
        } else if arrival == Some(now) {
            let message = Message { number: self.arrived, attempt: Attempt::FIRST, due: now, held: false };
            self.arrived += 1;
            self.receive(message, now);
        } else if batch == Some(now) {
            self.admit(now);
        } else if let Some(fleet) = &mut self.fleet {
            for (at, message) in fleet.look_after_line(now) {
                self.waiting.put(at.plus(Fleet::hand_out(&mut self.rng)), Message { due: at, ..message });
            }
        }
        true
    }

    /// Dispatch has the message in hand: what its gate asks.
    fn receive(&mut self, message: Message, now: Timestamp) {
        if self.scenario.deadline(message, self.contender).is_over(now, message.attempt.0) {
            self.end(message, Plan::Expired, false, now);
            return;
        }
        let Some(fleet) = &mut self.fleet else {
            if now < message.due {
                self.wait(message, now);
            } else {
                self.attempt(message, Turn::default(), now);
            }
            return;
        };
        match route(LANE, message.due, now, &self.waits) {
            Route::Queue(DelaySeconds::ZERO) => {
                fleet.gather(message, now);
                if fleet.closes_at() == Some(now) {
                    self.admit(now);
                }
            }
            Route::Queue(_) | Route::Park(_) => {
                self.wait(message, now);
            }
        }
    }

    fn admit(&mut self, now: Timestamp) {
        let Some(fleet) = &mut self.fleet else { return };
        for Admitted { message, admission, turn } in fleet.admit(now, &mut self.rng) {
            match admission {
                Admission::Go { at, probe: _ } => {
                    if let Some(fleet) = &mut self.fleet {
                        fleet.keep_slot(at.max(message.due).max(now), message, turn);
                    }
                }
                Admission::Later { at } => self.defer(message, at, now),
                Admission::Seatless { at } => self.defer(message, at.unwrap_or(now), now),
                Admission::LinesUp { or_at: _ } => {
                    self.tally.deferred(message.held, now);
                    self.tally.lined_up();
                    if let Some(fleet) = &mut self.fleet {
                        fleet.line_up(Message { held: true, ..message }, now);
                    }
                }
                Admission::TooLate => {
                    let plan = plan::failed(Reason::TtlExceeded, &self.contender.policy);
                    self.end(Message { held: true, ..message }, plan, false, now);
                }
            }
        }
    }

    fn defer(&mut self, message: Message, until: Timestamp, now: Timestamp) {
        self.tally.deferred(message.held, now);
        let route_taken = self.wait(Message { due: until, held: true, ..message }, now);
        self.tally.waits(&route_taken);
    }

    fn attempt(&mut self, message: Message, turn: Turn, now: Timestamp) {
        if self.scenario.deadline(message, self.contender).is_over(now, message.attempt.0) {
            self.end(message, Plan::Expired, false, now);
            return;
        }
        self.tally.arrived(now);
        let answered_at = now.plus(self.scenario.latency);
        let answer = self.provider.receive(now);
        if answer == Answer::Accepted {
            self.tally.accepted(turn.is_probe(), now);
        }
        self.under_way.push_back(UnderWay { answered_at, answer, message, turn });
    }

    fn take_answers(&mut self, now: Timestamp) {
        let mut seen = Vec::new();
        while let Some(UnderWay { answer, message, turn, .. }) =
            self.under_way.pop_front_if(|it| it.answered_at == now)
        {
            let verdict = self.judge(message, answer, now);
            if self.fleet.is_some() {
                seen.push((turn, message, verdict));
            }
        }
        if let Some(fleet) = &mut self.fleet {
            fleet.learn(seen, now, &mut self.rng);
        }
    }

    /// What an answer means for its message.
    fn judge(&mut self, message: Message, answer: Answer, now: Timestamp) -> Verdict {
        let Contender { policy, ttl, .. } = self.contender;
        let outcome = self.provider.outcome(answer, now);
        let verdict = verdict::web_push(&outcome, false, policy.overrides());
        let deadline = self.scenario.deadline(message, self.contender);
        let situation = Situation { policy, attempt: message.attempt, ttl: *ttl, deadline, now };
        let plan = plan::after(&verdict, &situation, &mut self.rng);
        match plan {
            Plan::Retry { not_before, .. } => {
                let next = Message { attempt: message.attempt.next(), due: not_before, ..message };
                let route_taken = self.wait(next, now);
                self.tally.waits(&route_taken);
            }
            Plan::Defer { not_before } => {
                let route_taken = self.wait(Message { due: not_before, ..message }, now);
                self.tally.waits(&route_taken);
            }
            Plan::Sent
            | Plan::Expand
            | Plan::Gone { .. }
            | Plan::Expired
            | Plan::Cancelled
            | Plan::FailedNoRetries(_)
            | Plan::DeadLetter(_) => self.end(message, plan, verdict != Verdict::Sent, now),
        }
        verdict
    }

    /// Sends the message where it waits.
    fn wait(&mut self, message: Message, now: Timestamp) -> Route {
        let route_taken = route(LANE, message.due, now, &self.waits);
        let back_at = match &route_taken {
            // Less than a second, and no workers to ask: waited out inside dispatch.
            Route::Queue(DelaySeconds::ZERO) if self.fleet.is_none() => message.due.max(now),
            Route::Queue(delay) => {
                let handed_out =
                    self.fleet.as_ref().map_or(Duration::ZERO, |_| Fleet::hand_out(&mut self.rng));
                now.plus(Duration::from_secs(delay.get().into())).plus(handed_out)
            }
            Route::Park(bucket) => bucket.start(),
        };
        self.waiting.put(back_at, message);
        route_taken
    }

    fn end(&mut self, message: Message, plan: Plan, failed_now: bool, now: Timestamp) {
        let took = now.since(self.scenario.arrival(message.number));
        let troubled = failed_now || message.held || message.attempt > Attempt::FIRST;
        let tenant = self.scenario.tenants.of(message.number);
        self.tally.end(plan, tenant, took, troubled, now);
    }
}
