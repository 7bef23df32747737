//! Counts by tenant and reason.

use std::collections::BTreeMap;

use redial_core::dead_letter::Reference;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::table::{Column, Table};

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally(BTreeMap<String, BTreeMap<String, u64>>);

impl Tally {
    pub(super) fn add(&mut self, reference: &Reference) {
        let of_tenant = self.0.entry(reference.tenant.clone()).or_default();
        *of_tenant.entry(reference.reason.clone()).or_default() += 1;
    }

    pub(super) fn total(&self) -> u64 {
        self.0.values().flat_map(BTreeMap::values).sum()
    }

    fn of(&self, tenant: &str, reason: &str) -> u64 {
        self.0.get(tenant).and_then(|it| it.get(reason)).copied().unwrap_or(0)
    }

    fn rows(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.0.iter().flat_map(|(tenant, reasons)| {
            reasons.iter().map(move |(reason, number)| (tenant.as_str(), reason.as_str(), *number))
        })
    }

    /// `{"acme": {"poison": 3}}`.
    pub(super) fn to_json(&self) -> Value {
        json!(self.0)
    }
}

/// A table by tenant and reason; `ready` adds a column with the dead letters that would be sent.
pub(super) fn counts(found: &Tally, ready: Option<&Tally>) -> Vec<String> {
    let rows = found.rows().map(|(tenant, reason, number)| {
        let ready = ready.map_or(String::new(), |ready| ready.of(tenant, reason).to_string());
        [tenant.to_owned(), reason.to_owned(), number.to_string(), ready]
    });
    let to_be_sent = if ready.is_some() { "TO BE SENT" } else { "" };
    let numbers = ["DEAD LETTERS", to_be_sent].map(Column::number);
    Table::new(["TENANT", "REASON"].map(Column::text).into_iter().chain(numbers)).with(rows).lines()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters::described_tests::described;

    #[test]
    fn counts_are_aligned() {
        let mut found = Tally::default();
        (0..12).for_each(|_| found.add(&described().reference));
        let mut ready = Tally::default();
        ready.add(&described().reference);
        assert_eq!(
            counts(&found, Some(&ready)),
            [
                "TENANT  REASON             DEAD LETTERS  TO BE SENT",
                "acme    retries_exhausted            12           1",
            ]
        );
        assert_eq!(counts(&found, None)[0], "TENANT  REASON             DEAD LETTERS");
    }
}
