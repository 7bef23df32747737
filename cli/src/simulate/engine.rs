//! The event loop: one policy's messages through the outage, from one moment at which something happens to the next.
//!
//! What happens next is the earliest of three things: an answer comes, a message that waited comes back, a new message
//! comes; at the same moment in this order. Everything that is decided is decided by `redial_core`: what an answer means, what
//! follows, where a message waits, whether its TTL is over. What is left here is carrying it out on a virtual clock, as
//! dispatch does on the real one; there are as many workers as it takes, and neither queues nor ledger take any time.
//!
//! A message that comes back early (SQS delays in whole seconds, a bucket begins up to a minute early) is routed again, and
//! when nothing is left that SQS could delay, it waits inside dispatch: so each attempt is made when it is due.

use std::{collections::VecDeque, time::Duration};

use rand::{SeedableRng as _, rngs::StdRng};
use redial_core::{
    identity::Attempt,
    lane::Lane,
    plan::{self, Plan, Situation},
    route::{DelaySeconds, Route, WaitSettings, route},
    time::{Deadline, Timestamp},
    verdict::{self, Verdict},
};

use super::{
    calendar::Calendar,
    provider::{Answer, Provider},
    scenario::{Contender, Scenario},
    tally::Tally,
};

/// Waits divide in the same way in both lanes; they only divide apart from each other.
const LANE: Lane = Lane::Transactional;

/// Ends of messages are reported in lots of this many.
const LOT: u64 = 1_024;

/// A message on its way.
#[derive(Clone, Copy, Debug)]
struct Message {
    /// From 0, in the order of arrival.
    number: u32,
    /// The attempt that comes next, or is under way.
    attempt: Attempt,
    /// The earliest moment of that attempt.
    due: Timestamp,
}

/// A request that was made, and when its answer comes.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    answered_at: Timestamp,
    answer: Answer,
    message: Message,
}

/// One policy's simulation.
pub(super) struct Engine<'a> {
    scenario: &'a Scenario,
    contender: &'a Contender,
    waits: WaitSettings,
    provider: Provider,
    rng: StdRng,
    /// How many messages have come.
    arrived: u32,
    waiting: Calendar<Message>,
    /// In the order in which they are answered, because every answer takes equally long.
    under_way: VecDeque<UnderWay>,
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
            tally: Tally::default(),
        }
    }

    /// Runs until every message has ended. `ended` hears now and then how many more have.
    pub(super) fn run(mut self, ended: &dyn Fn(u64)) -> Tally {
        let mut told = 0;
        while self.step() {
            let untold = self.tally.ended() - told;
            if untold >= LOT {
                ended(untold);
                told += untold;
            }
        }
        ended(self.tally.ended() - told);
        self.tally
    }

    /// Lets the next thing happen; `false` if nothing is left to happen.
    fn step(&mut self) -> bool {
        let answer = self.under_way.front().map(|it| it.answered_at);
        let back = self.waiting.next_at();
        let arrival = (self.arrived < self.scenario.messages).then(|| self.scenario.arrival(self.arrived));
        let Some(now) = [answer, back, arrival].into_iter().flatten().min() else { return false };
        if answer == Some(now)
            && let Some(UnderWay { answer, message, .. }) = self.under_way.pop_front()
        {
            self.judge(message, answer, now);
        } else if back == Some(now)
            && let Some(message) = self.waiting.take()
        {
            self.receive(message, now);
        } else {
            let message = Message { number: self.arrived, attempt: Attempt::FIRST, due: now };
            self.arrived += 1;
            self.receive(message, now);
        }
        true
    }

    /// Dispatch has the message in hand: what its gate asks, and then the attempt.
    fn receive(&mut self, message: Message, now: Timestamp) {
        if self.deadline(message).is_over(now, message.attempt.0) {
            self.end(message, Plan::Expired, false, now);
        } else if now < message.due {
            self.wait(message, now);
        } else {
            self.tally.arrived(now);
            let answered_at = now.plus(self.scenario.latency);
            let answer = self.provider.receive(now);
            self.under_way.push_back(UnderWay { answered_at, answer, message });
        }
    }

    /// The answer has come.
    fn judge(&mut self, message: Message, answer: Answer, now: Timestamp) {
        let Contender { policy, ttl, .. } = self.contender;
        let outcome = self.provider.outcome(answer, now);
        let verdict = verdict::web_push(&outcome, false, policy.overrides());
        let deadline = self.deadline(message);
        let situation = Situation { policy, attempt: message.attempt, ttl: *ttl, deadline, now };
        let plan = plan::after(&verdict, &situation, &mut self.rng);
        match plan {
            Plan::Retry { not_before, .. } => {
                let next = Message { attempt: message.attempt.next(), due: not_before, ..message };
                let road = self.wait(next, now);
                self.tally.waits(&road);
            }
            Plan::Defer { not_before } => {
                let road = self.wait(Message { due: not_before, ..message }, now);
                self.tally.waits(&road);
            }
            Plan::Sent
            | Plan::Gone { .. }
            | Plan::Expired
            | Plan::FailedNoRetries(_)
            | Plan::DeadLetter(_) => self.end(message, plan, verdict != Verdict::Sent, now),
        }
    }

    /// Sends the message where it waits.
    fn wait(&mut self, message: Message, now: Timestamp) -> Route {
        let road = route(LANE, message.due, now, &self.waits);
        let back_at = match &road {
            // Less than a second: waited out inside dispatch.
            Route::Queue(DelaySeconds::ZERO) => message.due.max(now),
            Route::Queue(delay) => now.plus(Duration::from_secs(delay.get().into())),
            Route::Park(bucket) => bucket.start(),
        };
        self.waiting.put(back_at, message);
        road
    }

    fn end(&mut self, message: Message, plan: Plan, failed_now: bool, now: Timestamp) {
        let took = now.since(self.scenario.arrival(message.number));
        let ever_failed = failed_now || message.attempt > Attempt::FIRST;
        self.tally.end(plan, took, ever_failed, now);
    }

    fn deadline(&self, message: Message) -> Deadline {
        self.contender.ttl.deadline_from(self.scenario.arrival(message.number))
    }
}
