//! Draining the quarantine: bodies that SQS took out of their queue because their workers never acknowledged them.
//!
//! Such a body is raw, so it does not stay in a queue: a release is sent again, what has ended or has moved on is dropped, and
//! all else becomes a dead letter `poison` that can be looked at and replayed. The end of what is dropped is announced as the ledger
//! has it: its worker may have died before it did so.

use std::sync::Arc;

use super::announce;
use crate::ports::{
    Audiences, CleanupEnvironment, Clock, DeadLetterBodies, DeadLetterStore, LedgerReader, Outbox, Policies,
    PortError, SubscriptionHealth, Telemetry,
};
use redial_core::audience::{Run, RunKey};
use redial_core::body::Body;
use redial_core::channel::Channel;
use redial_core::dead_letter::{self, Kind, LetterBody, LetterKey, Reference, UNPARSED_BODY_KEPT};
use redial_core::event::{self, Event};
use redial_core::identity::{SubscriptionKey, Turn};
use redial_core::ledger::{Entry, State};
use redial_core::message::{Inbound, Message, QueueKind, Travel, parse};
use redial_core::metric::Metric;
use redial_core::policy::Policy;
use redial_core::queue::Outgoing;
use redial_core::reason::Reason;
use redial_core::route::DelaySeconds;
use redial_core::subscription::Terms;
use redial_core::time::Timestamp;

/// How long a poison message's description is kept, in days (article 003).
const RETENTION_DAYS: u16 = 14;

/// Deals with one body, which SQS knows as `message_id` and which was first sent at `sent`.
pub(super) async fn poisoned<E: CleanupEnvironment>(
    env: &E,
    message_id: &str,
    body: &Body,
    sent: Timestamp,
) -> Result<(), PortError> {
    let now = env.clock().now();
    // Which of its queues it comes from is not told reliably: the two formats exclude each other, and the lane is not known.
    let inbound = parse(body.expose(), QueueKind::Ingest, message_id, sent)
        .or_else(|_| parse(body.expose(), QueueKind::Retry, message_id, sent));
    match inbound {
        Ok(Inbound::Release(release)) => {
            env.outbox().send(vec![Outgoing::release(release)]).await.into_iter().collect()
        }
        Ok(Inbound::Message(message, travel)) => message_kept(env, message_id, &message, &travel, now).await,
        Ok(Inbound::Expand(expansion)) => {
            let Some(run) = run_of(env, &expansion.run).await? else { return Ok(()) };
            let again = expansion.outgoing(run.lane, DelaySeconds::ZERO);
            env.outbox().send(vec![again]).await.into_iter().collect()
        }
        Ok(Inbound::Recipient(recipient, travel)) => {
            let Some(run) = run_of(env, &recipient.run).await? else { return Ok(()) };
            let (message, _, _) = run.read().ok_or_else(PortError::unreadable_run)?;
            message_kept(env, message_id, &message.to_recipient(&recipient), &travel, now).await
        }
        Err(refusal) => {
            let key = LetterKey::of_poison(refusal.tenant.as_ref(), None, message_id);
            let reference = described(&key, 0, 0, "unknown", sent, now);
            let body = body.expose().to_owned();
            let absent_from = now.plus(UNPARSED_BODY_KEPT);
            keep(env, LetterBody { key, body, lane: None, absent_from }, reference, now).await
        }
    }
}

/// Keeps a message as a dead letter, unless its delivery went on without it.
async fn message_kept<E: CleanupEnvironment>(
    env: &E,
    message_id: &str,
    message: &Message,
    travel: &Travel,
    now: Timestamp,
) -> Result<(), PortError> {
    let entry = env.ledger().get(&message.key()).await?.map(|entry| with_carried(entry, travel));
    if let Some(entry) = entry.as_ref().filter(|entry| has_moved_on(entry, travel.turn)) {
        env.telemetry().count(Metric::DuplicatesDropped, 1);
        if entry.state.is_terminal() {
            announce(env, end_of(message, entry.state, entry.reason, entry.status, entry.updated_at)).await?;
        }
        return Ok(());
    }
    let key = LetterKey::of_poison(Some(&message.tenant), Some(&message.id), message_id);
    let (channel, terms) = destination(env, message).await?;
    let deadline = message.deadline(channel, travel.first_sent);
    let body = message.expose_stored_body(&travel.for_the_store(), deadline, now);
    let policy = policy_of(env, message, channel, &terms, now).await?;
    let absent_from = dead_letter::body_absent_from(deadline, policy.dlq_retention_days, now);
    let reference = of_message(travel, channel, &key, &policy, now);
    keep(env, LetterBody { key, body, lane: None, absent_from }, reference, now).await?;
    let recorded = entry.filter(|entry| entry.turn == travel.turn);
    let event = match recorded.filter(|entry| matches!(entry.state, State::Failed | State::Gone)) {
        Some(entry) => end_of(message, entry.state, entry.reason, entry.status, entry.updated_at),
        None => end_of(message, State::Failed, Some(Reason::Poison), None, now),
    };
    announce(env, event).await
}

fn end_of(
    message: &Message,
    state: State,
    reason: Option<Reason>,
    status: Option<u16>,
    at: Timestamp,
) -> Event {
    Event::of_delivery(&message.key(), event::State::Delivery(state), at)
        .with_ref(message.producer_ref.clone())
        .to(message.to.subscription().cloned())
        .because(reason, status)
}

/// A message to an audience, if it is not forgotten: what belonged to a forgotten one has outlived its TTL.
async fn run_of<E: CleanupEnvironment>(env: &E, key: &RunKey) -> Result<Option<Run>, PortError> {
    env.audiences().load(vec![key.clone()], env.clock().now()).await.pop().expect("a port answers every item")
}

/// The entry as it would be if the outcome that the message carries had been recorded. Only the message knows what its
/// attempt came to.
fn with_carried(entry: Entry, travel: &Travel) -> Entry {
    let Some(carried) = travel.unrecorded.as_ref().filter(|it| it.has_an_outcome()) else { return entry };
    let record = &carried.record;
    let is_current =
        entry.state == State::Sending && entry.turn == travel.turn && entry.lease_token == record.lease_token;
    if !is_current {
        return entry;
    }
    Entry {
        state: record.state,
        reason: record.reason,
        status: record.status,
        updated_at: record.now,
        ..entry
    }
}

/// Whether the delivery needs this message no more: it has gone on to another turn, or has ended in this one with nothing left to do
/// but to announce it. The other ends have a dead letter or recipients to hand off.
fn has_moved_on(entry: &Entry, turn: Turn) -> bool {
    entry.turn > turn
        || (entry.turn == turn
            && matches!(entry.state, State::Sent | State::Expired | State::FailedNoRetries))
}

async fn keep<E: CleanupEnvironment>(
    env: &E,
    body: LetterBody,
    reference: Reference,
    now: Timestamp,
) -> Result<(), PortError> {
    env.dead_letters().put(vec![body]).await.into_iter().collect::<Result<(), _>>()?;
    env.dead_letters().describe(&reference, now).await?;
    env.telemetry().reference(&reference);
    env.telemetry().count(Metric::Poison, 1);
    env.telemetry().dead_letter(Reason::Poison, None);
    Ok(())
}

/// The channel and what was agreed with the receiver: whether the body has a TTL and how long it is kept depend on them.
async fn destination<E: CleanupEnvironment>(
    env: &E,
    message: &Message,
) -> Result<(Channel, Terms), PortError> {
    let Some(id) = message.to.subscription().cloned() else {
        let channel = message.to.recipient().map_or(Channel::WebPush, |to| to.channel());
        return Ok((channel, Terms::default()));
    };
    let key = SubscriptionKey { tenant: message.tenant.clone(), id };
    let subscription = env.health().get(&key).await?;
    Ok(subscription.map_or((Channel::WebPush, Terms::default()), |it| (it.recipient.channel(), it.terms)))
}

async fn policy_of<E: CleanupEnvironment>(
    env: &E,
    message: &Message,
    channel: Channel,
    terms: &Terms,
    now: Timestamp,
) -> Result<Arc<Policy>, PortError> {
    let mut answers = env.policies().of(vec![message.tenant.clone()], now).await;
    let known = answers.pop().expect("a port answers every item")?;
    known.tell(&message.tenant, env.telemetry());
    Ok(message.circumstances(channel, terms, &known.policies).choose().policy)
}

fn of_message(
    travel: &Travel,
    channel: Channel,
    key: &LetterKey,
    policy: &Policy,
    now: Timestamp,
) -> Reference {
    let Turn { lineage, attempt } = travel.turn;
    let reference = described(key, lineage.0, attempt.0, channel.label(), travel.first_sent, now);
    Reference { retention_days: policy.dlq_retention_days, ..reference }
}

fn described(
    key: &LetterKey,
    lineage: u32,
    attempts: u32,
    channel: &str,
    first_sent: Timestamp,
    now: Timestamp,
) -> Reference {
    Reference {
        v: Reference::VERSION,
        kind: Kind::Failed,
        tenant: key.tenant.clone(),
        id: key.id.clone(),
        letter: key.letter.clone(),
        lineage,
        channel: channel.to_owned(),
        subscription: None,
        endpoint_hash: None,
        reason: Reason::Poison.label().to_owned(),
        detail: None,
        status: None,
        attempts,
        first_sent: first_sent.as_ms(),
        at: now.as_ms(),
        retention_days: RETENTION_DAYS,
    }
}
