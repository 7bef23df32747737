//! Queues and executions: what workers send and start comes back as messages and releases.

use std::time::Duration;

use rand::RngExt;
use redial_core::queue::{Attribute, Queue};
use redial_core::wait::{Release, WaitBucket};
use redial_engine::ports::Receipt;

use super::World;
use crate::situations::Situation;
use crate::sqs::Source;
use crate::timeline::Event;

impl World {
    pub(super) fn enqueue(&mut self, source: Source, body: String, delay: Duration) {
        let now = self.now();
        if body.contains("\"receives\":") {
            self.stage.watch.saw(Situation::SentAgain);
        }
        self.note_message_of_run(&body);
        self.note_release(&body);
        let body = self.as_another_release(source, body);
        let id = self.sqs.send(source, body, now, delay);
        self.poll_in_vain(source, &id);
        self.trace("sqs", format_args!("{source:?} holds {id} for {delay:?}"));
        self.stage.timeline.after(delay, Event::Receive);
    }

    /// Takes what workers sent into the queues, and what they started into executions.
    pub(super) fn collect(&mut self, by: Option<u64>) {
        self.take_sent(by);
        self.look_at_audiences();
    }

    fn take_sent(&mut self, by: Option<u64>) {
        let (sent, come_back, started) = {
            let mut state = self.memory.state();
            let started: Vec<_> = state
                .executions
                .iter()
                .filter(|bucket| !self.executions.contains_key(bucket))
                .copied()
                .collect();
            (std::mem::take(&mut state.outbox), std::mem::take(&mut state.come_back), started)
        };
        self.judge_sent(by, &sent);
        for message in sent {
            let delay = Duration::from_secs(message.delay.get().into());
            match message.queue {
                Queue::Ingest(lane) => self.enqueue(Source::Ingest(lane), message.body, delay),
                Queue::Retry(lane) => self.enqueue(Source::Retry(lane), message.body, delay),
                Queue::DeadLetters => self.enqueue(Source::DeadLetters, message.body, delay),
                Queue::Events if self.stage.scenario.relays => {
                    self.enqueue(Source::Events, message.body, delay);
                    if let Some(Attribute::Targets(targets)) = message.attribute {
                        self.sqs.last_event_is_for(targets);
                    }
                }
                Queue::Events | Queue::ProducersEvents => {
                    let event = serde_json::from_str(&message.body).expect("invariant: an event is JSON");
                    self.trace("events", format_args!("{}", message.body));
                    self.events.push(event);
                }
            }
        }
        for (receipt, secs) in come_back {
            self.comes_back(&receipt, secs);
        }
        started.into_iter().for_each(|bucket| self.execution_begins(bucket));
    }

    fn execution_begins(&mut self, bucket: WaitBucket) {
        let is_stopped = self.stage.strikes(self.stage.scenario.faults.stopped);
        let is_late = self.stage.strikes(self.stage.scenario.faults.late);
        let rng = &mut self.stage.rng();
        let late = Duration::from_millis(rng.random_range(0..if is_late { 1_200_000 } else { 3_000 }));
        self.stage.timeline.at(bucket.start().plus(late), Event::Execution(bucket));
        // Of an execution that was stopped, the worker that began it learns nothing; another may begin the next.
        let is_early = is_stopped && rng.random_bool(0.5);
        if is_early {
            let left = bucket.start().since(self.now()).as_millis() as u64;
            let after = Duration::from_millis(rng.random_range(0..=left));
            self.stage.timeline.after(after, Event::ExecutionStopped(bucket));
        }
        self.executions.insert(bucket, is_stopped && !is_early);
    }

    pub(super) fn execution_is_stopped(&mut self, bucket: WaitBucket) {
        self.stage.watch.saw(Situation::ExecutionStopped);
        self.trace("sfn", format_args!("{} is stopped", bucket.name()));
        self.executions.remove(&bucket);
        self.memory.state().executions.remove(&bucket);
    }

    fn comes_back(&mut self, receipt: &Receipt, secs: u32) {
        if self.stage.strikes(self.stage.scenario.faults.visibility_lost) {
            return;
        }
        let Some((id, receives)) = receipt.handle.rsplit_once('/') else { return };
        let at = self.now().plus(Duration::from_secs(secs.into()));
        let source = Source::of(receipt.kind, receipt.lane);
        if self.sqs.change_visibility(source, id, receives.parse().unwrap_or_default(), at) {
            self.stage.timeline.at(at, Event::Receive);
        }
    }

    pub(super) fn execution_ends(&mut self, bucket: WaitBucket) {
        let Some(is_stopped) = self.executions.remove(&bucket) else { return };
        self.memory.state().executions.remove(&bucket);
        if is_stopped {
            self.stage.watch.saw(Situation::ExecutionStopped);
            return self.trace("sfn", format_args!("{} was stopped", bucket.name()));
        }
        let repeated = self.stage.strikes(self.stage.scenario.faults.repeated);
        if repeated {
            self.stage.watch.saw(Situation::ExecutionRepeated);
        }
        for _ in 0..1 + usize::from(repeated) {
            self.trace("sfn", format_args!("{} releases", bucket.name()));
            let body = Release::Bucket(bucket).to_body();
            self.enqueue(Source::Retry(bucket.lane()), body, Duration::ZERO);
        }
    }
}
