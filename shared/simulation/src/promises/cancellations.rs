//! What was answered as cancelled stays so: it is never both sent and cancelled, and no attempt is begun after the answer.

use redial_core::identity::DeliveryKey;
use redial_core::ledger::cancel::Cancelled;
use redial_core::ledger::{Cancellation, State};
use redial_memory::State as Stored;

use super::remains::Remains;
use crate::situations::Situation;
use crate::watch::Memo;

impl Memo {
    /// What a caller is answered who cancels a delivery.
    pub(crate) fn answers_about(&mut self, key: &DeliveryKey, answer: Cancellation, stored: &Stored) {
        let before = self.cancelled.get(key).copied();
        match answer {
            Cancellation::Cancelled(cancelled) => {
                self.situations.saw(match cancelled {
                    Cancelled { is_known: false, .. } => Situation::CancelledUnseen,
                    Cancelled { in_doubt: true, .. } => Situation::CancelledInDoubt,
                    Cancelled { .. } => Situation::Cancelled,
                });
                let same = |it: &Cancelled| (it.at, it.in_doubt) == (cancelled.at, cancelled.in_doubt);
                if before.is_some_and(|before| !same(&before)) {
                    self.violated(format!("the cancellation of {key} was answered in two ways"));
                }
                if !cancelled.is_known && self.posts.contains_key(key) {
                    self.violated(format!(
                        "{key} was posted, and was cancelled as one that no worker has seen"
                    ));
                }
                self.ended.insert((key.clone(), State::Cancelled));
                self.cancelled.entry(key.clone()).or_insert(cancelled);
            }
            Cancellation::BeingAttempted { .. } | Cancellation::Ended(_) | Cancellation::OnPage => {
                if before.is_some() {
                    self.violated(format!("{key} was cancelled, and later the answer was {answer:?}"));
                }
            }
        }
        match answer {
            Cancellation::BeingAttempted { .. } => self.situations.saw(Situation::NotCancelled),
            Cancellation::Ended(state) => {
                let is_so = stored.known(key).is_some_and(|entry| entry.state == state);
                if !is_so && !self.ended.contains(&(key.clone(), state)) {
                    self.violated(format!("{key} was not cancelled for an end that it has not: {state}"));
                }
            }
            Cancellation::Cancelled(_) | Cancellation::OnPage => {}
        }
    }
}

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let mut broken = Vec::new();
    for (key, Cancelled { in_doubt, .. }) in &memo.cancelled {
        let entry = remains.state.known(key).or_else(|| memo.forgotten.get(key).cloned());
        let Some(entry) = entry.filter(|entry| entry.state == State::Cancelled) else {
            broken.push(format!("{key} was answered as cancelled, and the ledger says another thing"));
            continue;
        };
        if memo.ended_early.contains(key) {
            continue;
        }
        // A lineage before a replay has an end of its own.
        let is_first = entry.turn.lineage.0 == 0 && !memo.operators.replayed.contains_key(key);
        let other = memo.ended.iter().find(|(of, state)| of == key && *state != State::Cancelled);
        if let Some((_, state)) = other.filter(|_| is_first) {
            broken.push(format!("{key} was cancelled, and had ended as {state}"));
        }
        let announced = remains.events.iter().filter(|event| {
            event["tenant"] == key.tenant.as_str()
                && event["id"] == key.id.as_str()
                && State::from_label(event["state"].as_str().unwrap_or_default()).is_some()
        });
        let mut others = announced.filter(|event| event["state"] != State::Cancelled.label());
        if let Some(event) = others.next().filter(|_| is_first) {
            broken.push(format!("{key} was cancelled, and announced as {}", event["state"]));
        }
        let posts = memo.posts.get(key).into_iter().flatten();
        let mut of_lineage = posts.filter(|post| post.turn.lineage == entry.turn.lineage);
        let may_have_arrived = memo.facts.accepted.contains(key) || of_lineage.any(|post| post.is_swallowed);
        if may_have_arrived && !in_doubt && is_first {
            broken.push(format!("{key} was cancelled without a doubt, and may have arrived"));
        }
    }
    broken.into_iter().for_each(|what| memo.violated(what));
}
