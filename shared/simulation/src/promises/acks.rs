//! What browsers acknowledged, and were answered.

use super::remains::Remains;
use crate::watch::Memo;

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let mut broken = Vec::new();
    for (key, event) in &memo.acks.answered {
        let label = event.label();
        if !remains.state.acknowledged.contains_key(&(key.clone(), *event)) {
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
