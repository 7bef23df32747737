//! Events say what the ledger has.

use redial_core::dead_letter::Reference;
use redial_core::identity::{DeliveryId, DeliveryKey, Tenant};
use redial_core::ledger::State;
use redial_core::reason::Reason;
use serde_json::Value;

use crate::watch::Memo;

impl Memo {
    /// An event that goes to producers: that of a delivery is of an end that the ledger has.
    pub(crate) fn announces(&mut self, event: &Value, ledger: &redial_memory::State) {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        let (Some(tenant), Some(id)) = (Tenant::parse(text("tenant")), DeliveryId::parse(text("id"))) else {
            return;
        };
        let Some(state) = State::ALL.iter().find(|state| state.label() == text("state")) else { return };
        let key = DeliveryKey { tenant, id };
        if !state.is_terminal() {
            return self.violated(format!("{key} was announced as {}, which is no end", state.label()));
        }
        let is_stored = ledger.ledger.get(&key).is_some_and(|entry| entry.state == *state);
        let end = (key.clone(), *state);
        let is_known = is_stored || self.ended.contains(&end) || self.carried_ends.contains(&end);
        let is_poison = text("reason") == Reason::Poison.label();
        let is_left = is_poison && self.was_redriven_before_its_hand_off(&key, ledger);
        if !is_known && !is_left {
            self.violated(format!(
                "{key} was announced as {}, and the ledger does not have that end",
                state.label()
            ));
        }
    }

    /// What was redriven before it was handed off is poison, and the ledger has its retry, or that it was expanded. Another worker may hand
    /// it off meanwhile: then it has a later turn.
    fn was_redriven_before_its_hand_off(&self, key: &DeliveryKey, ledger: &redial_memory::State) -> bool {
        let Some(entry) = ledger.ledger.get(key) else { return false };
        let is_earlier =
            |kept: &Reference| (kept.lineage, kept.attempts) < (entry.turn.lineage.0, entry.turn.attempt.0);
        let mut letters = self.operators.letters(ledger, key).filter_map(|(_, kept)| kept);
        let is_poison = |kept: &Reference| kept.letter.starts_with("poison-");
        matches!(entry.state, State::Retrying | State::Expanded)
            || letters.any(|kept| is_poison(kept) && is_earlier(kept))
    }
}
