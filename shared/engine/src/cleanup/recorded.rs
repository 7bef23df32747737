//! Handing off what a worker recorded of an attempt before it died over its message, as the worker would have.

use super::quarantine::end_as_recorded;
use super::worker::{Ports, Worker};
use crate::ports::{Audiences, Outbox, PortError};
use crate::runs;
use redial_core::channel::Channel;
use redial_core::dead_letter::{DeadLetterKey, Kind, Reference};
use redial_core::lane::Lane;
use redial_core::ledger::{Entry, State};
use redial_core::message::{Message, Travel};
use redial_core::protection::patience::lane_of_retry;
use redial_core::queue::{Outgoing, Queue};
use redial_core::reason::Reason;
use redial_core::route::{DelaySeconds, SQS_MAX_DELAY_SECONDS};
use redial_core::time::Timestamp;

impl<P: Ports> Worker<P> {
    /// Hands off what the entry says of this message's attempt, and answers whether that was all. What failed has a dead letter to be
    /// written, and where nothing is recorded, the message becomes one.
    pub(super) async fn hand_off(
        &self,
        message: &Message,
        travel: &Travel,
        entry: &Entry,
        lane: Lane,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        match entry.state {
            State::Retrying => self.retry(message, travel, entry, lane, now).await?,
            State::Expanded => self.open(message, travel, entry).await?,
            State::Gone => self.tell_of_gone(message, travel, entry, now).await?,
            State::Queued
            | State::Deferred
            | State::Sending
            | State::Sent
            | State::Expired
            | State::Failed
            | State::FailedNoRetries
            | State::Cancelled => {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends the next attempt of a delivery. If its worker did so, there are two, and the ledger drops one. As poison it would be announced
    /// as an end that the ledger does not have, while its delivery went on.
    async fn retry(
        &self,
        message: &Message,
        travel: &Travel,
        entry: &Entry,
        lane: Lane,
        now: Timestamp,
    ) -> Result<(), PortError> {
        let (channel, _) = self.destination(message).await?;
        let deadline = message.deadline(channel, travel.first_sent);
        let lane = entry.reason.map_or(lane, |reason| lane_of_retry(lane, channel, reason, entry.not_sent));
        let not_before = entry.not_before.unwrap_or(entry.updated_at);
        let to_next = Travel::to(travel.turn.next_attempt(), travel.first_sent);
        let next = Travel { not_before: Some(not_before), ..to_next };
        self.send(Outgoing {
            queue: Queue::Retry(lane),
            body: message.expose_travel_body(&next, deadline, now),
            // What waits for longer comes early, and is parked then.
            delay: DelaySeconds::floor(not_before.since(now), SQS_MAX_DELAY_SECONDS),
            tenant: Some(message.tenant.clone()),
            attribute: None,
        })
        .await
    }

    /// Opens a message to an audience. As poison it would be sent to everyone once more when it is replayed.
    async fn open(&self, message: &Message, travel: &Travel, entry: &Entry) -> Result<(), PortError> {
        let deadline = message.deadline(Channel::WebPush, travel.first_sent);
        let run = runs::of_claim(message, travel, deadline, entry.updated_at);
        let key = run.key.clone();
        self.audiences.open(vec![run]).await.pop().expect("a port answers every item")?;
        let sent = self.outbox.send(runs::first_messages(key).collect()).await;
        sent.into_iter().collect::<Result<(), _>>()?;
        self.announce(end_as_recorded(message, entry)).await
    }

    /// Follows up an endpoint that was found to be gone, for which the worker would have sent a reference.
    async fn tell_of_gone(
        &self,
        message: &Message,
        travel: &Travel,
        entry: &Entry,
        now: Timestamp,
    ) -> Result<(), PortError> {
        let (channel, terms) = self.destination(message).await?;
        let retention_days = self.retention_days(message, channel, &terms, now).await?;
        let reason = entry.reason.unwrap_or(Reason::Gone);
        let kind = if reason == Reason::NotFound { Kind::NotFound } else { Kind::Gone };
        let key = DeadLetterKey::of_delivery(&message.tenant, &message.id, travel.turn.lineage);
        let reference = Reference {
            lineage: travel.turn.lineage.0,
            channel: channel.label().to_owned(),
            subscription: message.to.subscription().map(ToString::to_string),
            endpoint_hash: entry.endpoint_hash.as_ref().map(|hash| hash.as_str().to_owned()),
            tags: message.tags.to_text(),
            trace_id: message.traceparent.map(|it| it.trace_id()),
            status: entry.status,
            attempts: travel.turn.next_attempt().attempt.0,
            retention_days,
            ..Reference::new(&key, kind, reason, travel.first_sent, entry.updated_at)
        };
        self.take(&reference, now).await?;
        self.announce(end_as_recorded(message, entry)).await
    }
}
