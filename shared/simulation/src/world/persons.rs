//! Tenants who have a person erased, and ask again where they got no answer.

use std::time::Duration;

use rand::RngExt;
use redial_core::erasure::Erasure;
use redial_core::identity::SubscriptionKey;
use redial_core::message::ProducerRef;
use redial_engine::erase;
use redial_engine::ports::{Clock, PortError};

use super::browsers::subscription;
use super::{Done, Task, World};
use crate::scenario::persons::REF;
use crate::situations::Situation;
use crate::timeline::Event;

impl World {
    pub(super) fn erases_person(&mut self, at: usize, tenant: &str, receiver: usize) {
        let Some(place) = self.free_place() else {
            return self.stage.timeline.after(Duration::from_secs(1), Event::Act(at));
        };
        let key = subscription(tenant, receiver);
        let (id, token) = self.begins(place);
        self.stage.watch.memo().api.asked += 1;
        let name = self.places[place].schedule.name.clone();
        self.trace(&name, format_args!("{token} is asked to erase {key}"));
        let (ports, keys) = (self.places[place].ports.clone(), self.hash_keys());
        let future = async move {
            let (now, text) = (ports.now(), ProducerRef::parse(REF).expect("invariant: a ref"));
            let wanted = Erasure::new(key.tenant, Some(key.id), Some(text), now);
            Done::Requested(Box::new(erase::request(&ports, &ports, &keys, wanted, now).await))
        };
        let task = Task { future: Box::pin(future), worker: place, source: None, messages: Vec::new() };
        self.erasing.insert(id, at);
        self.start(id, task);
    }

    /// The tenant got no answer, and asks again.
    pub(super) fn is_erased_without_answer(&mut self, id: u64) {
        let Some(at) = self.erasing.remove(&id) else { return };
        let later = Duration::from_millis(self.stage.rng().random_range(500..60_000));
        self.stage.timeline.after(later, Event::Act(at));
    }

    pub(super) fn erasure_requested(&mut self, id: u64, answer: Result<Option<Erasure>, PortError>) {
        self.trace("api", format_args!("answers {answer:?}"));
        let Ok(Some(erasure)) = answer else { return self.is_erased_without_answer(id) };
        self.erasing.remove(&id);
        self.planned -= 1;
        self.stage.watch.saw(Situation::PersonErased);
        if erasure.marked_at.is_some() {
            let key = erasure.subscription.map(|of| SubscriptionKey { tenant: erasure.tenant, id: of });
            key.iter().for_each(|key| self.knows(key));
        }
    }
}
