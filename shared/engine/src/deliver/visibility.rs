//! Messages that come back: by their visibility, or, after many receives, as a new SQS message in their place. The former message is
//! acknowledged only when its successor is durable. If that fails, visibility alone carries on.

use std::time::Duration;

use rand::rngs::StdRng;

use super::acknowledgements::{Acknowledgement, Acknowledgements};
use super::batch::Incoming;
use crate::ports::{Outbox, Receipt, Telemetry};
use redial_core::channel::Channel;
use redial_core::message::{Inbound, Message, QueueKind, Travel};
use redial_core::metric::Metric;
use redial_core::queue::{Outgoing, Queue};
use redial_core::recipient::Recipient;
use redial_core::route::{DelaySeconds, SQS_MAX_DELAY_SECONDS};
use redial_core::setback::{SENT_AGAIN_FROM, Setback};
use redial_core::time::{Deadline, Timestamp, Ttl};

/// Returns every message of a batch to its queue: for a worker that cannot start, because a dependency of its own is out. Returns the
/// SQS MessageIds of those that must come back.
pub async fn return_all(
    outbox: &impl Outbox,
    telemetry: &impl Telemetry,
    batch: &[Incoming],
    now: Timestamp,
    rng: StdRng,
) -> Vec<String> {
    let back = |place| (place, Acknowledgement::ComesBack(Setback::Infrastructure));
    return_some(outbox, telemetry, batch, (0..batch.len()).map(back).collect(), now, rng).await
}

/// Changes the visibility of the messages that come back, or sends them again, and returns the SQS MessageIds of those that SQS
/// must keep.
pub(super) async fn return_some(
    outbox: &impl Outbox,
    telemetry: &impl Telemetry,
    batch: &[Incoming],
    acknowledgements: Acknowledgements,
    now: Timestamp,
    mut rng: StdRng,
) -> Vec<String> {
    let mut acknowledged = vec![false; batch.len()];
    let mut receipts: Vec<(Receipt, u32)> = Vec::new();
    let mut successors = Vec::new();
    let mut failures = 0;
    for (place, acknowledgement) in acknowledgements {
        let incoming = &batch[place];
        let Acknowledgement::ComesBack(setback) = acknowledgement else {
            acknowledged[place] = true;
            continue;
        };
        failures += u64::from(setback.is_failure());
        // The body of a producer's first SQS message does not matter to when it comes back: it has no former receives.
        let is_read = incoming.receipt.kind == QueueKind::Retry || incoming.receive_count >= SENT_AGAIN_FROM;
        let inbound = is_read.then(|| incoming.read().ok()).flatten();
        let former = inbound.as_ref().and_then(travel).map_or(0, |travel| travel.receives);
        let receives = former.saturating_add(incoming.receive_count);
        let after = setback.visibility_secs(receives, now, &mut rng);
        match inbound.and_then(|inbound| successor(incoming, inbound, setback, after, now)) {
            Some(successor) => successors.push((place, after, successor)),
            None => receipts.push((incoming.receipt.clone(), after)),
        }
    }
    telemetry.count(Metric::DispatchFailures, failures);
    if !successors.is_empty() {
        let messages = successors.iter().map(|(_, _, outgoing)| outgoing.clone()).collect();
        for ((place, after, _), sent) in successors.into_iter().zip(Box::pin(outbox.send(messages)).await) {
            match sent {
                Ok(()) => acknowledged[place] = true,
                Err(error) => {
                    telemetry.infrastructure(&error);
                    receipts.push((batch[place].receipt.clone(), after));
                }
            }
        }
    }
    if !receipts.is_empty() {
        Box::pin(outbox.come_back_after(receipts)).await;
    }
    let back = batch.iter().zip(acknowledged).filter(|(_, acknowledged)| !acknowledged);
    back.map(|(incoming, _)| incoming.message_id.clone()).collect()
}

fn travel(inbound: &Inbound) -> Option<&Travel> {
    match inbound {
        Inbound::Message(_, travel) | Inbound::Recipient(_, travel) => Some(travel),
        Inbound::Release(_) | Inbound::Expand(_) | Inbound::Page(_) => None,
    }
}

/// The message that takes the place of one that comes back. Releases have none, and parts of audiences only where they rest: what
/// takes them out of their queue sends them again.
fn successor(
    incoming: &Incoming,
    inbound: Inbound,
    setback: Setback,
    after_secs: u32,
    now: Timestamp,
) -> Option<Outgoing> {
    if !setback.is_sent_again(incoming.receive_count) {
        return None;
    }
    let delay = DelaySeconds::floor(Duration::from_secs(after_secs.into()), SQS_MAX_DELAY_SECONDS);
    let rests = matches!(setback, Setback::HeldBack { .. });
    let onward = |travel: Travel| Travel {
        receives: travel.receives.saturating_add(incoming.receive_count),
        deferred_from: travel.deferred_from.or_else(|| Some(incoming.message_id.clone())),
        unrecorded: match setback {
            Setback::Unrecorded(unrecorded) => Some(unrecorded),
            Setback::NotAdmitted
            | Setback::Leased { .. }
            | Setback::HeldBack { .. }
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
            let deadline = shown_deadline(&message, &travel);
            (message.expose_travel_body(&onward(travel), deadline, now), message.tenant)
        }
        Inbound::Recipient(recipient, travel) => {
            let deadline = Ttl::UNLIMITED.deadline_from(travel.first_sent);
            (recipient.travel_body(&onward(travel), deadline, now), recipient.run.tenant)
        }
        Inbound::Expand(part) if rests => {
            return Some(part.outgoing(incoming.receipt.lane, delay));
        }
        // Its sheet is where it was left, whichever of its messages comes.
        Inbound::Page(page) => return Some(Outgoing { delay, ..page.outgoing(incoming.receipt.lane) }),
        Inbound::Release(_) | Inbound::Expand(_) => return None,
    };
    let queue = Queue::Retry(incoming.receipt.lane);
    Some(Outgoing { queue, body, delay, tenant: Some(tenant), attribute: None })
}

/// The deadline as far as the message says it itself: only for operators who look into the queue.
fn shown_deadline(message: &Message, travel: &Travel) -> Deadline {
    match (message.ttl, message.to.recipient().as_ref().map(Recipient::channel)) {
        (None, None) => Ttl::UNLIMITED.deadline_from(travel.first_sent),
        (_, channel) => message.deadline(channel.unwrap_or(Channel::WebPush), travel.first_sent),
    }
}
