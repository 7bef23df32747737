//! Events say what the ledger has.

use redial_core::identity::{DeliveryId, DeliveryKey, Tenant};
use redial_core::ledger::State;
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
        let is_stored = ledger.known(&key).is_some_and(|entry| entry.state == *state);
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
