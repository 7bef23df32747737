//! What SQS does with messages besides delivering them: visibility, deletion, receive counts and redrive.

use std::collections::BTreeMap;
use std::time::Duration;

use redial_core::lane::Lane;
use redial_core::message::QueueKind;
use redial_engine::deliver::Incoming;

use super::{Harness, MAX_RECEIVE_COUNT, VISIBILITY, incoming};

impl Harness {
    /// All that waits in queues becomes visible at the same moment.
    pub(crate) fn deliver_together(&mut self) {
        let last = self.queued.iter().map(|message| message.visible_at).max();
        for message in &mut self.queued {
            message.visible_at = last.unwrap_or(message.visible_at);
        }
    }

    /// Hides all messages but this one for as long as a visibility time-out.
    pub(crate) fn hide_all_but(&mut self, message_id: &str) {
        let until = self.now().plus(VISIBILITY);
        for message in self.queued.iter_mut().filter(|message| message.message_id != message_id) {
            message.visible_at = until;
        }
    }

    pub(crate) fn queued(&self) -> Vec<String> {
        self.queued.iter().map(|message| message.message_id.clone()).collect()
    }

    /// How many messages are in a lane's retry queue.
    pub(crate) fn retries_in(&self, lane: Lane) -> usize {
        self.queued.iter().filter(|it| it.kind == QueueKind::Retry && it.lane == lane).count()
    }

    /// Deletes these messages, but for those that come back.
    pub(crate) fn acknowledge(&mut self, ids: &[String], back: &[String]) {
        let come_back: BTreeMap<String, u32> = {
            let mut state = self.state();
            state.come_back.drain(..).map(|(receipt, secs)| (receipt.handle, secs)).collect()
        };
        let now = self.now();
        self.queued
            .retain(|message| !ids.contains(&message.message_id) || back.contains(&message.message_id));
        for message in self.queued.iter_mut().filter(|message| back.contains(&message.message_id)) {
            if let Some(secs) = come_back.get(&message.message_id) {
                message.visible_at = now.plus(Duration::from_secs(u64::from(*secs)));
            }
        }
    }

    /// Moves to the quarantine what was received too often.
    pub(super) fn redrive(&mut self) {
        let now = self.now();
        let (redriven, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.queued)
            .into_iter()
            .partition(|message| message.receives >= MAX_RECEIVE_COUNT && message.visible_at <= now);
        self.queued = left;
        let redriven: Vec<String> = redriven.into_iter().map(|message| message.body).collect();
        self.redriven.extend(redriven.iter().cloned());
        self.quarantined.extend(redriven);
        for body in std::mem::take(&mut self.quarantined) {
            if self.try_poison(&body).is_err() {
                self.quarantined.push(body);
            }
        }
    }

    pub(crate) fn has_been_received(&mut self, message_id: &str, receives: u32) {
        let queued = self.queued.iter_mut().find(|message| message.message_id == message_id);
        queued.expect("it is queued").receives = receives;
    }

    /// Lets these be delivered to a worker, and marks them as under way.
    pub(crate) fn receive(&mut self, ids: &[String]) -> Vec<Incoming> {
        let until = self.now().plus(VISIBILITY);
        let receive = |id: &String| {
            let queued = self.queued.iter_mut().find(|message| message.message_id == *id);
            let queued = queued.expect("it is queued");
            queued.visible_at = until;
            incoming(queued)
        };
        ids.iter().map(receive).collect()
    }

    /// From now on what goes to recipients of audiences is set aside, for [`Self::deliver_held_back`].
    pub(crate) fn hold_recipients_back(&mut self) {
        self.recipients = Some(Vec::new());
    }

    /// How many messages to recipients were set aside.
    pub(crate) fn held_back(&self) -> usize {
        self.recipients.as_ref().map_or(0, Vec::len)
    }

    /// Delivers what was set aside, in large batches; answers the endpoints that were posted to, once for each post.
    pub(crate) fn deliver_held_back(&mut self) -> Vec<String> {
        let held_back = self.recipients.take().unwrap_or_default();
        let before = self.state().sent.len();
        for bodies in held_back.chunks(1_000) {
            let now = self.now();
            let ids: Vec<String> = bodies
                .iter()
                .map(|body| self.enqueue(body.clone(), QueueKind::Retry, Lane::Bulk, now))
                .collect();
            let incoming = ids.iter().map(|id| self.incoming_of(id)).collect();
            let back = self.invoke_with(incoming);
            assert!(back.is_empty(), "nothing comes back");
            self.queued.clear();
        }
        self.state().sent[before..].iter().map(|push| push.endpoint.clone()).collect()
    }
}
