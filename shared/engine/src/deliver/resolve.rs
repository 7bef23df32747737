//! Where each message goes and by which policy it is retried: what is stored apart from the messages, read once a batch.

use std::collections::{BTreeSet, HashMap};

use super::acknowledgements::Acknowledgements;
use super::job::Job;
use super::rarely::rarely;
use super::worker::{Ports, Worker};
use crate::ports::{Clock, KnownPolicies, Policies, PortError, Subscriptions};
use redial_core::distinct::distinct;
use redial_core::endpoint::HashKeys;
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::subscription::Subscription;
use redial_core::time::Timestamp;

type Found<K, V> = HashMap<K, Result<V, PortError>>;

impl<P: Ports> Worker<P> {
    /// The jobs with what is stored for them; those for which something could not be read come back.
    pub(super) async fn resolve(
        &self,
        mut jobs: Vec<Job>,
        acknowledgements: &mut Acknowledgements,
    ) -> Vec<Job> {
        let (mut targets, policies) =
            futures_util::join!(self.load_targets(&jobs), self.load_policies(&jobs));
        let unknown = targets.iter().filter(|(_, found)| matches!(found, Ok(None)));
        let unknown = unknown.map(|(key, _)| key.clone()).collect();
        let mut erased = BTreeSet::new();
        for (key, answer) in rarely(unknown, |unknown| self.erased_subscriptions(unknown)).await {
            match answer {
                Ok(true) => _ = erased.insert(key),
                Ok(false) => {}
                Err(error) => _ = targets.insert(key, Err(error)),
            }
        }
        let (keys, now) = (&self.settings.hash_keys, self.system.now());
        jobs.retain_mut(|job| match resolve_one(job, keys, &targets, &policies, now) {
            Ok(()) => {
                job.is_erased = job.subscription_key().is_some_and(|key| erased.contains(&key));
                true
            }
            Err(error) => {
                acknowledgements.failed(job.place, error, &self.telemetry);
                false
            }
        });
        let doubts = |key: &SubscriptionKey| {
            let found = targets.get(key).and_then(|found| found.as_ref().ok()?.as_ref());
            found.map(|subscription| &subscription.doubts)
        };
        self.hold_suspects(&mut jobs, doubts, now, acknowledgements).await;
        jobs
    }

    async fn load_targets(&self, jobs: &[Job]) -> Found<SubscriptionKey, Option<Subscription>> {
        let wanted = distinct(jobs.iter().filter_map(Job::subscription_key));
        if wanted.is_empty() {
            return Found::new();
        }
        let loaded = self.subscriptions.load(wanted.clone()).await;
        wanted.into_iter().zip(loaded).collect()
    }

    /// The policies of the tenants whose policies decide on any of these jobs.
    async fn load_policies(&self, jobs: &[Job]) -> Found<Tenant, KnownPolicies> {
        let deciding = jobs.iter().filter(|job| job.follows_its_tenant());
        let wanted = distinct(deciding.map(|job| job.message.tenant.clone()));
        if wanted.is_empty() {
            return Found::new();
        }
        let loaded = self.policies.of(wanted.clone(), self.system.now()).await;
        for (tenant, loaded) in wanted.iter().zip(&loaded) {
            if let Ok(known) = loaded {
                known.report(tenant, &self.telemetry);
            }
        }
        wanted.into_iter().zip(loaded).collect()
    }
}

fn resolve_one(
    job: &mut Job,
    keys: &HashKeys,
    targets: &Found<SubscriptionKey, Option<Subscription>>,
    policies: &Found<Tenant, KnownPolicies>,
    now: Timestamp,
) -> Result<(), PortError> {
    if let Some(key) = job.subscription_key() {
        let subscription = targets.get(&key).expect("every subscription was loaded").as_ref();
        job.resolve(subscription.map_err(Clone::clone)?.as_ref(), keys, now);
    }
    if job.follows_its_tenant() {
        let known = policies.get(&job.message.tenant).expect("every tenant's policies were loaded").as_ref();
        job.choose_policy(&known.map_err(Clone::clone)?.policies);
    }
    Ok(())
}
