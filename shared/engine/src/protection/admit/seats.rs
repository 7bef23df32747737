//! Seats for a batch's attempts of tenants that have a most of concurrent ones.
//!
//! What finds no seat follows in the same invocation, if others of its tenant have one: theirs are free once they are over. Where none has,
//! other workers have the seats, and it gets a place in its tenant's queue.

use std::collections::BTreeMap;

use rand::Rng;

use super::super::seats::Taken;
use super::buckets::Slots;
use super::{Admission, Round};
use crate::ports::{PortError, Protection};
use redial_core::identity::Tenant;
use redial_core::protection::seats::{Window, block};
use redial_core::protection::token_bucket::{Answer, TokenBucket};
use redial_core::share::Concurrency;

impl<P: Protection> Round<'_, P> {
    /// Gives seats to those who need one, and decides on those who get none. `may_follow`: whether they may wait for others of the batch.
    pub(super) async fn ask_seats(&mut self, order: &[usize], may_follow: bool, rng: &mut (dyn Rng + Send)) {
        let mut limited: BTreeMap<Tenant, (Concurrency, Vec<usize>)> = BTreeMap::new();
        {
            let known = self.guard.known();
            for at in order {
                let tenant = &self.asks[*at].tenant;
                if let Some(most) = known.allowed(tenant).share.concurrency {
                    limited.entry(tenant.clone()).or_insert((most, Vec::new())).1.push(*at);
                }
            }
        }
        for (tenant, (most, mut mine)) in limited {
            let wanted = u32::try_from(mine.len()).unwrap_or(u32::MAX);
            let free = match self.free_seats(&tenant, most, wanted).await {
                Ok(free) => free,
                // What cannot be read limits nothing.
                Err(error) => {
                    self.changes.errors.push(error);
                    continue;
                }
            };
            let waiting = mine.split_off(mine.len().min(free as usize));
            let longest = self.guard.settings.longest_attempt;
            for at in &mine {
                self.seats[*at] = Some(self.guard.under_way.sit(&tenant, self.now, longest));
            }
            if waiting.is_empty() {
                continue;
            }
            if may_follow && !mine.is_empty() {
                waiting.iter().for_each(|at| self.decided[*at] = Some(Admission::Seatless { at: None }));
                continue;
            }
            let slots = Slots::set(f64::from(most.get()));
            self.queue(&TokenBucket::Seated(tenant.to_string()), &tenant, slots, &waiting, rng).await;
            for at in waiting {
                if let Some(Admission::Later { at: place }) = self.decided[at] {
                    self.decided[at] = Some(Admission::Seatless { at: Some(place) });
                }
            }
        }
    }

    /// How many seats this worker has free for a tenant's attempts that begin now, of those that are wanted.
    async fn free_seats(&self, tenant: &Tenant, most: Concurrency, wanted: u32) -> Result<u32, PortError> {
        let under_way = self.guard.under_way.of(tenant);
        let mut has = u32::MAX;
        for window in Window::reached(self.now, self.guard.settings.longest_attempt) {
            let held = {
                let mut known = self.guard.known();
                let taken = known.seats.entry(tenant.clone()).or_insert_with(|| Taken::of(most));
                *taken.in_window(window, most, self.now)
            };
            let lacks = under_way.saturating_add(wanted).saturating_sub(held.seats);
            let more = if held.is_exhausted { 0 } else { block(lacks, most) };
            let (more, is_exhausted) = self.take_seats(window, tenant, most, more).await?;
            let mut known = self.guard.known();
            let taken = known.seats.entry(tenant.clone()).or_insert_with(|| Taken::of(most));
            let held = taken.in_window(window, most, self.now);
            held.seats = held.seats.saturating_add(more);
            held.is_exhausted |= is_exhausted;
            has = has.min(held.seats);
        }
        // Of this worker's other messages and pages, some may have sat down meanwhile.
        Ok(has.saturating_sub(self.guard.under_way.of(tenant)))
    }

    /// Takes these seats of a window, or those that are left; and whether none are left.
    async fn take_seats(
        &self,
        window: Window,
        tenant: &Tenant,
        most: Concurrency,
        seats: u32,
    ) -> Result<(u32, bool), PortError> {
        if seats == 0 {
            return Ok((0, false));
        }
        let free_from = match self.store.lease(window.request(tenant, most, seats)).await? {
            Answer::Leased { .. } => return Ok((seats, false)),
            Answer::Empty { free_from } => free_from,
        };
        let left = window.left(most, free_from).min(seats);
        if left == 0 {
            return Ok((0, true));
        }
        Ok(match self.store.lease(window.request(tenant, most, left)).await? {
            Answer::Leased { .. } => (left, true),
            Answer::Empty { .. } => (0, false),
        })
    }
}
