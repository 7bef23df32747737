//! Callers who ask for deliveries by their states, page by page.

use std::collections::BTreeMap;

use redial_core::identity::{DeliveryKey, Tenant};
use redial_core::ledger::listing::{Filter, Listing};
use redial_core::ledger::{Entry, State};
use redial_core::time::Timestamp;
use redial_engine::ports::{Deliveries, Listed};
use redial_memory::State as Stored;

use super::World;
use super::storage::at_once;
use crate::promises::Listings;

/// A listing takes up to this number of pages.
const PAGES: usize = 3;

impl World {
    /// Asks for all of each tenant's deliveries that wait, were held back or have ended otherwise than by a success.
    pub(super) fn ask_by_state(&mut self) {
        let mut of_tenants: BTreeMap<Tenant, Vec<Entry>> = BTreeMap::new();
        {
            let state = self.memory.state();
            for entry in state.ledger.values().filter(|entry| !entry.is_forgotten(state.now)) {
                of_tenants.entry(entry.key.tenant.clone()).or_default().push(entry);
            }
        }
        for (tenant, entries) in of_tenants {
            let may_be_listed = |entry: &&Entry| !matches!(entry.state, State::Sent | State::Sending);
            let limit = entries.iter().filter(may_be_listed).count() / PAGES + 1;
            for filter in Filter::ALL {
                let listed = self.list(&tenant, filter, limit);
                let is_current = is_current(&self.memory.state());
                let listings = Listings { filter, entries: &entries, listed: &listed, is_current };
                self.stage.watch.memo().lists(&listings);
            }
        }
    }

    fn list(&self, tenant: &Tenant, filter: Filter, limit: usize) -> Vec<(DeliveryKey, State)> {
        let since = Timestamp::default();
        let mut listing =
            Listing { tenant: tenant.clone(), filter, since, tags: Vec::new(), after: None, limit };
        let mut found = Vec::new();
        loop {
            let listed = at_once(self.memory.list(&listing)).expect("invariant: it is made at once");
            let Listed { records, next } = listed;
            found.extend(records.into_iter().map(|record| (record.entry.key, record.entry.state)));
            match next {
                None => return found,
                after => listing.after = after,
            }
        }
    }
}

/// Whether the index shows the ledger as it is.
fn is_current(state: &Stored) -> bool {
    state.by_state.as_ref().is_some_and(|index| index.as_of == state.now)
}
