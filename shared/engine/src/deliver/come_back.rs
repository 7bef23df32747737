//! Messages that come back: by their visibility, or, after many receives, as a new SQS message in their place.
//!
//! Redrive counts receives and knows no reasons, so an outage of our own would look to it like a crash loop. Its waits grow
//! to 15 minutes, and from the [`SENT_AGAIN_FROM`]th receive on a message is sent again with a receive count of its own: the back-off
//! goes on, and the former message is acknowledged only when its successor is durable. If that fails, visibility alone carries on.

use std::time::Duration;

use rand::rngs::StdRng;

use super::fate::{Fate, SENT_AGAIN_FROM, Setback};
use super::inbox::Incoming;
use crate::ports::{Outbox, Receipt, Telemetry};
use redial_core::channel::Channel;
use redial_core::message::{Inbound, Message, QueueKind, Travel, parse};
use redial_core::queue::{Outgoing, Queue};
use redial_core::recipient::Recipient;
use redial_core::route::{DelaySeconds, SQS_MAX_DELAY_SECONDS};
use redial_core::time::{Deadline, Timestamp, Ttl};

/// Sends every message of a batch back: for a worker that cannot start, because a dependency of its own is out. Returns the SQS
/// MessageIds of those that must come back.
pub async fn all_come_back<O: Outbox, T: Telemetry>(
    outbox: &O,
    telemetry: &T,
    batch: &[Incoming],
    now: Timestamp,
    rng: StdRng,
) -> Vec<String> {
    let fates = (0..batch.len()).map(|index| (index, Fate::ComesBack(Setback::Infrastructure))).collect();
    send_back(outbox, telemetry, batch, fates, now, rng).await
}

/// Changes the visibility of the messages that come back, or sends them again, and returns the SQS MessageIds of those that SQS
/// must keep.
pub(super) async fn send_back<O: Outbox, T: Telemetry>(
    outbox: &O,
    telemetry: &T,
    batch: &[Incoming],
    fates: Vec<(usize, Fate)>,
    now: Timestamp,
    mut rng: StdRng,
) -> Vec<String> {
    let mut acknowledged = vec![false; batch.len()];
    let mut receipts: Vec<(Receipt, u32)> = Vec::new();
    let mut successors = Vec::new();
    for (index, fate) in fates {
        let incoming = &batch[index];
        match fate {
            Fate::Acknowledged | Fate::AcknowledgedAlone => acknowledged[index] = true,
            Fate::ComesBack(setback) => {
                let inbound = may_tell_more(incoming).then(|| read(incoming)).flatten();
                let former = inbound.as_ref().and_then(travel).map_or(0, |travel| travel.receives);
                let receives = former.saturating_add(incoming.receive_count);
                let after = setback.visibility_secs(receives, now, &mut rng);
                match inbound.and_then(|inbound| successor(incoming, inbound, setback, after, now)) {
                    Some(successor) => successors.push((index, after, successor)),
                    None => receipts.push((incoming.receipt.clone(), after)),
                }
            }
        }
    }
    if !successors.is_empty() {
        let messages = successors.iter().map(|(_, _, outgoing)| outgoing.clone()).collect();
        for ((index, after, _), sent) in successors.into_iter().zip(outbox.send(messages).await) {
            match sent {
                Ok(()) => acknowledged[index] = true,
                Err(error) => {
                    telemetry.infrastructure(&error);
                    receipts.push((batch[index].receipt.clone(), after));
                }
            }
        }
    }
    if !receipts.is_empty() {
        outbox.come_back_after(receipts).await;
    }
    // A message without a fate was not dealt with: it comes back, too.
    let back = batch.iter().zip(acknowledged).filter(|(_, acknowledged)| !acknowledged);
    back.map(|(incoming, _)| incoming.message_id.clone()).collect()
}

/// Whether its body matters to when and how it comes back: a producer's first SQS message has no way behind it.
fn may_tell_more(incoming: &Incoming) -> bool {
    incoming.receipt.kind == QueueKind::Retry || incoming.receive_count >= SENT_AGAIN_FROM
}

fn read(incoming: &Incoming) -> Option<Inbound> {
    parse(incoming.body.expose(), incoming.receipt.kind, &incoming.message_id, incoming.sent).ok()
}

fn travel(inbound: &Inbound) -> Option<&Travel> {
    match inbound {
        Inbound::Message(_, travel) | Inbound::Recipient(_, travel) => Some(travel),
        Inbound::Release(_) | Inbound::Expand(_) => None,
    }
}

/// The message that takes the place of one that comes back for the [`SENT_AGAIN_FROM`]th time. Releases and parts of audiences have
/// none: what takes them out of their queue sends them again.
fn successor(
    incoming: &Incoming,
    inbound: Inbound,
    setback: Setback,
    after_secs: u32,
    now: Timestamp,
) -> Option<Outgoing> {
    if incoming.receive_count < SENT_AGAIN_FROM || !setback.may_be_sent_again() {
        return None;
    }
    let onward = |travel: Travel| Travel {
        receives: travel.receives.saturating_add(incoming.receive_count),
        deferred_from: travel.deferred_from.or_else(|| Some(incoming.message_id.clone())),
        unrecorded: match setback {
            Setback::Unrecorded(unrecorded) => Some(unrecorded),
            Setback::NotAdmitted
            | Setback::Leased { .. }
            | Setback::Infrastructure
            | Setback::Panicked
            | Setback::Unreadable => travel.unrecorded,
        },
        ..travel
    };
    let (body, tenant) = match inbound {
        // One attempt, and never another message.
        Inbound::Message(message, _) if message.ttl == Some(Ttl::ZERO) => return None,
        Inbound::Message(message, travel) => {
            let deadline = deadline(&message, &travel);
            (message.expose_travel_body(&onward(travel), deadline, now), message.tenant)
        }
        Inbound::Recipient(recipient, travel) => {
            let deadline = Ttl::UNLIMITED.deadline_from(travel.first_sent);
            (recipient.travel_body(&onward(travel), deadline, now), recipient.run.tenant)
        }
        Inbound::Release(_) | Inbound::Expand(_) => return None,
    };
    let delay = DelaySeconds::floor(Duration::from_secs(after_secs.into()), SQS_MAX_DELAY_SECONDS);
    Some(Outgoing { queue: Queue::Retry(incoming.receipt.lane), body, delay, tenant: Some(tenant) })
}

/// When it ends, as far as it says so itself: only for those who look into the queue.
fn deadline(message: &Message, travel: &Travel) -> Deadline {
    match (message.ttl, message.to.recipient().as_ref().map(Recipient::channel)) {
        (None, None) => Ttl::UNLIMITED.deadline_from(travel.first_sent),
        (_, channel) => message.deadline(channel.unwrap_or(Channel::WebPush), travel.first_sent),
    }
}
