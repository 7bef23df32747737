//! Callers who cancel deliveries, and ask again where they got no answer.

use std::time::Duration;

use rand::RngExt;
use redial_core::identity::DeliveryKey;
use redial_core::ledger::Cancellation;
use redial_engine::cancel;
use redial_engine::ports::{Clock, PortError};

use super::producers::delivery;
use super::{Done, Task, World};
use crate::scenario::operators::Action;
use crate::situations::Situation;
use crate::timeline::Event;

impl World {
    pub(super) fn cancel_delivery(&mut self, at: usize, tenant: &str, id: &str) {
        let Some(place) = self.free_place() else {
            return self.stage.timeline.after(Duration::from_secs(1), Event::Action(at));
        };
        let key = delivery(tenant, id);
        let (id, token) = self.begins(place);
        {
            let mut memo = self.stage.watch.memo();
            memo.api.asked += 1;
            if memo.has_far_clocks {
                // A lease may be over by its clock while the attempt is being made.
                memo.ended_early.insert(key.clone());
            }
        }
        let name = self.places[place].schedule.name.clone();
        self.trace(&name, format_args!("{token} is asked to cancel {key}"));
        let ports = self.places[place].ports.clone();
        let future = async move { Done::Cancelled(cancel::cancel(&ports, &ports, &key, ports.now()).await) };
        let task = Task { future: Box::pin(future), worker: place, source: None, messages: Vec::new() };
        self.cancelling.insert(id, at);
        self.start(id, task);
    }

    /// The caller got no answer, and asks again.
    pub(super) fn is_cancelled_without_answer(&mut self, id: u64) {
        let Some(at) = self.cancelling.remove(&id) else { return };
        self.cancels_again(at);
    }

    fn cancels_again(&self, at: usize) {
        let later = Duration::from_millis(self.stage.rng().random_range(500..60_000));
        self.stage.timeline.after(later, Event::Action(at));
    }

    fn key_of(&self, at: usize) -> Option<DeliveryKey> {
        match &self.stage.scenario.actions[at].1 {
            Action::Cancel { tenant, id } => Some(delivery(tenant, id)),
            Action::Open(..)
            | Action::CloseGently(_)
            | Action::Close(_)
            | Action::Limit(..)
            | Action::Replay { .. }
            | Action::Purge => None,
        }
    }

    pub(super) fn cancelled(&mut self, id: u64, answer: Result<Cancellation, PortError>) {
        let Some(at) = self.cancelling.remove(&id) else { return };
        let Some(key) = self.key_of(at) else { return };
        self.trace("api", format_args!("answers {answer:?} about {key}"));
        let Ok(answer) = answer else { return self.cancels_again(at) };
        self.stage.watch.memo().answers_about(&key, answer, &self.memory.state());
        let is_lost = self.stage.strikes(self.stage.scenario.faults.lost);
        let may_pass = matches!(answer, Cancellation::BeingAttempted { .. });
        if is_lost || (may_pass && self.stage.rng().random_bool(0.5)) {
            if is_lost {
                self.stage.watch.saw(Situation::AnswerLost);
            }
            return self.cancels_again(at);
        }
        self.planned -= 1;
    }
}
