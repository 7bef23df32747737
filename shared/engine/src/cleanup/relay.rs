//! Relaying events from the stack's own queue to their targets.
//!
//! An event is acknowledged when all of its targets have taken it. One that a target refused comes back and goes to all of them again: each
//! target gets it at least once, and waits for none of the others. The message of a callback has an id that follows from the event, so that
//! its second one is a duplicate, which the ledger drops.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;

use futures_util::future::FutureExt;

use super::worker::{Ports, QueueMessage, Worker};
use crate::ports::{Callbacks, Clock, EventBus, Outbox, PortError};
use redial_core::identity::Tenant;
use redial_core::relay::Relayed;
use redial_core::time::Timestamp;

type Answers = Vec<Result<(), PortError>>;

/// An event of a batch.
struct Announced {
    place: usize,
    /// When it was announced.
    at: Timestamp,
    event: Relayed,
}

impl<P: Ports> Worker<P> {
    /// Relays the events of a batch. Answers for each whether all of its targets have it. A panic is the failure of all.
    pub async fn relay(&self, messages: &[QueueMessage]) -> Answers {
        let relayed = AssertUnwindSafe(self.relay_all(messages)).catch_unwind().await;
        let panicked = || PortError { operation: "relay", code: "Panic".to_owned(), throttled: false };
        relayed.unwrap_or_else(|_panic| messages.iter().map(|_| Err(panicked())).collect())
    }

    async fn relay_all(&self, messages: &[QueueMessage]) -> Answers {
        let now = self.clock.now();
        let mut answers: Answers = vec![Ok(()); messages.len()];
        let mut events = Vec::with_capacity(messages.len());
        for (place, message) in messages.iter().enumerate() {
            match Relayed::read(message.body.expose()) {
                Some(event) => events.push(Announced { place, at: message.sent, event }),
                // What is no event is kept like any other body that cannot be read.
                None => answers[place] = self.drain(message, now).await,
            }
        }
        if events.is_empty() {
            return answers;
        }
        let (to_queue, to_bus, to_callbacks) = futures_util::join!(
            self.to_queue(&events),
            self.to_bus(&events),
            self.to_callbacks(&events, now)
        );
        for (at, Announced { place, .. }) in events.iter().enumerate() {
            let of = [&to_queue, &to_bus, &to_callbacks].map(|answers| answers[at].clone());
            answers[*place] = of.into_iter().collect();
        }
        answers
    }

    async fn to_queue(&self, events: &[Announced]) -> Answers {
        if !self.settings.relay.to_queue {
            return vec![Ok(()); events.len()];
        }
        self.outbox.send(events.iter().map(|it| it.event.to_queue()).collect()).await
    }

    async fn to_bus(&self, events: &[Announced]) -> Answers {
        if !self.settings.relay.to_bus {
            return vec![Ok(()); events.len()];
        }
        self.event_bus.put(events.iter().map(|it| it.event.to_bus()).collect()).await
    }

    /// Whether the webhook is there and takes it is decided when the message is sent: an end of the delivery, and no failure here.
    async fn to_callbacks(&self, events: &[Announced], now: Timestamp) -> Answers {
        let mut answers: Answers = vec![Ok(()); events.len()];
        if !self.settings.relay.to_callbacks {
            return answers;
        }
        let tenants: BTreeSet<&Tenant> = events.iter().map(|it| &it.event.tenant).collect();
        let set = self.callbacks.of(tenants.iter().copied().cloned().collect(), now).await;
        let set: BTreeMap<&Tenant, _> = tenants.into_iter().zip(set).collect();
        let (mut places, mut posted) = (Vec::new(), Vec::new());
        for (place, Announced { at, event, .. }) in events.iter().enumerate() {
            match &set[&event.tenant] {
                Ok(webhook) => {
                    let message = webhook.as_ref().and_then(|webhook| event.to_callback(webhook, *at));
                    posted.extend(message.inspect(|_| places.push(place)));
                }
                Err(error) => answers[place] = Err(error.clone()),
            }
        }
        if !posted.is_empty() {
            for (place, sent) in places.into_iter().zip(self.outbox.send(posted).await) {
                answers[place] = sent;
            }
        }
        answers
    }
}
