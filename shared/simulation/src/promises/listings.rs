//! Who asks for deliveries by their state finds each of them once, and none that has gone on since.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redial_core::identity::DeliveryKey;
use redial_core::ledger::listing::Filter;
use redial_core::ledger::{Entry, State};

use crate::situations::Situation;
use crate::watch::Memo;

/// What waits for a second more than SQS delays is parked: its API reference, and not what the code says.
const PARKED_FROM: Duration = Duration::from_secs(901);

/// What was asked for, and what was found.
pub(crate) struct Listings<'a> {
    pub(crate) filter: Filter,
    /// What the ledger has of that tenant.
    pub(crate) entries: &'a [Entry],
    pub(crate) listed: &'a [(DeliveryKey, State)],
    /// Whether the index was not behind.
    pub(crate) is_current: bool,
}

/// Whether an entry is what is asked for: infra/docs/http-api.md, and not what the code says.
fn is_wanted(filter: Filter, entry: &Entry) -> bool {
    let waits = || entry.not_before.map_or(Duration::ZERO, |until| until.since(entry.updated_at));
    match filter {
        Filter::Retrying => entry.state == State::Retrying,
        Filter::Parked => matches!(entry.state, State::Retrying | State::Deferred) && waits() >= PARKED_FROM,
        Filter::Deferred => entry.state == State::Deferred,
        Filter::Gone => entry.state == State::Gone,
        Filter::Expired => entry.state == State::Expired,
        Filter::Failed => entry.state == State::Failed,
        Filter::FailedNoRetries => entry.state == State::FailedNoRetries,
        Filter::Cancelled => entry.state == State::Cancelled,
    }
}

impl Memo {
    pub(crate) fn lists(&mut self, listings: &Listings<'_>) {
        let Listings { filter, entries, listed, is_current } = *listings;
        let of_keys: BTreeMap<&DeliveryKey, &Entry> = entries.iter().map(|it| (&it.key, it)).collect();
        let mut found = BTreeSet::new();
        for (key, state) in listed {
            let entry = of_keys.get(key);
            if !entry.is_some_and(|entry| is_wanted(filter, entry) && entry.state == *state) {
                let stands_at = entry.map_or("nothing", |entry| entry.state.label());
                self.violated(format!("{key} is listed as {filter}, and stands at {stands_at}"));
            }
            if !found.insert(key) {
                self.violated(format!("{key} is listed as {filter} twice"));
            }
            self.situations.saw(Situation::Listed);
        }
        if !is_current {
            self.situations.saw(Situation::ListedLate);
            return;
        }
        for entry in entries.iter().filter(|entry| is_wanted(filter, entry) && !found.contains(&entry.key)) {
            self.violated(format!("{} is {filter}, and is not listed", entry.key));
        }
    }
}
