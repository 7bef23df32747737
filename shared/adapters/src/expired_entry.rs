//! Entries that have expired and are still in the `deliveries` table: they count as absent, and what is new replaces all of them.

use redial_core::ack::AckEvent;
use redial_core::ledger::Entry;

use crate::acks_dynamo;
use crate::delivery_item::{ATTEMPTS, DISPATCHED, FOUND, Fields, GIVEN, in_turn, is_set};
use crate::table::attributes::{expiry, s};
use crate::table::{Statement, Table};

/// The attributes that not every entry has, besides those of [`GIVEN`], its history and its place in the index by state.
const OF_SOME: [&str; 13] = [
    "channel",
    "reason",
    "status",
    "not_sent",
    "provider_word",
    "headers",
    "not_before",
    "held_by",
    "in_doubt",
    "endpoint_hash",
    "subscription",
    "place",
    DISPATCHED,
];

/// Writes a new entry in place of this one, if that is still there as it was read.
pub(crate) fn replace(table: &Table, fresh: Fields, expired: &Entry) -> Statement {
    let mut sets = fresh;
    sets.retain(|(name, _)| *name != "pk");
    let acks = AckEvent::ALL.map(acks_dynamo::attribute);
    let mut removes: Vec<&str> =
        ATTEMPTS.into_iter().chain(acks).chain(OF_SOME).chain(FOUND).chain(GIVEN).collect();
    removes.retain(|name| !is_set(&sets, name));
    // Its state may be as the batch has it that lists its attempt, and not the item's own.
    let mut conditions = in_turn(&expired.key, expired.turn);
    conditions.push(("lease_token", s(&expired.lease_token)));
    conditions.push(("expires_at", expiry(expired.expires_at)));
    Statement::update(table.name(), sets, &removes, conditions)
}
