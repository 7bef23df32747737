//! What browsers acknowledged, and were answered.

use redial_core::page::Position;
use redial_core::time::Timestamp;
use redial_memory::Row;

use super::remains::Remains;
use crate::watch::Memo;

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let mut broken = Vec::new();
    for (key, event) in &memo.acks.answered {
        let label = event.label();
        let state = remains.state;
        let is_kept = if Position::of(key).is_some() {
            // As long as its token may acknowledge more.
            let end = memo.acks.ends.get(key).copied().unwrap_or_default();
            state.acks_apart.get(key).is_some_and(|(until, first)| first.contains_key(event) && end <= *until)
        } else {
            state.acknowledged.contains_key(&(key.clone(), *event))
        };
        if !is_kept {
            broken.push(format!("{key} was {label}, and the ledger has lost it"));
        }
        let announced = remains.events.iter().any(|it| {
            it["tenant"] == key.tenant.as_str() && it["id"] == key.id.as_str() && it["state"] == label
        });
        if !announced {
            broken.push(format!("{key} was {label}, and no event says so"));
        }
    }
    broken.into_iter().for_each(|what| memo.violated(what));
}

impl Memo {
    /// A row that expired is deleted, and what it holds of acknowledgements with it: not before their token ends.
    pub(crate) fn loses_acks(&mut self, row: &Row, now: Timestamp) {
        let (Row::Entry(key) | Row::Acks(key)) = row else { return };
        // What was acknowledged of a recipient of a page does not go with its entry.
        if matches!(row, Row::Entry(_)) && Position::of(key).is_some() {
            return;
        }
        let is_shown = self.acks.answered.iter().any(|(of, _)| of == key);
        if is_shown && self.acks.ends.get(key).is_some_and(|end| now < *end) {
            self.violated(format!("what was acknowledged of {key} is forgotten before its token ends"));
        }
        self.acks.answered.retain(|(of, _)| of != key);
    }
}
