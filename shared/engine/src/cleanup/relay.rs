//! Relaying events from the stack's own queue to their targets.
//!
//! An event is acknowledged when all of its targets have taken it. Where some of them refused it, it is sent once more, for those alone, and
//! acknowledged then; where all of them did, it comes back. So each target gets it at least once, and waits for none of the others, and none gets
//! it again because another is out. The message of a callback has an id that follows from the event, so that its second one is a
//! duplicate, which the ledger drops.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;

use futures_util::future::FutureExt;

use super::worker::{Ports, QueueMessage, Worker};
use crate::ports::{Callbacks, Clock, EventBus, Outbox, PortError, Telemetry};
use redial_core::identity::Tenant;
use redial_core::relay::Relayed;
use redial_core::targets::Targets;
use redial_core::time::Timestamp;

type Answers = Vec<Result<(), PortError>>;

/// An event of a batch.
struct Announced {
    place: usize,
    /// When its SQS message was sent.
    at: Timestamp,
    event: Relayed,
    /// The targets that lack it.
    lacking: Targets,
}

/// The events that a target refused, by their places, and why.
type Refused = HashMap<usize, PortError>;

impl<P: Ports> Worker<P> {
    /// Relays the events of a batch. Answers for each whether all of its targets have it. A panic is the failure of all.
    pub async fn relay(&self, messages: &[QueueMessage]) -> Answers {
        let relayed = AssertUnwindSafe(self.relay_all(messages)).catch_unwind().await;
        let panicked = || PortError { operation: "relay", code: "Panic".to_owned(), throttled: false };
        let relayed = relayed.unwrap_or_else(|_panic| messages.iter().map(|_| Err(panicked())).collect());
        relayed.iter().filter_map(|answer| answer.as_ref().err()).for_each(|error| self.failed(error));
        relayed
    }

    async fn relay_all(&self, messages: &[QueueMessage]) -> Answers {
        let now = self.clock.now();
        let mut answers: Answers = vec![Ok(()); messages.len()];
        let mut events = Vec::with_capacity(messages.len());
        for (place, message) in messages.iter().enumerate() {
            match Relayed::read(message.body.expose()) {
                Some(event) => {
                    let targets = self.settings.targets;
                    let lacking = message.targets.map_or(targets, |lacking| lacking.among(targets));
                    events.push(Announced { place, at: message.sent, event, lacking });
                }
                // What is no event is kept like any other body that cannot be read.
                None => answers[place] = self.drain(message, now).await,
            }
        }
        let (queue, bus, callbacks) = futures_util::join!(
            self.to_queue(without(&events, |lacking| lacking.queue)),
            self.to_bus(without(&events, |lacking| lacking.bus)),
            self.to_callbacks(without(&events, |lacking| lacking.callbacks), now)
        );
        let (mut places, mut rest) = (Vec::new(), Vec::new());
        for Announced { place, event, lacking, .. } in &events {
            let refused = [&queue, &bus, &callbacks].map(|refused| refused.get(place));
            let [queue, bus, callbacks] = refused.map(|error| error.is_some());
            let refusing = Targets { queue, bus, callbacks };
            let mut errors = refused.into_iter().flatten();
            let Some(first) = errors.next() else { continue };
            if refusing == *lacking {
                answers[*place] = Err(first.clone());
            } else {
                self.failed(first);
                places.push(*place);
                rest.push(event.to_rest(refusing));
            }
            errors.for_each(|error| self.telemetry.infrastructure(error));
        }
        if !rest.is_empty() {
            for (place, sent) in places.into_iter().zip(self.outbox.send(rest).await) {
                answers[place] = sent;
            }
        }
        answers
    }

    async fn to_queue(&self, events: Vec<&Announced>) -> Refused {
        if events.is_empty() {
            return Refused::new();
        }
        let sent = self.outbox.send(events.iter().map(|it| it.event.to_queue()).collect()).await;
        refused(&events, sent)
    }

    async fn to_bus(&self, events: Vec<&Announced>) -> Refused {
        if events.is_empty() {
            return Refused::new();
        }
        let put = self.event_bus.put(events.iter().map(|it| it.event.to_bus()).collect()).await;
        refused(&events, put)
    }

    /// Whether the webhook is there and takes it is decided when the message is sent: an end of the delivery, and no failure here.
    async fn to_callbacks(&self, events: Vec<&Announced>, now: Timestamp) -> Refused {
        let mut failed = Refused::new();
        if events.is_empty() {
            return failed;
        }
        let tenants: BTreeSet<&Tenant> = events.iter().map(|it| &it.event.tenant).collect();
        let set = self.callbacks.of(tenants.iter().copied().cloned().collect(), now).await;
        let set: BTreeMap<&Tenant, _> = tenants.into_iter().zip(set).collect();
        let (mut posted, mut messages) = (Vec::new(), Vec::new());
        for announced in events {
            let Announced { place, at, event, .. } = announced;
            match &set[&event.tenant] {
                Ok(webhook) => {
                    let message = webhook.as_ref().and_then(|webhook| event.to_callback(webhook, *at));
                    messages.extend(message.inspect(|_| posted.push(announced)));
                }
                Err(error) => {
                    failed.insert(*place, error.clone());
                }
            }
        }
        if !messages.is_empty() {
            failed.extend(refused(&posted, self.outbox.send(messages).await));
        }
        failed
    }
}

/// The events that lack a target.
fn without(events: &[Announced], target: impl Fn(Targets) -> bool) -> Vec<&Announced> {
    events.iter().filter(|it| target(it.lacking)).collect()
}

/// Those of these events that their target refused.
fn refused(events: &[&Announced], answers: Answers) -> Refused {
    let answered = events.iter().zip(answers);
    answered.filter_map(|(it, answer)| Some((it.place, answer.err()?))).collect()
}
