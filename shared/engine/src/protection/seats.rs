//! A worker's seats ([`redial_core::protection::seats`]): how many of a tenant's attempts it may have under way, and how many it has.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial_core::identity::Tenant;
use redial_core::protection::seats::Window;
use redial_core::share::Concurrency;
use redial_core::time::Timestamp;

/// The seats that this worker has taken for a tenant.
#[derive(Debug)]
pub(super) struct Taken {
    /// How many there are in all. Where an operator changes the number, seats are taken again.
    most: Concurrency,
    windows: BTreeMap<Window, InWindow>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InWindow {
    pub(super) seats: u32,
    /// Whether workers have taken all that there are.
    pub(super) is_exhausted: bool,
}

impl Taken {
    pub(super) fn of(most: Concurrency) -> Self {
        Self { most, windows: BTreeMap::new() }
    }

    /// What it has of a window, after those that are over were forgotten.
    pub(super) fn in_window(&mut self, window: Window, most: Concurrency, now: Timestamp) -> &mut InWindow {
        if self.most != most {
            *self = Self::of(most);
        }
        self.windows.retain(|window, _| *window >= Window::of(now));
        self.windows.entry(window).or_default()
    }
}

/// How many attempts of each tenant this worker has under way, of those that need seats.
#[derive(Clone, Debug, Default)]
pub(super) struct UnderWay(Arc<Mutex<HashMap<Tenant, u32>>>);

impl UnderWay {
    fn counts(&self) -> MutexGuard<'_, HashMap<Tenant, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn of(&self, tenant: &Tenant) -> u32 {
        self.counts().get(tenant).copied().unwrap_or(0)
    }

    /// A seat for one more, which is admitted at `now` and takes `longest` at most.
    pub(super) fn sit(&self, tenant: &Tenant, now: Timestamp, longest: Duration) -> Seat {
        *self.counts().entry(tenant.clone()).or_default() += 1;
        let until = Window::reached_until(now, longest);
        Seat(Arc::new(Seated { tenant: tenant.clone(), under_way: self.clone(), until }))
    }
}

/// An attempt's seat. It is free for another one once this and its clones are dropped.
#[derive(Clone, Debug)]
pub struct Seat(Arc<Seated>);

#[derive(Debug)]
struct Seated {
    tenant: Tenant,
    under_way: UnderWay,
    until: Timestamp,
}

impl Seat {
    /// When the attempt must be over.
    pub fn until(&self) -> Timestamp {
        self.0.until
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        let mut counts = self.under_way.counts();
        if let Some(count) = counts.get_mut(&self.tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.tenant);
            }
        }
    }
}
