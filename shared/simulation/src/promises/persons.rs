//! When a person's erasure is done, nothing about it is stored, whatever was under way, and nothing comes back later.

use redial_core::identity::SubscriptionKey;
use redial_memory::State;
use serde_json::Value;

use super::remains::Remains;
use crate::scenario::focus::Focus;
use crate::scenario::messages::Sending;
use crate::scenario::persons::{ERASED, REF};
use crate::watch::Memo;

/// Whether these are messages to the person that is erased: how they end depends on when.
pub(super) fn is_about_the_erased(remains: &Remains<'_>, sendings: &[Sending]) -> bool {
    remains.scenario.focus == Some(Focus::Erased) && sendings.iter().any(|it| it.receiver == ERASED)
}

/// Whether a message says that it is to the person, or has its `ref`.
fn is_in(body: &str) -> bool {
    let read: Value = serde_json::from_str(body).unwrap_or_default();
    read["ref"] == REF || read["to"]["subscription"] == format!("r{ERASED}")
}

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    if remains.scenario.focus == Some(Focus::Erased) && remains.state.erasures_done.is_empty() {
        memo.violated("a person was to be erased, and that is not done".to_owned());
    }
}

impl Memo {
    /// Looks for a person whose erasure is done.
    pub(crate) fn looks_for_the_erased(&mut self, state: &State) {
        if state.erasures_done.is_empty() {
            return;
        }
        for what in left(state) {
            self.violated(format!("a person was erased, and is in {what}"));
        }
    }
}

/// What is stored of the person.
fn left(state: &State) -> Vec<String> {
    let is_its = |tenant: &str, id: Option<&str>| tenant == "acme" && id == Some(&*format!("r{ERASED}"));
    let mut left = Vec::new();
    for SubscriptionKey { tenant, id } in state.subscriptions.keys() {
        if is_its(tenant.as_str(), Some(id.as_str())) {
            left.push("its subscription".to_owned());
        }
    }
    for entry in state.ledger.values() {
        let id = entry.subscription.as_ref().map(|id| id.as_str());
        if is_its(entry.key.tenant.as_str(), id) {
            left.push(format!("the entry of {}, {}", entry.key, entry.state));
        }
    }
    for (key, _) in state.bodies.iter().filter(|(_, body)| is_in(&body.body)) {
        left.push(format!("the body of the dead letter {} of {}", key.letter, key.id));
    }
    for (key, reference) in &state.described {
        if is_its(&reference.tenant, reference.subscription.as_deref()) {
            left.push(format!("the description of the dead letter {} of {}", key.letter, key.id));
        }
    }
    left.extend(
        state.parked.values().filter(|it| is_in(&it.body)).map(|_| "a message that waits".to_owned()),
    );
    left
}
