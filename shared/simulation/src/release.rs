//! Two releases side by side: what a newer one writes on the queues that workers share, and how it reads that.

use redial_core::queue::{Outgoing, Queue};
use redial_core::wait::Shard;
use redial_engine::ports::{Outbox, ParkedItem, ParkedKey, Parking, PortError, Receipt};
use redial_memory::Memory;
use serde_json::{Value, json};

use crate::worker::Stage;

/// What a newer release adds: a field that no older one has.
const FIELD: &str = "\"from_the_next_release\":1,";

/// A kind of message that no older release has.
const KIND: &str = "next_kind";

/// The queues and the parking of one worker, whose release may change.
#[derive(Clone, Debug)]
pub struct Released {
    pub memory: Memory,
    pub stage: Stage,
    pub worker: usize,
}

impl Released {
    fn written(&self, body: String) -> String {
        match &self.stage.scenario.storage.releases {
            Some(releases) if self.stage.is_newer(self.worker) => written(body, releases.is_a_kind),
            Some(_) | None => body,
        }
    }
}

fn written(body: String, is_a_kind: bool) -> String {
    if body != read(&body) {
        return body;
    }
    if is_a_kind { json!({KIND: body}).to_string() } else { body.replacen('{', &format!("{{{FIELD}"), 1) }
}

/// The body as a newer release reads it: what this one writes.
pub fn read(body: &str) -> String {
    let of_kind =
        body.starts_with(&format!("{{\"{KIND}\"")).then(|| serde_json::from_str::<Value>(body).ok());
    match of_kind.flatten().as_ref().and_then(|value| value[KIND].as_str()) {
        Some(inner) => inner.to_owned(),
        None => body.replacen(FIELD, "", 1),
    }
}

impl Outbox for Released {
    fn has_events(&self) -> bool {
        self.memory.has_events()
    }

    async fn send(&self, mut messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        for message in &mut messages {
            if let Queue::Retry(_) = message.queue {
                message.body = self.written(std::mem::take(&mut message.body));
            }
        }
        self.memory.send(messages).await
    }

    async fn come_back_after(&self, receipts: Vec<(Receipt, u32)>) {
        self.memory.come_back_after(receipts).await;
    }
}

impl Parking for Released {
    async fn put(&self, mut items: Vec<ParkedItem>) -> Vec<Result<(), PortError>> {
        for item in &mut items {
            item.body = self.written(std::mem::take(&mut item.body));
        }
        Parking::put(&self.memory, items).await
    }

    async fn page(&self, shard: Shard, limit: u16) -> Result<Vec<ParkedItem>, PortError> {
        self.memory.page(shard, limit).await
    }

    async fn delete(&self, keys: Vec<ParkedKey>) -> Result<(), PortError> {
        self.memory.delete(keys).await
    }
}
