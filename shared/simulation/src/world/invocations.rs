//! Invocations of dispatch and cleanup: what they receive, how they begin, and how they end.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rand::RngExt;
use redial_core::body::Body;
use redial_core::lane::Lane;
use redial_core::message::QueueKind;
use redial_core::time::Timestamp;
use redial_engine::cleanup::{self, QueueMessage, Sweep};
use redial_engine::deliver::{Incoming, Invocation};
use redial_engine::ports::Receipt;
use redial_memory::schedule::Schedule as _;

use super::{Done, FUNCTION_TIMEOUT, Task, Waking, World};
use crate::pass::Pass;
use crate::release;
use crate::situations::Situation;
use crate::sqs::{Source, Stored};
use crate::timeline::Event;

impl World {
    pub(super) fn free_place(&mut self) -> Option<usize> {
        let free: Vec<usize> = (0..self.places.len()).filter(|at| !self.places[*at].is_busy).collect();
        if free.is_empty() {
            return None;
        }
        let at = free[self.stage.rng().random_range(0..free.len())];
        let is_outdated = self.places[at].generation != self.generation;
        if is_outdated || self.stage.strikes(self.stage.scenario.faults.cold_start) {
            self.places[at] = self.instance(at);
        }
        Some(at)
    }

    /// Hands visible messages to free workers.
    pub(super) fn receive(&mut self) {
        let now = self.now();
        for source in Source::ALL {
            while self.sqs.visible_at(source).is_some_and(|at| at <= now) {
                let Some(place) = self.free_place() else { return self.starves() };
                let most = self.stage.rng().random_range(1..=10);
                let duplicates = self.duplicates_of(source);
                let messages = self.sqs.receive(source, now, most, &mut self.stage.rng(), duplicates);
                self.redrive();
                let messages = self.readable(messages);
                if messages.is_empty() {
                    break;
                }
                self.stage.timeline.after(crate::sqs::VISIBILITY, Event::Receive);
                match source.kind() {
                    Some((kind, lane)) => self.invoke_dispatch(place, source, kind, lane, messages),
                    None => self.invoke_cleanup(place, source, messages),
                }
            }
        }
    }

    /// The share of receives of a queue that are made twice.
    fn duplicates_of(&self, source: Source) -> f64 {
        let are_alone = self.stage.scenario.pressure.retries_twice;
        let is_spared = are_alone && !matches!(source, Source::Retry(_));
        if self.stage.has_faults() && !is_spared { self.stage.scenario.faults.duplicate } else { 0.0 }
    }

    /// Something waits for a worker.
    fn starves(&self) {
        self.stage.watch.memo().punctual.waits_until(self.now());
    }

    pub(super) fn begins(&mut self, place: usize) -> (u64, String) {
        self.serial += 1;
        let token = format!("i{}", self.serial);
        self.places[place].schedule.begins(&token);
        let ahead = self.places[place].schedule.clock(self.now()).as_ms() - self.now().as_ms();
        {
            let mut memo = self.stage.watch.memo();
            memo.facts.began.insert(token.clone(), self.now());
            memo.clocks.insert(token.clone(), ahead);
        }
        self.places[place].is_busy = true;
        self.stage.timeline.after(FUNCTION_TIMEOUT, Event::Deadline(self.serial));
        (self.serial, token)
    }

    pub(super) fn deadline(&self, place: usize) -> Timestamp {
        self.places[place].schedule.clock(self.now()).plus(FUNCTION_TIMEOUT)
    }

    pub(super) fn invoke_dispatch(
        &mut self,
        place: usize,
        source: Source,
        kind: QueueKind,
        lane: Lane,
        messages: Vec<Stored>,
    ) {
        let (id, lease_token) = self.begins(place);
        let ids: Vec<&str> = messages.iter().map(|message| message.id.as_str()).collect();
        let name = self.places[place].schedule.name.clone();
        self.trace(&name, format_args!("{lease_token} receives {ids:?} of {source:?}"));
        let incoming: Vec<Incoming> = messages
            .iter()
            .map(|message| Incoming {
                message_id: message.id.clone(),
                receipt: Receipt { lane, kind, handle: format!("{}/{}", message.id, message.receives) },
                body: Body::new(self.body_for(place, message)),
                sent: message.sent,
                receive_count: message.receives,
                traceparent: None,
            })
            .collect();
        self.return_unread(place, source, &messages);
        let deadline = self.now().plus(FUNCTION_TIMEOUT);
        {
            let mut memo = self.stage.watch.memo();
            let pass = Pass::of(&messages, kind, deadline, &mut memo.readings);
            memo.passes.insert(lease_token.clone(), pass);
        }
        let invocation = Invocation { lease_token, deadline: self.deadline(place) };
        let worker = self.places[place].dispatch.clone();
        let future = async move { Done::Batch(worker.deliver(&invocation, incoming).await) };
        self.start(id, Task { future: Box::pin(future), worker: place, source: Some(source), messages });
    }

    /// A message's body as the release that this worker runs reads it.
    pub(super) fn body_for(&self, place: usize, message: &Stored) -> String {
        if self.stage.scenario.storage.releases.is_none() {
            return message.body.clone();
        }
        let read = release::read(&message.body);
        if self.stage.is_newer(place) {
            return read.into_owned();
        }
        if read != message.body {
            self.stage.watch.saw(Situation::Unreadable);
            let at = self.now().plus(longest_backoff(message.receives));
            self.stage.watch.memo().punctual.waits_until(at);
        }
        message.body.clone()
    }

    pub(super) fn invoke_cleanup(&mut self, place: usize, source: Source, messages: Vec<Stored>) {
        let (id, token) = self.begins(place);
        let name = self.places[place].schedule.name.clone();
        self.trace(&name, format_args!("{token} cleans {} of {source:?}", messages.len()));
        self.drains(place, source, &messages);
        let worker = self.places[place].cleanup.clone();
        let deadline = self.deadline(place);
        let received: Vec<Stored> = messages
            .iter()
            .map(|message| Stored { body: self.body_for(place, message), ..message.clone() })
            .collect();
        let future = async move {
            let of = |message: Stored| QueueMessage {
                message_id: message.id,
                body: Body::new(message.body),
                sent: message.sent,
                is_reference: source == Source::DeadLetters,
                targets: message.targets,
                traceparent: None,
            };
            let received: Vec<QueueMessage> = received.into_iter().map(of).collect();
            let mut answers = Vec::new();
            if source == Source::Events {
                answers = worker.relay(&received).await;
            } else {
                for message in &received {
                    answers.push(worker.clean(message, deadline).await);
                }
            }
            let failed = received.into_iter().zip(answers).filter(|(_, answer)| answer.is_err());
            Done::Batch(failed.map(|(message, _)| message.message_id).collect())
        };
        self.start(id, Task { future: Box::pin(future), worker: place, source: Some(source), messages });
    }

    pub(super) fn sweep(&mut self, which: Sweep) {
        let Some(place) = self.free_place() else { return self.starves() };
        let (id, _) = self.begins(place);
        let worker = self.places[place].cleanup.clone();
        let deadline = self.deadline(place);
        let watch = self.stage.watch.clone();
        watch.memo().unfinished_sweeps += 1;
        let future = async move {
            if let Ok(cleanup::Swept { released, pruned, .. }) = worker.sweep(which, deadline).await {
                watch.memo().unfinished_sweeps -= 1;
                (0..released).for_each(|_| watch.saw(Situation::ReleasedBySweep));
                (0..pruned).for_each(|_| watch.saw(Situation::Pruned));
            }
            Done::Swept
        };
        self.start(id, Task { future: Box::pin(future), worker: place, source: None, messages: Vec::new() });
    }

    pub(super) fn start(&mut self, id: u64, task: Task) {
        self.tasks.insert(id, task);
        self.poll(id);
        self.collect(Some(id));
        self.follow_origins(false);
    }

    pub(super) fn poll(&mut self, id: u64) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        self.is_observed = false;
        let waker = Waker::from(Arc::new(Waking(id, self.ready.clone())));
        let polled = task.future.as_mut().poll(&mut Context::from_waker(&waker));
        let place = task.worker;
        if self.places[place].schedule.is_dead() {
            return self.dies(id, "death");
        }
        if let Poll::Ready(done) = polled {
            self.ends(id, done);
        }
    }

    /// The instance is gone, and SQS hears nothing.
    pub(super) fn dies(&mut self, id: u64, why: &str) {
        let Some(task) = self.tasks.remove(&id) else { return };
        self.crash(&task);
        let schedule = self.places[task.worker].schedule.clone();
        self.trace(&schedule.name, format_args!("{} ends by {why}", schedule.token()));
        self.stage.watch.died(&schedule.token());
        self.places[task.worker] = self.instance(task.worker);
        self.is_unanswered(id);
        self.is_cancelled_without_answer(id);
        self.is_erased_without_answer(id);
        self.is_unheard(id);
    }

    /// An invocation has answered: what it does not return is deleted.
    pub(super) fn ends(&mut self, id: u64, done: Done) {
        let Some(task) = self.tasks.remove(&id) else { return };
        self.places[task.worker].is_busy = false;
        let back = match done {
            Done::Batch(back) => back,
            Done::Swept => return,
            Done::Entered(answers) => return self.answers(id, answers),
            Done::Cancelled(answer) => return self.cancelled(id, answer),
            Done::Requested(answer) => return self.erasure_requested(id, *answer),
            Done::Acknowledged(answer) => return self.acknowledged(id, answer),
        };
        let Some(source) = task.source else { return };
        let name = self.places[task.worker].schedule.name.clone();
        self.trace(&name, format_args!("ends; {back:?} come back"));
        self.judge_acknowledgements(id, source, &task.messages, &back);
        for message in task.messages.iter().filter(|message| !back.contains(&message.id)) {
            if self.stage.strikes(self.stage.scenario.faults.ack_lost) {
                self.sqs.crashes(source, message);
            } else {
                self.sqs.delete(source, &message.id);
            }
        }
    }
}

/// After how long at the most a message comes back that a release could not read: five seconds, doubling with each receive, and a fifth
/// more.
fn longest_backoff(receives: u32) -> Duration {
    Duration::from_secs((6 << receives.saturating_sub(1).min(8)).min(900))
}
