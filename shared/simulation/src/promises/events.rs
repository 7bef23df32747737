//! Events say what the ledger has.

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
        if super::callbacks::is_of_one(key.id.as_str()) {
            return self.violated(format!("{key} posted an event, and its own end was announced"));
        }
        if !state.is_terminal() {
            return self.violated(format!("{key} was announced as {}, which is no end", state.label()));
        }
        let entry = ledger.known(&key).filter(|entry| entry.state == *state);
        let is_stored = entry.is_some();
        // A replay has an end of its own, which may be the same with another reason.
        let own = entry.filter(|entry| entry.turn.lineage.0 == 0 && *state == State::Failed);
        let recorded = own.map(|entry| entry.reason.map_or("", Reason::label));
        if let Some(recorded) = recorded.filter(|reason| *reason != text("reason")) {
            let announced = text("reason");
            self.violated(format!("{key} was announced as {announced}, and the ledger says {recorded}"));
        }
        let end = (key.clone(), *state);
        let is_known = is_stored || self.ended.contains(&end) || self.carried_ends.contains(&end);
        if !is_known {
            self.violated(format!(
                "{key} was announced as {}, and the ledger does not have that end",
                state.label()
            ));
        }
    }
}
