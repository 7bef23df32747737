//! The scheduled sweeps: nets under what should have happened by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::worker::{Ports, Worker};
use crate::ports::{
    Clock, DeadLetterStore, LineRegistry, Parking, Partition, PortError, PruneCandidate, QuarantineEvent,
    RegisteredBucket, RegisteredLine, SubscriptionHealth, SubscriptionUpdate, Telemetry, WaitRegistry,
};
use redial_core::event::{Event, State as Announced};
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::line::FORGOTTEN_AFTER;
use redial_core::queue::Outgoing;
use redial_core::reason::Reason;
use redial_core::subscription::{State, Subscription};
use redial_core::time::Timestamp;
use redial_core::wait::Release;

const BODIES_AT_A_TIME: u32 = 100;

/// By how many lines a sweep begins later than the last one: fewer than it has time for.
const A_STRIDE: usize = 500;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sweep {
    /// Releases buckets of waits that are late and hold messages, looks after the lines of origins, and forgets empty ones.
    Waits,
    /// Removes endpoints that are gone, or puts them in quarantine where they are unusually many; announces what was removed.
    Prune,
    /// Deletes dead letters' bodies whose time is over.
    Bodies,
    /// Goes on with the erasures that tenants have requested.
    Erasures,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Swept {
    pub released: u32,
    pub forgotten: u32,
    pub pruned: u32,
    pub quarantined: u32,
    /// Subscriptions that time alone has ended, or whose endpoint another one keeps.
    pub expired: u32,
    pub stale: u32,
    pub replaced: u32,
    /// Removed subscriptions that were announced.
    pub announced: u32,
    pub bodies: u32,
    /// Erasures that are done.
    pub erased: u32,
}

/// A subscription is young for so long.
const YOUNG: Duration = Duration::from_secs(7 * 86_400);

/// Up to so many gone endpoints of a tenant are looked at for their age.
const JUDGED_APART: usize = 1_000;

/// A tenant's endpoints that turned gone together.
#[derive(Clone, Copy, Debug)]
struct Together {
    gone: u32,
    all: u64,
    /// Whether they are too many to remove any of them: of the older ones, and of the young ones.
    is_unusual: [bool; 2],
}

/// What became of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Decided {
    Removed,
    Quarantined,
    /// It is in quarantine already: a sweep that died may have put it there without announcing it.
    QuarantinedBefore,
    /// It was removed before, or leads elsewhere by now.
    Changed,
}

/// What lies where messages wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Messages,
    /// Nothing but what workers left of messages when they died: it is to be removed later.
    Remains,
    Nothing,
}

impl<P: Ports> Worker<P> {
    pub(super) async fn sweep_waits(&self, deadline: Timestamp, swept: &mut Swept) -> Result<(), PortError> {
        let Self { clock, wait_registry: registry, .. } = self;
        // A bucket or line that cannot be read must not keep the others from being looked at.
        let mut failed = Ok(());
        let late = registry.begun_before(clock.now().minus(self.settings.late_after)).await?;
        for registered in late {
            if clock.now() >= deadline {
                break;
            }
            failed = failed.and(self.sweep_bucket(registered, swept).await);
        }
        for registered in self.in_turn(registry.lines().await?) {
            if clock.now() >= deadline {
                break;
            }
            failed = failed.and(self.sweep_line(registered, swept).await);
        }
        failed
    }

    async fn sweep_bucket(&self, registered: RegisteredBucket, swept: &mut Swept) -> Result<(), PortError> {
        let RegisteredBucket { bucket, shards, .. } = registered;
        match self.found(bucket.shards(shards).map(Partition::from)).await? {
            Found::Messages => {
                self.send(Outgoing::release(Release::Bucket(bucket))).await?;
                swept.released += 1;
            }
            Found::Remains => {}
            Found::Nothing => {
                self.wait_registry.forget(registered).await?;
                swept.forgotten += 1;
            }
        }
        Ok(())
    }

    /// From another place each minute: more lines than one sweep has time for each have their turn.
    fn in_turn<T>(&self, mut all: Vec<T>) -> Vec<T> {
        let minute = usize::try_from(self.clock.now().as_secs() / 60).unwrap_or_default();
        if let Some(first) = minute.wrapping_mul(A_STRIDE).checked_rem(all.len()) {
            all.rotate_left(first);
        }
        all
    }

    /// What lies in these. One that cannot be read must not keep the messages of the others from being found.
    async fn found(&self, partitions: impl Iterator<Item = Partition>) -> Result<Found, PortError> {
        let mut found = Ok(Found::Nothing);
        for partition in partitions {
            match self.found_in(partition).await {
                Ok(Found::Messages) => return Ok(Found::Messages),
                Ok(Found::Remains) => found = found.and(Ok(Found::Remains)),
                Ok(Found::Nothing) => {}
                Err(error) => found = Err(error),
            }
        }
        found
    }

    async fn found_in(&self, partition: Partition) -> Result<Found, PortError> {
        if !self.parking.holds_any(partition.clone()).await? {
            return Ok(Found::Nothing);
        }
        let page = self.parking.page(partition, 1).await?;
        Ok(if page.is_empty() { Found::Remains } else { Found::Messages })
    }

    /// Has dispatch look after a line that holds messages: a release may have been lost, and no worker notices what time alone changes.
    async fn sweep_line(&self, registered: RegisteredLine, swept: &mut Swept) -> Result<(), PortError> {
        match self.found(registered.line.shards(registered.shards).map(Partition::from)).await? {
            Found::Messages => self.send(Outgoing::release(Release::Line(registered.line.into()))).await?,
            Found::Nothing if self.clock.now().since(registered.at) >= FORGOTTEN_AFTER => {
                self.wait_registry.forget_line(registered).await?;
                swept.forgotten += 1;
            }
            Found::Nothing | Found::Remains => {}
        }
        Ok(())
    }

    /// Decides the windows whose neighbours are over, too: endpoints that turned gone together count together wherever a
    /// window's edge happens to fall.
    pub(super) async fn prune(&self, deadline: Timestamp, swept: &mut Swept) -> Result<(), PortError> {
        let subscriptions = &self.subscriptions;
        let current = self.settings.guard.window_of(self.clock.now());
        let mut failed = Ok(());
        for open in subscriptions.open_windows(current - 1).await? {
            let window = open.number;
            let candidates = subscriptions.candidates(window).await?;
            let gone = self.gone_by_tenant(window, &candidates).await?;
            let mut judged = BTreeMap::new();
            // One that cannot be read must not keep the others from being decided; nor may it be forgotten.
            let mut all_decided = Ok(());
            for candidate in candidates.iter().filter(|candidate| !candidate.decided) {
                if self.clock.now() >= deadline {
                    return failed;
                }
                let decided = self.prune_one(window, candidate, &gone, &mut judged, swept).await;
                all_decided = all_decided.and(decided);
            }
            if all_decided.is_ok() {
                subscriptions.close_window(open).await?;
            }
            failed = failed.and(all_decided);
        }
        failed
    }

    async fn prune_one(
        &self,
        window: i64,
        candidate: &PruneCandidate,
        gone: &BTreeMap<Tenant, Vec<SubscriptionKey>>,
        judged: &mut BTreeMap<Tenant, Together>,
        swept: &mut Swept,
    ) -> Result<(), PortError> {
        let tenant = &candidate.key.tenant;
        if !judged.contains_key(tenant) {
            let gone = gone.get(tenant).cloned().unwrap_or_default();
            judged.insert(tenant.clone(), self.judge(tenant, gone).await?);
        }
        let Together { gone, all, .. } = judged[tenant];
        let decided = self.decide(candidate, &judged[tenant]).await?;
        match decided {
            Decided::Removed => swept.pruned += 1,
            Decided::Quarantined => swept.quarantined += 1,
            Decided::QuarantinedBefore | Decided::Changed => {}
        }
        if matches!(decided, Decided::Quarantined | Decided::QuarantinedBefore) {
            self.telemetry.quarantined(&QuarantineEvent {
                subscription: &candidate.key,
                endpoint_hash: candidate.endpoint_hash.as_str(),
                reason: Reason::Gone,
                together: gone,
                of: all,
            });
            let (reason, now) = (Some(Reason::Gone), self.clock.now());
            self.announce(Event::of_subscription(&candidate.key, Announced::Quarantined, reason, now))
                .await?;
        }
        self.subscriptions.decide_candidate(window, candidate).await
    }

    async fn gone_by_tenant(
        &self,
        window: i64,
        own: &[PruneCandidate],
    ) -> Result<BTreeMap<Tenant, Vec<SubscriptionKey>>, PortError> {
        let before = self.subscriptions.candidates(window - 1).await?;
        let after = self.subscriptions.candidates(window + 1).await?;
        let distinct: BTreeSet<&SubscriptionKey> =
            before.iter().chain(own).chain(&after).map(|candidate| &candidate.key).collect();
        let mut gone: BTreeMap<Tenant, Vec<SubscriptionKey>> = BTreeMap::new();
        for key in distinct {
            gone.entry(key.tenant.clone()).or_default().push(key.clone());
        }
        Ok(gone)
    }

    /// Judges a tenant's young subscriptions and its older ones apart: who makes a dozen that turn gone at once must not keep those from
    /// being removed that others have had for long. Where very many are gone, all are judged together.
    async fn judge(&self, tenant: &Tenant, keys: Vec<SubscriptionKey>) -> Result<Together, PortError> {
        let all = self.subscriptions.count(tenant).await?;
        let gone = u32::try_from(keys.len()).unwrap_or(u32::MAX);
        let is_unusual = |gone| self.settings.guard.is_unusual(gone, all);
        if !is_unusual(gone) || keys.len() > JUDGED_APART {
            return Ok(Together { gone, all, is_unusual: [is_unusual(gone); 2] });
        }
        let mut young = 0;
        for key in keys {
            let stored = self.subscriptions.get(&key).await?;
            young += u32::from(stored.is_some_and(|it| self.is_young(&it)));
        }
        Ok(Together { gone, all, is_unusual: [gone - young, young].map(is_unusual) })
    }

    fn is_young(&self, subscription: &Subscription) -> bool {
        subscription.endpoint_since().is_some_and(|at| self.clock.now().since(at) < YOUNG)
    }

    async fn decide(&self, candidate: &PruneCandidate, together: &Together) -> Result<Decided, PortError> {
        let subscription = match self.decided_before(candidate).await? {
            Ok(decided) => return Ok(decided),
            Err(subscription) => subscription,
        };
        let endpoint = subscription.recipient.endpoint().clone();
        let unusual = together.is_unusual[usize::from(self.is_young(&subscription))];
        let update = SubscriptionUpdate { key: candidate.key.clone(), endpoint, at: self.clock.now() };
        let (done, decided) = if unusual {
            (self.subscriptions.quarantine(update).await?, Decided::Quarantined)
        } else {
            (self.subscriptions.remove(update, Reason::Gone).await?, Decided::Removed)
        };
        if done {
            return Ok(decided);
        }
        // It changed meanwhile; or a first try was carried out and not answered.
        Ok(self.decided_before(candidate).await?.unwrap_or(Decided::Changed))
    }

    /// What was decided of it already, or else its subscription.
    async fn decided_before(
        &self,
        candidate: &PruneCandidate,
    ) -> Result<Result<Decided, Box<Subscription>>, PortError> {
        let Some(subscription) = self.subscriptions.get(&candidate.key).await? else {
            return Ok(Ok(Decided::Changed));
        };
        let endpoint = subscription.recipient.endpoint();
        if self.settings.hash_keys.is_of(&candidate.endpoint_hash, endpoint) != Some(true) {
            return Ok(Ok(Decided::Changed));
        }
        if subscription.state == State::Quarantined {
            return Ok(Ok(Decided::QuarantinedBefore));
        }
        Ok(Err(Box::new(subscription)))
    }

    pub(super) async fn sweep_bodies(&self, deadline: Timestamp, swept: &mut Swept) -> Result<(), PortError> {
        while self.clock.now() < deadline {
            let deleted = self.dead_letters.delete_absent_bodies(self.clock.now(), BODIES_AT_A_TIME).await?;
            swept.bodies += deleted;
            if deleted < BODIES_AT_A_TIME {
                break;
            }
        }
        Ok(())
    }
}
