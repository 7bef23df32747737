//! What an operator confirmed as gone is removed and announced. That it is removed, and that the rest of a quarantine stays, is what
//! [`super::storage`] judges.

use redial_core::identity::SubscriptionKey;
use redial_core::reason::Reason;

use super::remains::Remains;
use crate::watch::Memo;

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let confirmed = memo.facts.confirmed.iter().filter(|(_, has_returned)| !**has_returned);
    let unannounced: Vec<String> = confirmed
        .filter(|(key, _)| !is_announced(remains, key))
        .map(|(key, _)| format!("{key} was confirmed as gone and removed, and no event says so"))
        .collect();
    unannounced.into_iter().for_each(|violation| memo.violated(violation));
}

fn is_announced(remains: &Remains<'_>, key: &SubscriptionKey) -> bool {
    remains.events_of(key, "pruned").any(|event| event["reason"] == Reason::Gone.label())
}
