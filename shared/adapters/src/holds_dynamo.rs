//! Notes on the `deliveries` table about messages that are held back ([`redial_core::ledger::hold`]).
//!
//! All notes of a batch go together. Of a delivery that was never attempted an entry is inserted, and where there is one, it is updated in
//! each state that it may be in; of one that waits for a retry the entry is updated. A statement whose condition fails is followed by the
//! next one. If none holds, a worker has gone on with the delivery, or it has ended: there is nothing to note, and the entry is read. One that has
//! expired is replaced.

use redial_core::ledger::hold::Hold;
use redial_core::ledger::{Entry, State};
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use crate::delivery_item::{Fields, entry, entry_key, found, held, in_turn, unclaimed};
use crate::retries::Patience;
use crate::table::attributes::{expiry, ms, s};
use crate::table::{Statement, Table};
use crate::{batches_dynamo, expired_entry};

pub(crate) async fn note(
    table: &Table,
    holds: &[Hold],
    now: Timestamp,
) -> Vec<Result<Option<Entry>, PortError>> {
    let mut answers = vec![Ok(None); holds.len()];
    let mut unnoted = Vec::new();
    let mut open: Vec<usize> = (0..holds.len()).collect();
    for step in 0..MOST_STEPS {
        unnoted.extend(open.extract_if(.., |at| step == steps(&holds[*at])));
        if open.is_empty() {
            break;
        }
        let statement = |place: usize| statement(table, &holds[open[place]], step, now);
        let written = table.execute(open.len(), &statement, Patience::brief()).await;
        let mut left = Vec::new();
        for (at, written) in open.iter().zip(written) {
            match written {
                Ok(true) => {}
                Ok(false) => left.push(*at),
                Err(error) => answers[*at] = Err(error),
            }
        }
        open = left;
    }
    unnoted.append(&mut open);
    let mut expired = Vec::new();
    let keys = unnoted.iter().map(|at| entry_key(&holds[*at].key)).collect();
    let stored = batches_dynamo::resolved(table, keys, Patience::brief()).await;
    for (at, stored) in unnoted.into_iter().zip(stored) {
        answers[at] = match stored.map(|item| item.as_ref().and_then(entry)) {
            Ok(Some(stored)) if stored.is_forgotten(now) => {
                expired.extend(holds[at].makes_an_entry().then_some((at, stored)));
                Ok(None)
            }
            stored => stored,
        };
    }
    let replace = |place: usize| {
        let (at, stored) = &expired[place];
        expired_entry::replace(table, fields(&holds[*at], now), stored)
    };
    let replaced = table.execute(expired.len(), &replace, Patience::brief()).await;
    for ((at, _), replaced) in expired.iter().zip(replaced) {
        // Where it is not as it was read, a copy of the message has gone on with it.
        answers[*at] = replaced.map(|_| None);
    }
    answers
}

/// An insertion, and an update in each of two states.
const MOST_STEPS: usize = 3;

fn steps(hold: &Hold) -> usize {
    hold.on().1.len() + usize::from(hold.makes_an_entry())
}

fn statement(table: &Table, hold: &Hold, step: usize, now: Timestamp) -> Statement {
    match step.checked_sub(usize::from(hold.makes_an_entry())) {
        None => insert(table, hold, now),
        Some(at) => update(table, hold, hold.on().1[at], now),
    }
}

fn insert(table: &Table, hold: &Hold, now: Timestamp) -> Statement {
    Statement::insert(table.name(), fields(hold, now))
}

fn fields(hold: &Hold, now: Timestamp) -> Fields {
    unclaimed(&hold.entry(now), Some(hold.channel))
}

fn update(table: &Table, hold: &Hold, state: State, now: Timestamp) -> Statement {
    let mut sets = vec![
        ("not_before", ms(hold.until)),
        ("held_by", held(hold.by, hold.until)),
        ("expires_at", expiry(hold.expires_at(now))),
    ];
    if hold.makes_an_entry() {
        sets.push(("state", s(State::Deferred.label())));
        sets.push(("updated_at", ms(now)));
        sets.extend(found(&hold.key, State::Deferred, now).into_iter().flatten());
    }
    let (turn, _) = hold.on();
    let mut conditions = in_turn(&hold.key, turn);
    conditions.extend(hold.content().map(|content| ("fingerprint", s(content.as_str()))));
    conditions.push(("state", s(state.label())));
    Statement::update(table.name(), sets, &[], conditions)
}

#[cfg(test)]
#[path = "holds_dynamo_tests.rs"]
mod tests;
