//! The index by state in memory: it shows the ledger as it was a moment ago, and its keys are read in the ledger after that.

use std::collections::{BTreeMap, BTreeSet};

use redial_core::identity::DeliveryKey;
use redial_core::ledger::Entry;
use redial_core::ledger::listing::{Listing, Position, partition_of, partitions};
use redial_core::time::Timestamp;

/// The entries of the index as they were at a time: sort keys, by their partitions.
#[derive(Debug)]
pub struct ByState {
    pub as_of: Timestamp,
    rows: BTreeMap<String, BTreeSet<String>>,
}

impl ByState {
    pub(crate) fn of<'e>(
        entries: impl Iterator<Item = (&'e DeliveryKey, &'e Entry)>,
        as_of: Timestamp,
    ) -> Self {
        let mut rows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (key, entry) in entries.filter(|(_, entry)| entry.state.is_listed()) {
            let position = Position { at: entry.updated_at, id: key.id.clone() };
            rows.entry(partition_of(key, entry.state)).or_default().insert(position.to_sort());
        }
        Self { as_of, rows }
    }

    /// The keys of a page, the latest first, and where the next one begins.
    pub(crate) fn page(&self, listing: &Listing) -> (Vec<DeliveryKey>, Option<Position>) {
        let names = listing.filter.states().iter().flat_map(|of| partitions(&listing.tenant, *of));
        let rows = names.filter_map(|name| self.rows.get(&name)).flatten();
        let found = rows
            .filter_map(|row| Position::of_sort(row))
            .filter(|it| it.at >= listing.since && listing.after.as_ref().is_none_or(|after| it < after));
        listing.page(found.collect())
    }
}
