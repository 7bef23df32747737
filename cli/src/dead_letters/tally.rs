//! Counts by tenant and reason.

use std::collections::BTreeMap;

use redial_core::dead_letter::Reference;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How many letters there are of each tenant and reason.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tally(BTreeMap<String, BTreeMap<String, u64>>);

impl Tally {
    pub(super) fn add(&mut self, reference: &Reference) {
        let of_tenant = self.0.entry(reference.tenant.clone()).or_default();
        *of_tenant.entry(reference.reason.clone()).or_default() += 1;
    }

    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.0.values().flat_map(BTreeMap::values).sum()
    }

    /// So many of that tenant and reason.
    pub(super) fn of(&self, tenant: &str, reason: &str) -> u64 {
        self.0.get(tenant).and_then(|it| it.get(reason)).copied().unwrap_or(0)
    }

    /// Tenant, reason and number, by name.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.0.iter().flat_map(|(tenant, reasons)| {
            reasons.iter().map(move |(reason, number)| (tenant.as_str(), reason.as_str(), *number))
        })
    }

    /// `{"acme": {"poison": 3}}`.
    pub(crate) fn to_json(&self) -> Value {
        json!(self.0)
    }
}
