//! The erasures that tenants have requested over the HTTP API: of each tenant's, the oldest goes on by a page in its turn, so that no
//! tenant's requests hold another's up.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::sweep::Swept;
use super::worker::{Ports, Worker};
use crate::erase::{PAGE, Step, step};
use crate::ports::{Clock, ErasureRequests, PortError, Telemetry};
use redial_core::erasure::{Erasure, ErasureState};
use redial_core::identity::Tenant;
use redial_core::time::Timestamp;

/// A page takes no less than this, so that a search leaves the tables to deliveries: 2,000 items a second.
const PAGE_TAKES: Duration = Duration::from_millis(PAGE as u64 / 2);

impl<P: Ports> Worker<P> {
    pub(super) async fn sweep_erasures(
        &self,
        deadline: Timestamp,
        swept: &mut Swept,
    ) -> Result<(), PortError> {
        let Self { clock, telemetry, subscriptions, settings, .. } = self;
        let requests = &self.erasure_requests;
        let mut pending = requests.pending().await?;
        pending.sort_by_key(|it| it.requested_at);
        let mut of_tenants: BTreeMap<Tenant, VecDeque<Erasure>> = BTreeMap::new();
        for erasure in pending {
            of_tenants.entry(erasure.tenant.clone()).or_default().push_back(erasure);
        }
        let mut failed = Ok(());
        while !of_tenants.is_empty() {
            for own in of_tenants.values_mut() {
                let Some(erasure) = own.pop_front() else { continue };
                let began = clock.now();
                if began >= deadline {
                    return failed;
                }
                let longest = settings.longest_invocation;
                let keys = &settings.hash_keys;
                match step(requests, subscriptions, &self.persons, keys, longest, &erasure, began).await {
                    Ok(Step::Made(after)) => {
                        let is_done = after.state() == ErasureState::Done;
                        swept.erased += u32::from(is_done);
                        if !is_done {
                            own.push_front(*after);
                        }
                        clock.sleep(PAGE_TAKES.saturating_sub(clock.now().since(began))).await;
                    }
                    Ok(Step::Waits | Step::Anothers) => {}
                    // It is tried again by the next sweep; others go on.
                    Err(error) => {
                        telemetry.infrastructure(&error);
                        failed = Err(error);
                    }
                }
            }
            of_tenants.retain(|_, own| !own.is_empty());
        }
        failed
    }
}
