//! From a dead letter to the message that is sent, or the reason why none is.
//!
//! The stored message is sent as the next lineage of the same id, at its first attempt. If the same dead letter is sent twice, both
//! have the same turn, and the ledger drops one.
//!
//! A body counts as absent once its message's TTL is over, although it stays in the store until the next hourly sweep. An operator who
//! restarts the TTL says that the message is still worth sending, so for that command such a body is present, for as long as the store
//! has it and its dead letter is kept. A body that was kept for a time of its own is absent after that time for every command.

use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::dead_letter::{Kind, Reference};
use crate::identity::{Attempt, Turn};
use crate::lane::Lane;
use crate::message::{Inbound, Message, QueueKind, Travel, parse};
use crate::reason::Reason;
use crate::time::Timestamp;

/// What a replay may do beyond the default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Permissions {
    /// Restarts each message's TTL, also of a body that counts as absent because the TTL is over.
    pub refresh_ttl: bool,
    /// Also sends what was replayed before.
    pub again: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    AboutAnEndpoint,
    IdConflict,
    ReplayedBefore,
    BodyAbsent,
    TtlOver,
    NoMessage,
}

/// A dead letter's body in the store.
#[derive(Clone, Copy)]
pub struct Stored<'a> {
    /// Never log it.
    pub body: &'a str,
    /// `None` where it is unknown.
    pub lane: Option<Lane>,
    /// From then on it counts as absent, though it stays until the next sweep.
    pub absent_from: Timestamp,
    /// When its dead letter expires; the store may remove it later.
    pub kept_until: Timestamp,
}

/// Whether a dead letter's body is worth reading.
pub fn worth_reading(reference: &Reference, was_replayed: bool, may: Permissions) -> Result<(), Skip> {
    match reference.kind {
        Kind::Gone | Kind::NotFound => Err(Skip::AboutAnEndpoint),
        Kind::Failed if reference.reason() == Some(Reason::IdConflict) => Err(Skip::IdConflict),
        Kind::Failed if was_replayed && !may.again => Err(Skip::ReplayedBefore),
        Kind::Failed => Ok(()),
    }
}

/// A message to send again.
pub struct Replay {
    /// It goes to this lane's retry queue.
    pub lane: Lane,
    pub message: Message,
    /// What is sent. Never log it.
    pub body: String,
}

/// What to send at `now`.
pub fn replay(
    reference: &Reference,
    stored: Option<Stored<'_>>,
    may: Permissions,
    now: Timestamp,
) -> Result<Replay, Skip> {
    let stored = stored.ok_or(Skip::BodyAbsent)?;
    let is_absent = stored.absent_from <= now;
    let nothing = if is_absent { Skip::BodyAbsent } else { Skip::NoMessage };
    let (message, travel) = read(reference, stored.body).ok_or(nothing)?;
    // A body that no worker could parse has no channel, and is kept for a day whatever its TTL.
    let labelled = Channel::from_label(&reference.channel);
    let channel = labelled.or(message.to.channel()).unwrap_or(Channel::WebPush);
    if is_absent {
        // Only a TTL can restart. All other bodies are absent after their time.
        let ends_with_its_ttl =
            labelled.is_some() && message.deadline(channel, travel.first_sent).is_limited();
        if !ends_with_its_ttl || stored.kept_until <= now {
            return Err(Skip::BodyAbsent);
        }
        if !may.refresh_ttl {
            return Err(Skip::TtlOver);
        }
    }
    let first_sent = if may.refresh_ttl { now } else { travel.first_sent };
    let deadline = message.deadline(channel, first_sent);
    if deadline.is_over(now, 0) {
        return Err(Skip::TtlOver);
    }
    let turn = Turn { lineage: travel.turn.lineage.next(), attempt: Attempt::FIRST };
    let body = message.expose_travel_body(&Travel::to(turn, first_sent), deadline, now);
    // Dead letters of earlier releases and of poison messages do not name a lane.
    let lane = stored.lane.unwrap_or(message.class.lane());
    Ok(Replay { lane, message, body })
}

/// A body is a travelling message, or, if it was never parsed, what the producer wrote.
fn read(reference: &Reference, body: &str) -> Option<(Message, Travel)> {
    let first_sent = Timestamp::from_ms(reference.first_sent);
    let read = |kind| match parse(body, kind, &reference.id, first_sent) {
        Ok(Inbound::Message(message, travel)) => Some((*message, travel)),
        Ok(Inbound::Release(_) | Inbound::Expand(_) | Inbound::Page(_) | Inbound::Recipient(..)) | Err(_) => {
            None
        }
    };
    read(QueueKind::Retry).or_else(|| read(QueueKind::Ingest))
}
