//! How each delivery that was accepted must have ended.

use std::collections::BTreeSet;

use redial_core::dead_letter::DeadLetterKey;
use redial_core::ledger;

use super::Remains;
use crate::situations::Situation;
use crate::watch::Memo;

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let Remains { state, events, accepted, .. } = *remains;
    for (key, sendings) in accepted {
        let letters: Vec<&DeadLetterKey> =
            memo.operators.letters(state, key).map(|(letter, _)| letter).collect();
        // What was sent again has another end.
        let is_kept = |of: &&&DeadLetterKey| !memo.operators.sent_again.contains(**of);
        let is_poison = letters.iter().filter(is_kept).any(|of| of.letter.starts_with("poison-"));
        let has_conflict = letters.iter().any(|of| of.letter.starts_with("conflict-"));
        let lineages: Vec<&str> =
            letters.iter().filter_map(|of| of.letter.strip_prefix("lineage-")).collect();
        if !letters.is_empty() {
            memo.situations.saw(Situation::DeadLetter);
        }
        let Some(entry) = state.ledger.get(key) else {
            if !is_poison {
                memo.violated(format!("{key} was lost: the ledger does not know it"));
            }
            continue;
        };
        let end = entry.state;
        let lineage = entry.turn.lineage.0;
        let of_lineage = lineages.iter().filter(|it| **it == lineage.to_string()).count();
        if lineages.len() as u64 > u64::from(lineage) + 1 {
            memo.violated(format!("{key} has {} dead letters in {} lineages", lineages.len(), lineage + 1));
        }
        if !end.is_terminal() {
            if !is_poison {
                memo.violated(format!("{key} was lost: it stands at {}", end.label()));
            }
            continue;
        }
        let events = events.iter().filter(|event| {
            event["tenant"] == key.tenant.as_str()
                && event["id"] == key.id.as_str()
                && event["state"] == end.label()
        });
        if events.count() == 0 {
            memo.violated(format!("{key} ended as {}, and no event says so", end.label()));
        }
        // What was redriven before it was handed off has the quarantine's dead letter instead.
        if end == ledger::State::Failed && of_lineage != 1 && !(is_poison && of_lineage == 0) {
            memo.violated(format!("{key} failed, and has {of_lineage} dead letters"));
        }
        if end == ledger::State::Sent && of_lineage > 0 {
            memo.violated(format!("{key} was sent, and has a dead letter"));
        }
        if end == ledger::State::Sent && !memo.posts.contains_key(key) {
            memo.violated(format!("{key} counts as sent, and was never posted"));
        }
        let contents: BTreeSet<u32> = sendings.iter().map(|sending| sending.content).collect();
        let posted: BTreeSet<u32> =
            memo.posts.get(key).into_iter().flatten().map(|post| post.content).collect();
        if posted.len() > 1 {
            memo.violated(format!("{key} was posted with {} contents", posted.len()));
        }
        if contents.len() > 1 && !is_poison && !has_conflict {
            memo.violated(format!(
                "{key} was sent with {} contents, and no dead letter says so",
                contents.len()
            ));
        }
    }
}
