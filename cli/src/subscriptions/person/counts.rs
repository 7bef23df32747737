use std::collections::BTreeMap;

use redial_adapters::person_dynamo::{Found, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How much was found of each kind.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counts(BTreeMap<String, u64>);

impl Counts {
    pub(super) fn add(&mut self, found: &Found) {
        *self.0.entry(found.kind.label().to_owned()).or_default() += 1;
    }

    pub(super) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub(super) fn to_json(&self) -> Value {
        json!(self.0)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let line = |(kind, number): (&String, &u64)| {
            let is_left = Kind::from_label(kind).is_some_and(|kind| !kind.is_removed());
            let left = if is_left { ", which stays for its time" } else { "" };
            format!("  {:<18}{number}{left}", kind.replace('_', " "))
        };
        self.0.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_named() {
        let counts = Counts([("delivery".to_owned(), 3), ("tombstone".to_owned(), 1)].into());
        let lines = ["  delivery          3", "  tombstone         1, which stays for its time"];
        assert_eq!((counts.total(), counts.lines()), (4, lines.map(str::to_owned).to_vec()));
    }
}
