//! What cleanup gets: references of the dead-letter queue, poison, events to relay; and its sweeps.

use std::time::Duration;

use redial_core::body::Body;
use redial_core::time::Timestamp;
use redial_core::traceparent::Traceparent;
use redial_engine::cleanup::{self, QueueMessage, Sweep};
use redial_engine::ports::PortError;

use super::{Announced, FUNCTION_TIMEOUT, Harness, until_stalled};

impl Harness {
    pub(super) fn clean_all(&mut self) {
        self.collect();
        for (message_id, body) in std::mem::take(&mut self.dead_letters) {
            let cleaned = self.clean(message_id.clone(), &body, self.now(), true, None);
            if cleaned.is_none() {
                self.revive();
            }
            if cleaned != Some(Ok(())) {
                self.dead_letters.push((message_id, body));
            }
        }
    }

    pub(super) fn relays(&self) -> bool {
        !self.cleanup.settings.targets.is_none()
    }

    /// Something is put on the stack's own queue of events.
    pub(crate) fn announce(&mut self, body: &str) {
        self.serial += 1;
        self.announced.push((format!("sqs-{}", self.serial), body.to_owned(), None));
    }

    /// Cleanup gets what is on the stack's own queue of events, in batches of ten.
    pub(super) fn relay_all(&mut self) {
        self.collect();
        let announced = std::mem::take(&mut self.announced);
        for batch in announced.chunks(10) {
            let message = |(message_id, body, targets): &Announced| QueueMessage {
                message_id: message_id.clone(),
                body: Body::new(body.clone()),
                sent: self.now(),
                is_reference: false,
                targets: *targets,
                traceparent: None,
            };
            let messages: Vec<_> = batch.iter().map(message).collect();
            match until_stalled(self.cleanup.relay(&messages)) {
                Some(relayed) => {
                    let back = batch.iter().zip(relayed).filter(|(_, relayed)| relayed.is_err());
                    self.announced.extend(back.map(|(message, _)| message.clone()));
                }
                None => {
                    self.revive();
                    self.announced.extend_from_slice(batch);
                }
            }
        }
    }

    /// Cleanup gets a body that SQS moved to the quarantine; nothing fails.
    pub(crate) fn poison(&mut self, body: &str) {
        self.try_poison(body).expect("nothing fails");
    }

    /// The same, where something may fail.
    pub(crate) fn try_poison(&mut self, body: &str) -> Result<(), PortError> {
        self.serial += 1;
        self.try_poison_as(&format!("sqs-{}", self.serial), body)
    }

    /// The same, of an SQS message that a worker may still hold.
    pub(crate) fn try_poison_as(&mut self, message_id: &str, body: &str) -> Result<(), PortError> {
        self.try_poison_sent_at(self.now(), message_id, body)
    }

    pub(crate) fn try_poison_sent_at(
        &self,
        sent: Timestamp,
        message_id: &str,
        body: &str,
    ) -> Result<(), PortError> {
        self.clean(message_id.to_owned(), body, sent, false, None).expect("nothing kills it")
    }

    /// Cleanup gets a body from the quarantine that came with the attribute of this trace; nothing fails.
    pub(crate) fn poison_traced(&self, body: &str, traceparent: Traceparent) {
        let cleaned = self.clean("sqs-traced".to_owned(), body, self.now(), false, Some(traceparent));
        cleaned.expect("nothing kills it").expect("nothing fails");
    }

    /// Cleanup gets a reference to a dead letter; nothing fails.
    pub(crate) fn clean_reference(&self, body: &str) {
        let cleaned = self.clean("reference".to_owned(), body, self.now(), true, None);
        cleaned.expect("nothing kills it").expect("nothing fails");
    }

    /// Cleanup gets a body from the quarantine, and has so much time for it.
    pub(crate) fn try_poison_within(&self, time: Duration, body: &str) -> Result<(), PortError> {
        let (message_id, sent) = ("poison".to_owned(), self.now());
        let body = Body::new(body.to_owned());
        let message =
            QueueMessage { message_id, body, sent, is_reference: false, targets: None, traceparent: None };
        until_stalled(self.cleanup.clean(&message, sent.plus(time))).expect("nothing kills it")
    }

    /// Cleanup gets a message; `None` if its worker dies.
    fn clean(
        &self,
        message_id: String,
        body: &str,
        sent: Timestamp,
        is_reference: bool,
        traceparent: Option<Traceparent>,
    ) -> Option<Result<(), PortError>> {
        let body = Body::new(body.to_owned());
        let message = QueueMessage { message_id, body, sent, is_reference, targets: None, traceparent };
        until_stalled(self.cleanup.clean(&message, self.now().plus(FUNCTION_TIMEOUT)))
    }

    /// Makes a sweep; if it dies, the next one goes on.
    pub(crate) fn sweep(&mut self, which: Sweep) -> cleanup::Swept {
        let deadline = self.now().plus(FUNCTION_TIMEOUT);
        match until_stalled(self.cleanup.sweep(which, deadline)) {
            Some(swept) => swept.unwrap_or_default(),
            None => {
                self.revive();
                cleanup::Swept::default()
            }
        }
    }
}
