//! How each delivery that was accepted must have ended.

use std::collections::BTreeSet;

use redial_core::dead_letter::{DeadLetterKey, Reference};
use redial_core::identity::DeliveryKey;
use redial_core::ledger::{self, DEDUPE_WINDOW};
use redial_core::reason::Reason;
use redial_core::time::Timestamp;

use super::persons;
use super::remains::Remains;
use crate::situations::Situation;
use crate::watch::Memo;

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    for (key, sendings) in remains.accepted {
        if persons::is_about_the_erased(remains, sendings) {
            continue;
        }
        let contents: BTreeSet<u32> = sendings.iter().map(|sending| sending.content).collect();
        judge_one(key, &contents, remains, memo);
    }
}

/// What the dead letters of a delivery say: those that are there and those that were removed.
#[derive(Default)]
struct Letters {
    any: bool,
    /// One of the quarantine's.
    has_poison: bool,
    /// The same, or a body that could not be read there.
    is_poison: bool,
    has_conflict: bool,
    /// The lineages that failed.
    lineages: Vec<String>,
}

impl Letters {
    /// `ended_at`: of the id's current use. An earlier one ended long enough before for the ledger to have forgotten it.
    fn of(key: &DeliveryKey, ended_at: Timestamp, remains: &Remains<'_>, memo: &Memo) -> Self {
        let is_current = |(of, reference): &(&DeadLetterKey, &Reference)| {
            !of.letter.starts_with("lineage-")
                || Timestamp::from_ms(reference.at).plus(DEDUPE_WINDOW) >= ended_at
        };
        let letters: Vec<&DeadLetterKey> =
            memo.operators.letters(remains.state, key).filter(is_current).map(|(letter, _)| letter).collect();
        // What was sent again has another end.
        let is_kept = |of: &&&DeadLetterKey| !memo.operators.sent_again.contains(**of);
        let has_poison = letters.iter().filter(is_kept).any(|of| of.letter.starts_with("poison-"));
        let lineages = letters.iter().filter_map(|of| of.letter.strip_prefix("lineage-"));
        Self {
            any: !letters.is_empty(),
            has_poison,
            is_poison: has_poison || memo.facts.kept_raw.contains_key(key),
            has_conflict: letters.iter().any(|of| of.letter.starts_with("conflict-")),
            lineages: lineages.map(str::to_owned).collect(),
        }
    }
}

/// Judges the end of one delivery, which was accepted with these contents.
pub(super) fn judge_one(key: &DeliveryKey, contents: &BTreeSet<u32>, remains: &Remains<'_>, memo: &mut Memo) {
    let Remains { state, events, .. } = *remains;
    let known = || state.known(key);
    // What counts as absent is as it was: its batch may have been deleted before it.
    let current = known().filter(|entry| !entry.is_forgotten(state.now));
    let stored = current.or_else(|| memo.forgotten.get(key).cloned()).or_else(known);
    let ended_at = stored.as_ref().map_or(Timestamp::default(), |entry| entry.updated_at);
    let Letters { any, has_poison, is_poison, has_conflict, lineages } =
        Letters::of(key, ended_at, remains, memo);
    if any {
        memo.situations.saw(Situation::DeadLetter);
    }
    let is_announced = |end: ledger::State| {
        events.iter().any(|event| {
            event["tenant"] == key.tenant.as_str()
                && event["id"] == key.id.as_str()
                && event["state"] == end.label()
        })
    };
    let Some(entry) = stored.clone().filter(|entry| entry.state.is_terminal()) else {
        // Who kept what it could not read did not know the id for an event.
        if has_poison && !is_announced(ledger::State::Failed) {
            memo.violated(format!("{key} was taken out of its queue, and no event says so"));
        }
        let stands_at = stored.map_or("nothing", |entry| entry.state.label());
        // What could not be read in the quarantine never came to the ledger.
        if !is_poison {
            memo.violated(format!("{key} was lost: it stands at {stands_at}"));
        } else if has_poison {
            memo.violated(format!("{key} was kept as poison, and the ledger says {stands_at}"));
        }
        return;
    };
    let end = entry.state;
    let lineage = entry.turn.lineage.0;
    let of_lineage = lineages.iter().filter(|it| **it == lineage.to_string()).count();
    if lineages.len() as u64 > u64::from(lineage) + 1 {
        memo.violated(format!("{key} has {} dead letters in {} lineages", lineages.len(), lineage + 1));
    }
    // The hand-off of an end may be left to a message that was kept unread.
    let is_kept_raw = memo.facts.kept_raw.get(key).is_some_and(|turns| turns.contains(&entry.turn));
    if !is_announced(end) && !is_kept_raw {
        memo.violated(format!("{key} ended as {}, and no event says so", end.label()));
    }
    if end == ledger::State::Gone && of_lineage == 0 && !is_poison {
        memo.violated(format!("{key} is gone, and no reference says so"));
    }
    let posts = memo.posts.get(key).map_or(&[][..], Vec::as_slice);
    let may_have_arrived = posts.iter().any(|post| post.is_swallowed) || memo.shaken.contains(key);
    if entry.reason == Some(Reason::InDoubtNotRetried) && !may_have_arrived {
        memo.violated(format!("{key} ended in doubt, and every outcome of it was known"));
    }
    // What was redriven before it was handed off has the quarantine's dead letter instead.
    if end == ledger::State::Failed && of_lineage != 1 && !(is_poison && of_lineage == 0) {
        memo.violated(format!("{key} failed, and has {of_lineage} dead letters"));
    }
    if entry.reason == Some(Reason::Poison) && of_lineage > 0 {
        memo.violated(format!("{key} was kept as poison, and has another dead letter of its lineage"));
    }
    if end == ledger::State::Sent && of_lineage > 0 {
        memo.violated(format!("{key} was sent, and has a dead letter"));
    }
    if end == ledger::State::Sent && !memo.posts.contains_key(key) {
        memo.violated(format!("{key} counts as sent, and was never posted"));
    }
    let posted: BTreeSet<u32> = memo.posts.get(key).into_iter().flatten().map(|post| post.content).collect();
    // Contents under two keys of hashes cannot be compared.
    let is_rotated = memo.facts.is_rotated;
    if posted.len() > 1 && !is_rotated {
        memo.violated(format!("{key} was posted with {} contents", posted.len()));
    }
    if contents.len() > 1 && !is_poison && !is_rotated && !has_conflict {
        memo.violated(format!("{key} was sent with {} contents, and no dead letter says so", contents.len()));
    }
}
