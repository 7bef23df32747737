//! Each event of a tenant is posted to its callback, as a delivery like any other, whose own end is no event.

use std::collections::BTreeSet;

use redial_core::dead_letter::Reference;
use redial_core::identity::Tenant;
use redial_core::reason::Reason;
use serde_json::Value;

use super::remains::Remains;
use crate::address;
use crate::scenario::TENANTS;
use crate::watch::Memo;

/// What the ids of deliveries begin with that post events: infra/docs/events.md.
const PREFIX: &str = "callback-";

/// Whether a delivery of that id posts an event.
pub(super) fn is_of_one(id: &str) -> bool {
    id.starts_with(PREFIX)
}

impl Memo {
    /// A POST arrives at a tenant's callback.
    pub(crate) fn is_called_back(&mut self, endpoint: &str, payload: &[u8], status: Option<u16>) {
        let event: Value = match serde_json::from_slice(payload) {
            Ok(event) => event,
            Err(_) => return self.violated(format!("what is no event was posted to {endpoint}")),
        };
        let tenant = event["tenant"].as_str().unwrap_or_default().to_owned();
        if endpoint != address::callback(&tenant) {
            self.violated(format!("an event of {tenant} was posted to {endpoint}"));
        }
        if event["id"].as_str().is_some_and(is_of_one) {
            self.violated(format!("an event of {tenant} about the POST of an event was posted"));
        }
        if status.is_some_and(|status| (200..=299).contains(&status)) {
            self.callbacks.accepted.insert((tenant, event.to_string()));
        }
    }
}

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    if !remains.scenario.calls_back {
        return;
    }
    let is_conflict = |it: &&Reference| is_of_one(&it.id) && it.reason() == Some(Reason::IdConflict);
    for reference in remains.state.described.values().filter(is_conflict) {
        memo.violated(format!("{} posts an event, and counts as another content of itself", reference.id));
    }
    for tenant in TENANTS {
        let of_tenant = |event: &&Value| event["tenant"] == tenant;
        let events: BTreeSet<String> =
            remains.events.iter().filter(of_tenant).map(Value::to_string).collect();
        let own = Tenant::parse(tenant);
        let entries = remains.state.ledger.values();
        let (mut posted, mut failed) = (0, 0);
        for entry in
            entries.filter(|it| Some(&it.key.tenant) == own.as_ref() && is_of_one(it.key.id.as_str()))
        {
            posted += 1;
            if !entry.state.is_terminal() {
                memo.violated(format!("{} posts an event, and stands at {}", entry.key, entry.state));
            }
            // What its webhook did not take, or no worker, has its dead letter; of what it never answered there is no status.
            let is_kept = matches!(entry.reason, Some(Reason::Poison | Reason::RetriesExhausted));
            failed += usize::from(entry.state.label() != "sent" && (entry.status.is_some() || is_kept));
        }
        let is_missing =
            |event: &&String| !memo.callbacks.accepted.contains(&(tenant.to_owned(), (*event).clone()));
        let missing: Vec<&String> = events.iter().filter(is_missing).collect();
        if missing.len() > failed {
            let (count, first) = (missing.len(), missing[0]);
            memo.violated(format!(
                "{count} events of {tenant} were not posted to its callback, such as {first}"
            ));
        }
        if posted > events.len() {
            memo.violated(format!("{posted} deliveries post the {} events of {tenant}", events.len()));
        }
    }
}
