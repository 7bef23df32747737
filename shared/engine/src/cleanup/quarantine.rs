//! Draining the quarantine: bodies that SQS took out of their queue because their workers never acknowledged them.
//!
//! Such a body is raw, so it does not stay in a queue: a release is sent again, what has ended or has moved on is dropped, what only lacks
//! its hand-off is [handed off](super::recorded), and all else becomes a dead letter `poison` that can be looked at and replayed. That end is recorded first:
//! SQS may hand out a message at its last receive twice, and move it here while a worker still holds it. The end of what is dropped is
//! announced as the ledger has it: its worker may have died before it did so.

use std::time::Duration;

use super::worker::{Ports, QueueMessage, Worker};
use crate::ports::{
    Audiences, Claim, ClaimAnswer, DeadLetterBodies, DeadLetterStore, Ledger, LedgerReader, Policies,
    PortError, Settlement, SubscriptionHealth, Telemetry,
};
use redial_core::audience::{Run, RunKey};
use redial_core::channel::Channel;
use redial_core::dead_letter::{self, DeadLetterBody, DeadLetterKey, Kind, Reference, UNPARSED_BODY_KEPT};
use redial_core::endpoint::EndpointHash;
use redial_core::erasure::Subject;
use redial_core::event::{self, End, Event};
use redial_core::identity::{SubscriptionKey, Turn};
use redial_core::lane::Lane;
use redial_core::ledger::{Ask, Entry, Fence, State, claim, judge};
use redial_core::message::{Inbound, Message, QueueKind, Travel, parse};
use redial_core::metric::Metric;
use redial_core::page::PageMessage;
use redial_core::queue::Outgoing;
use redial_core::reason::Reason;
use redial_core::route::DelaySeconds;
use redial_core::subscription::Terms;
use redial_core::time::{Timestamp, Ttl};

/// For how long after it was sent a body that another release wrote stays in the quarantine, so that one that reads it can come back.
const LEFT_TO_ANOTHER_RELEASE: Duration = Duration::from_secs(86_400);

impl<P: Ports> Worker<P> {
    pub(super) async fn drain(&self, message: &QueueMessage, now: Timestamp) -> Result<(), PortError> {
        let QueueMessage { message_id, body, sent, traceparent, .. } = message;
        let read = |kind| parse(body.expose(), kind, message_id, *sent);
        // SQS does not say which queue it comes from: the two formats exclude each other, and the lane is not known.
        match read(QueueKind::Ingest).or_else(|_| read(QueueKind::Retry)) {
            Ok(Inbound::Release(release)) => self.send(Outgoing::release(release)).await,
            Ok(Inbound::Message(mut message, travel)) => {
                traceparent.iter().for_each(|it| message.join(*it));
                self.keep_message(message_id, &message, &travel, message.class.lane(), now).await
            }
            Ok(Inbound::Expand(expansion)) => {
                let Some(run) = self.run_of(&expansion.run, now).await? else { return Ok(()) };
                self.send(expansion.outgoing(run.lane, DelaySeconds::ZERO)).await
            }
            // One of its recipients may have brought its workers down: from now on each is by itself.
            Ok(Inbound::Page(page)) => {
                let Some(run) = self.run_of(&page.key.run, now).await? else { return Ok(()) };
                self.send(PageMessage { apart: true, ..page }.outgoing(run.lane)).await
            }
            Ok(Inbound::Recipient(recipient, travel)) => {
                let Some(run) = self.run_of(&recipient.run, now).await? else { return Ok(()) };
                let (message, _, _) = run.read().ok_or_else(PortError::unreadable_run)?;
                self.keep_message(message_id, &message.to_recipient(&recipient), &travel, run.lane, now).await
            }
            // The release that wrote it knows what its delivery needs, and a part of an audience cannot be replayed.
            Err(refusal) if refusal.is_of_another_release() && now < sent.plus(LEFT_TO_ANOTHER_RELEASE) => {
                Err(PortError { operation: "cleanup", code: "AnotherRelease".to_owned(), throttled: false })
            }
            Err(refusal) => {
                let key = DeadLetterKey::of_poison(refusal.tenant.as_ref(), None, message_id);
                let reference = Reference::new(&key, Kind::Failed, Reason::Poison, *sent, now);
                let (body, absent_from) = (body.expose().to_owned(), now.plus(UNPARSED_BODY_KEPT));
                let body = DeadLetterBody { key, body, lane: None, absent_from };
                self.keep(body, reference, Reason::Poison, now).await
            }
        }
    }

    /// Keeps a message as a dead letter, unless its delivery went on without it, or goes on from what the ledger has.
    async fn keep_message(
        &self,
        message_id: &str,
        message: &Message,
        travel: &Travel,
        lane: Lane,
        now: Timestamp,
    ) -> Result<(), PortError> {
        if self.is_erased(Subject::of(message)).await? {
            return Ok(());
        }
        let entry = match self.ledger.get(&message.key()).await? {
            Some(entry) => Some(self.with_carried(entry, travel).await?),
            None => None,
        };
        // Another content of a used id is no duplicate: it is kept, and the first content's delivery goes on without it.
        let fingerprint = message.fingerprint(&self.settings.hash_keys);
        let is_conflict =
            entry.as_ref().is_some_and(|entry| claim::conflicts(entry, &fingerprint, message.id_source));
        let moved_on = entry.as_ref().filter(|entry| !is_conflict && has_moved_on(entry, travel.turn));
        if let Some(entry) = moved_on {
            self.telemetry.count(Metric::DuplicatesDropped, 1);
            return match entry.state.is_terminal() {
                true => self.announce(end_as_recorded(message, entry)).await,
                false => Ok(()),
            };
        }
        let own = entry.as_ref().filter(|_| !is_conflict);
        if let Some(entry) = own.filter(|entry| entry.turn == travel.turn)
            && self.hand_off(message, travel, entry, lane, now).await?
        {
            return Ok(());
        }
        let (channel, terms) = self.destination(message).await?;
        let deadline = message.deadline(channel, travel.first_sent);
        let ended = |state, reason| {
            let ask = ask_to_end(message_id, message, travel, fingerprint.clone(), state, now);
            let settlement = Some(Settlement { state, reason: Some(reason) });
            let subscription = message.to.subscription().cloned();
            // An attempt before may have arrived, and its browser acknowledge it.
            let (place, kept_until) = (None, message.entry_kept_until(channel, deadline));
            let (endpoint_hash, given) = (None, message.given(Some(channel)));
            Claim { ask, channel, endpoint_hash, subscription, given, place, kept_until, settlement }
        };
        // With a TTL of 0 nothing is sent again: hours in which no worker could claim it bring it here, and it is no poison.
        let is_unclaimed =
            !is_conflict && entry.as_ref().is_none_or(|entry| is_unclaimed(entry, travel.turn));
        if is_unclaimed && message.ttl == Some(Ttl::ZERO) {
            self.end(ended(State::Expired, Reason::TtlOver), entry.as_ref(), now).await?;
            let reason = Some(Reason::TtlOver);
            return self
                .announce(end_of(message, State::Expired, now).map(|end| Event { reason, ..end }))
                .await;
        }
        let (key, reason) = if is_conflict {
            let source = travel.deferred_from.as_deref().unwrap_or(message_id);
            (DeadLetterKey::of_conflict(&message.tenant, &message.id, source), Reason::IdConflict)
        } else {
            let key = DeadLetterKey::of_poison(Some(&message.tenant), Some(&message.id), message_id);
            (key, Reason::Poison)
        };
        let retention_days = self.retention_days(message, channel, &terms, now).await?;
        let body = DeadLetterBody {
            body: message.expose_stored_body(&travel.for_the_store(), deadline, now),
            lane: None,
            absent_from: dead_letter::body_absent_from(deadline, retention_days, now),
            key: key.clone(),
        };
        let Turn { lineage, attempt } = travel.turn;
        let of_this_turn = entry.as_ref().filter(|entry| !is_conflict && entry.turn == travel.turn);
        let may_have_arrived = of_this_turn.is_some_and(|it| it.in_doubt || it.state == State::Sending);
        let reference = Reference {
            lineage: lineage.0,
            attempts: attempt.0 + u32::from(may_have_arrived),
            channel: channel.label().to_owned(),
            tags: message.tags.to_text(),
            trace_id: message.traceparent.map(|it| it.trace_id()),
            retention_days,
            ..Reference::new(&key, Kind::Failed, reason, travel.first_sent, now)
        };
        if !is_conflict {
            self.end(ended(State::Failed, reason), entry.as_ref(), now).await?;
        }
        self.keep(body, reference, reason, now).await?;
        if is_conflict {
            return Ok(());
        }
        let has_failed = |entry: &Entry| entry.turn == travel.turn && entry.state == State::Failed;
        let event = match entry.filter(has_failed) {
            Some(entry) => end_as_recorded(message, &entry),
            None => {
                end_of(message, State::Failed, now).map(|end| Event { reason: Some(Reason::Poison), ..end })
            }
        };
        self.announce(event).await
    }

    /// The entry, with the outcome that the message carries: only the message carries that of its attempt, so it is recorded before
    /// anything follows from it.
    async fn with_carried(&self, entry: Entry, travel: &Travel) -> Result<Entry, PortError> {
        let Some(carried) = travel.unrecorded.as_ref().filter(|it| it.has_an_outcome()) else {
            return Ok(entry);
        };
        let record = &carried.record;
        let is_current = entry.state == State::Sending
            && entry.turn == travel.turn
            && entry.lease_token == record.lease_token;
        if !is_current {
            return Ok(entry);
        }
        let mut fences = self.ledger.record_carried(vec![record.clone()]).await;
        match fences.pop().expect("a port answers every item")? {
            Fence::Held => {
                let mut entry = entry;
                entry.take(record);
                Ok(entry)
            }
            // Another worker has taken the attempt over meanwhile: the message is judged again by what that makes of it.
            Fence::Lost => {
                Err(PortError { operation: "record", code: "FenceLost".to_owned(), throttled: false })
            }
        }
    }

    /// Ends a delivery in the ledger, unless an end is recorded of this turn. An attempt that a worker is making is waited for.
    async fn end(&self, claim: Claim, entry: Option<&Entry>, now: Timestamp) -> Result<(), PortError> {
        if entry.is_some_and(|entry| judge(entry, &claim.ask, now).is_over()) {
            return Ok(());
        }
        let mut answers = self.ledger.claim(vec![claim], now).await;
        let code = match answers.pop().expect("a port answers every item")? {
            ClaimAnswer::Granted { .. } => return Ok(()),
            ClaimAnswer::Leased { .. } => "Leased",
            ClaimAnswer::HandOffAgain(_) | ClaimAnswer::Done | ClaimAnswer::Conflict => "Changed",
        };
        // The message comes back, and is judged by what the ledger has then.
        Err(PortError { operation: "claim", code: code.to_owned(), throttled: false })
    }

    /// A message to an audience, if it is not forgotten: what belonged to a forgotten one has outlived its TTL.
    async fn run_of(&self, key: &RunKey, now: Timestamp) -> Result<Option<Run>, PortError> {
        self.audiences.load(vec![key.clone()], now).await.pop().expect("a port answers every item")
    }

    async fn keep(
        &self,
        body: DeadLetterBody,
        reference: Reference,
        reason: Reason,
        now: Timestamp,
    ) -> Result<(), PortError> {
        self.dead_letters.put(vec![body]).await.into_iter().collect::<Result<(), _>>()?;
        self.dead_letters.describe(&reference, now).await?;
        self.telemetry.reference(&reference);
        self.telemetry.count(Metric::Poison, 1);
        self.telemetry.dead_letter(reason, None);
        Ok(())
    }

    /// For how many days a dead letter of this message is described, as its policy says.
    pub(super) async fn retention_days(
        &self,
        message: &Message,
        channel: Channel,
        terms: &Terms,
        now: Timestamp,
    ) -> Result<u16, PortError> {
        let mut known = self.policies.of(vec![message.tenant.clone()], now).await;
        let known = known.pop().expect("a port answers every item")?;
        known.report(&message.tenant, &self.telemetry);
        Ok(message.circumstances(channel, terms, &known.policies).choose().policy.dlq_retention_days)
    }

    /// The channel and what was agreed with the receiver: whether the body has a TTL and how long it is kept depend on them.
    pub(super) async fn destination(&self, message: &Message) -> Result<(Channel, Terms), PortError> {
        let channel = message.to.channel().unwrap_or(Channel::WebPush);
        let Some(id) = message.to.subscription().cloned() else {
            return Ok((channel, Terms::default()));
        };
        let key = SubscriptionKey { tenant: message.tenant.clone(), id };
        let subscription = self.subscriptions.get(&key).await?;
        Ok(subscription.map_or((channel, Terms::default()), |it| (it.recipient.channel(), it.terms)))
    }
}

/// The claim's token and source name the quarantine: cleanup repeats what it did not finish, and to a worker that holds the same SQS
/// message the delivery has ended.
fn ask_to_end(
    message_id: &str,
    message: &Message,
    travel: &Travel,
    fingerprint: EndpointHash,
    state: State,
    now: Timestamp,
) -> Ask {
    let source = format!("quarantine#{message_id}");
    Ask {
        key: message.key(),
        turn: travel.turn,
        lease_token: source.clone(),
        lease_until: now,
        source_message: source,
        fingerprint,
        id_source: message.id_source,
        state,
    }
}

/// The event of an end; `None` where it is not announced.
fn end_of(message: &Message, state: State, at: Timestamp) -> Option<Event> {
    let end = End::of(message, state)?;
    Some(Event {
        producer_ref: message.producer_ref.clone(),
        subscription: message.to.subscription().cloned(),
        tags: message.tags.clone(),
        traceparent: message.traceparent,
        ..Event::of_delivery(&message.key(), event::State::Delivery(end), at)
    })
}

pub(super) fn end_as_recorded(message: &Message, entry: &Entry) -> Option<Event> {
    let (reason, status) = (entry.reason, entry.status);
    Some(Event { reason, status, ..end_of(message, entry.state, entry.updated_at)? })
}

/// Whether no worker has attempted this turn.
fn is_unclaimed(entry: &Entry, turn: Turn) -> bool {
    entry.turn == turn && matches!(entry.state, State::Queued | State::Deferred) && !entry.in_doubt
}

/// Whether the delivery needs this message no more: it has gone on to another turn, or was cancelled, or has ended in this one with nothing
/// left to do but to announce it. The other ends have a dead letter or recipients to hand off.
fn has_moved_on(entry: &Entry, turn: Turn) -> bool {
    entry.turn > turn
        || entry.state == State::Cancelled
        || (entry.turn == turn
            && matches!(entry.state, State::Sent | State::Expired | State::FailedNoRetries))
}
