//! Queues and dead letters in memory.

use redial_core::dead_letter::{DeadLetterBody, DeadLetterKey, Reference};
use redial_core::queue::{Outgoing, Queue};
use redial_core::time::Timestamp;
use redial_engine::ports::{DeadLetterBodies, DeadLetterStore, Outbox, PortError, Receipt};

use super::Memory;

impl Outbox for Memory {
    fn has_events(&self) -> bool {
        self.state().has_events
    }

    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        assert!(!messages.is_empty(), "an empty batch is an error of SQS's");
        let sent = self.effect_on_each("send", messages, |state, message| {
            assert!(message.delay.get() <= 900);
            assert!(message.body.len() <= 1_048_576, "SQS takes 1 MiB at the most");
            if message.queue == Queue::Events && state.is_out("events") {
                return Err(PortError { operation: "events", code: "Outage".to_owned(), throttled: false });
            }
            state.outbox.push(message);
            Ok(())
        });
        sent.await.into_iter().map(|sent| sent.and_then(|sent| sent)).collect()
    }

    async fn come_back_after(&self, receipts: Vec<(Receipt, u32)>) {
        let _ = self.effect("come_back_after", |state| state.come_back.extend(receipts)).await;
    }
}

impl DeadLetterBodies for Memory {
    async fn put(&self, bodies: Vec<DeadLetterBody>) -> Vec<Result<(), PortError>> {
        self.effect_on_each("bodies.put", bodies, |state, body| {
            state.bodies.insert(body.key.clone(), body);
        })
        .await
    }
}

impl DeadLetterStore for Memory {
    async fn describe(&self, reference: &Reference, _now: Timestamp) -> Result<(), PortError> {
        let reference = reference.clone();
        self.effect("describe", |state| {
            state.described.insert(reference.key(), reference);
        })
        .await
    }

    async fn delete_absent_bodies(&self, now: Timestamp, limit: u32) -> Result<u32, PortError> {
        self.effect("delete_absent_bodies", |state| {
            let is_absent = |_: &DeadLetterKey, body: &mut DeadLetterBody| body.absent_from <= now;
            let deleted = state.bodies.extract_if(.., is_absent).take(limit as usize).count();
            u32::try_from(deleted).unwrap_or(u32::MAX)
        })
        .await
    }
}
