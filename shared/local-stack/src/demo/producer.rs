//! The producer's part: batches of ten onto the two ingest queues, failed entries not overlooked.

use aws_sdk_sqs::{Client, types::SendMessageBatchRequestEntry};
use redial_core::lane::Lane;

use super::{
    harness::Harness,
    mix::{Delivery, tenant},
};
use crate::local::call;
use redial_console::failure::Failure;

/// SQS's limit of a batch (SendMessageBatch, API reference).
const BATCH: usize = 10;

pub(super) struct Producer {
    client: Client,
    ingest: String,
    bulk: String,
}

/// A batch call answered 200, and not for all of its entries.
#[derive(Debug, thiserror::Error)]
#[error("{0} of the messages were not taken by their queue")]
struct NotTaken(usize);

impl Producer {
    pub(super) fn new(harness: &Harness) -> Self {
        let queues = &harness.description().queues;
        Self { client: harness.sqs.clone(), ingest: queues.ingest.clone(), bulk: queues.bulk.clone() }
    }

    /// Sends these for the first time, and notes their MessageIds.
    pub(super) async fn send(
        &self,
        deliveries: impl IntoIterator<Item = &mut Delivery>,
    ) -> Result<(), Failure> {
        let (mut transactional, mut bulk): (Vec<_>, Vec<_>) =
            deliveries.into_iter().partition(|it| it.lane == Lane::Transactional);
        for batch in transactional.chunks_mut(BATCH).chain(bulk.chunks_mut(BATCH)) {
            let lane = batch[0].lane;
            let ids = self.put(lane, batch.iter().map(|it| it.body())).await?;
            for (delivery, id) in batch.iter_mut().zip(ids) {
                delivery.message_id = id;
            }
        }
        Ok(())
    }

    /// Sends these a second time, word for word.
    pub(super) async fn repeat(
        &self,
        deliveries: impl IntoIterator<Item = &mut Delivery>,
    ) -> Result<(), Failure> {
        for delivery in deliveries {
            self.put(delivery.lane, [delivery.body()]).await?;
            delivery.is_repeated = true;
        }
        Ok(())
    }

    /// One batch; the MessageIds in its order.
    async fn put(
        &self,
        lane: Lane,
        bodies: impl IntoIterator<Item = String>,
    ) -> Result<Vec<Option<String>>, Failure> {
        let entry = |(at, body): (usize, String)| {
            SendMessageBatchRequestEntry::builder()
                .id(at.to_string())
                .message_body(body)
                .message_group_id(tenant().as_str())
                .build()
                .expect("invariant: an entry has its id and its body")
        };
        let entries: Vec<_> = bodies.into_iter().enumerate().map(entry).collect();
        let mut ids = vec![None; entries.len()];
        let url = match lane {
            Lane::Transactional => &self.ingest,
            Lane::Bulk => &self.bulk,
        };
        let sent = self.client.send_message_batch().queue_url(url).set_entries(Some(entries)).send().await;
        for taken in sent.map_err(call("SendMessageBatch"))?.successful() {
            if let Some(id) = taken.id().parse::<usize>().ok().and_then(|at| ids.get_mut(at)) {
                *id = Some(taken.message_id().to_owned());
            }
        }
        match ids.iter().filter(|id| id.is_none()).count() {
            0 => Ok(ids),
            missing => Err(Failure::from(NotTaken(missing))),
        }
    }
}
