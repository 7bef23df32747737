//! What operators sent again.

use super::remains::Remains;
use crate::watch::Memo;

/// A replay has an end of its own: that of its lineage, or of a later one.
pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let mut broken = Vec::new();
    for (key, lineage) in &memo.operators.replayed {
        // Its row may have been deleted since.
        let entry = remains.state.ledger.get(key).or_else(|| memo.forgotten.get(key).cloned());
        let reached = entry.map_or(0, |entry| entry.turn.lineage.0);
        let poison = memo
            .operators
            .letters(remains.state, key)
            .any(|(letter, reference)| letter.letter.starts_with("poison-") && reference.lineage >= *lineage);
        // What was cancelled is not sent again.
        let is_cancelled = memo.cancelled.contains_key(key);
        if reached < *lineage && !poison && !is_cancelled {
            broken.push(format!("the replay {lineage} of {key} was lost: the ledger stands at {reached}"));
        }
    }
    broken.into_iter().for_each(|what| memo.violated(what));
}
