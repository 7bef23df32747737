//! Queues and dead letters in memory.

use std::collections::BTreeMap;

use redial_core::dead_letter::{DeadLetterBody, DeadLetterKey, Reference};
use redial_core::identity::{SubscriptionId, Tenant};
use redial_core::queue::{Outgoing, Queue};
use redial_core::relay::BusEvent;
use redial_core::time::Timestamp;
use redial_engine::ports::{
    Callbacks, DeadLetterBodies, DeadLetterStore, EventBus, Outbox, PortError, Receipt,
};

use super::items::{fits, parts};
use super::{Memory, State};

impl Outbox for Memory {
    fn has_events(&self) -> bool {
        self.state().has_events
    }

    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        assert!(!messages.is_empty(), "an empty batch is an error of SQS's");
        let sent = self.effect_on_each("send", messages, |state, message| {
            assert!(message.delay.get() <= 900);
            assert!(message.body.len() <= 1_048_576, "SQS takes 1 MiB at the most");
            if matches!(message.queue, Queue::Events | Queue::ProducersEvents) && state.is_out("events") {
                return Err(PortError { operation: "events", code: "Outage".to_owned(), throttled: false });
            }
            state.outbox.push(message);
            Ok(())
        });
        sent.await.into_iter().map(|sent| sent.and_then(|sent| sent)).collect()
    }

    async fn come_back_after(&self, receipts: Vec<(Receipt, u32)>) {
        let _ =
            self.effect("come_back_after", |state| state.come_back.extend(receipts.iter().cloned())).await;
    }
}

impl EventBus for Memory {
    async fn put(&self, events: Vec<BusEvent>) -> Vec<Result<(), PortError>> {
        assert!(!events.is_empty(), "an empty call is an error of EventBridge's");
        self.effect_on_each("put_events", events, |state, event| state.bus.push(event)).await
    }
}

impl Callbacks for Memory {
    async fn of(
        &self,
        tenants: Vec<Tenant>,
        _now: Timestamp,
    ) -> Vec<Result<Option<SubscriptionId>, PortError>> {
        self.effect_on_each("callbacks", tenants, |state, tenant| state.callbacks.get(&tenant).cloned()).await
    }
}

impl DeadLetterBodies for Memory {
    /// A body is stored when all of its parts are.
    async fn put(&self, bodies: Vec<DeadLetterBody>) -> Vec<Result<(), PortError>> {
        let cut: Vec<Vec<(usize, DeadLetterBody)>> = bodies.into_iter().map(cut).collect();
        let counts: Vec<usize> = cut.iter().map(Vec::len).collect();
        let partition = |(_, body): &(usize, DeadLetterBody)| Some(body.key.partition());
        let put = self.effect_on_each_at("bodies.put", cut.concat(), partition, |state, (at, part)| {
            fits(part.body.len())?;
            state.put_part(at, part);
            Ok(())
        });
        let mut put = put.await.into_iter().map(|put| put.and_then(|put| put));
        counts
            .into_iter()
            .map(|count| put.by_ref().take(count).collect::<Vec<_>>().into_iter().collect())
            .collect()
    }
}

/// The parts of a body, each with its number.
fn cut(body: DeadLetterBody) -> Vec<(usize, DeadLetterBody)> {
    let part = |part| DeadLetterBody { body: part, ..body.clone() };
    parts(&body.body).into_iter().map(part).enumerate().collect()
}

impl State {
    /// Stores a part of a dead letter's body, in the place of the one that was there: what is read is what all of them are together.
    fn put_part(&mut self, at: usize, part: DeadLetterBody) {
        let writes = self.body_writes.entry(part.key.clone()).or_default();
        writes.push((self.now, Some(part.absent_from)));
        if at == 0 && !self.body_parts.contains_key(&part.key) && !self.bodies.contains_key(&part.key) {
            self.bodies.insert(part.key.clone(), part);
            return;
        }
        let first = self.bodies.get(&part.key).map(|stored| stored.body.clone()).unwrap_or_default();
        let parts = self.body_parts.entry(part.key.clone()).or_insert_with(|| BTreeMap::from([(0, first)]));
        parts.insert(at, part.body.clone());
        let body = parts.values().map(String::as_str).collect();
        self.bodies.insert(part.key.clone(), DeadLetterBody { body, ..part });
    }
}

impl DeadLetterStore for Memory {
    async fn describe(&self, reference: &Reference, _now: Timestamp) -> Result<(), PortError> {
        self.effect("describe", |state| {
            state.described.insert(reference.key(), reference.clone());
        })
        .await
    }

    /// What is absent is found by an index, and deleted whatever it is by now.
    async fn delete_absent_bodies(&self, now: Timestamp, limit: u32) -> Result<u32, PortError> {
        let lag = self.index_lag();
        self.effect("delete_absent_bodies", |state| {
            let then = state.now.minus(lag);
            let is_gone = |writes: &[(Timestamp, Option<Timestamp>)]| matches!(writes.last(), Some((at, None)) if *at <= then);
            state.body_writes.retain(|_, writes| !is_gone(writes));
            let listed = |(key, writes): (&DeadLetterKey, &Vec<(Timestamp, Option<Timestamp>)>)| {
                let (_, absent_from) = writes.iter().rev().find(|(at, _)| *at <= then)?;
                absent_from.filter(|at| *at <= now).map(|_| key.clone())
            };
            let keys: Vec<_> = state.body_writes.iter().filter_map(listed).take(limit as usize).collect();
            for key in &keys {
                state.bodies.remove(key);
                state.body_parts.remove(key);
                let written = state.body_writes.get_mut(key).expect("invariant: it is listed");
                // Until the index shows that, it is listed and deleted again.
                if written.last().is_some_and(|(_, absent_from)| absent_from.is_some()) {
                    written.push((state.now, None));
                }
            }
            u32::try_from(keys.len()).unwrap_or(u32::MAX)
        })
        .await
    }
}
