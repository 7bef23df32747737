//! Where each message goes and by which policy it is retried: what is stored apart from the messages, read once a batch.

use std::collections::HashMap;

use super::fate::Fate;
use super::inbox::Job;
use super::{Settings, hand_off};
use crate::ports::{Clock, Environment, KnownPolicies, Policies, PortError, Subscriptions};
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::subscription::Subscription;

type Targets = HashMap<SubscriptionKey, Result<Option<Subscription>, PortError>>;
type PoliciesByTenant = HashMap<Tenant, Result<KnownPolicies, PortError>>;

/// The stored subscriptions that these jobs are addressed to.
pub(super) async fn targets<E: Environment>(env: &E, jobs: &[Job]) -> Targets {
    let mut wanted: Vec<SubscriptionKey> = jobs.iter().filter_map(Job::subscription_key).collect();
    wanted.sort();
    wanted.dedup();
    if wanted.is_empty() {
        return Targets::new();
    }
    let answers = env.subscriptions().load(wanted.clone()).await;
    wanted.into_iter().zip(answers).collect()
}

/// The policies of the tenants whose policies decide on any of these jobs.
pub(super) async fn policies<E: Environment>(env: &E, jobs: &[Job]) -> PoliciesByTenant {
    let deciding = jobs.iter().filter(|job| job.follows_its_tenant());
    let mut wanted: Vec<Tenant> = deciding.map(|job| job.message.tenant.clone()).collect();
    wanted.sort();
    wanted.dedup();
    if wanted.is_empty() {
        return PoliciesByTenant::new();
    }
    let answers = env.policies().of(wanted.clone(), env.clock().now()).await;
    for (tenant, answer) in wanted.iter().zip(&answers) {
        if let Ok(known) = answer {
            known.tell(tenant, env.telemetry());
        }
    }
    wanted.into_iter().zip(answers).collect()
}

/// The jobs with what was read of them; those of which something could not be read come back.
pub(super) fn resolved<E: Environment>(
    env: &E,
    settings: &Settings,
    mut jobs: Vec<Job>,
    targets: &Targets,
    policies: &PoliciesByTenant,
    fates: &mut Vec<(usize, Fate)>,
) -> Vec<Job> {
    jobs.retain_mut(|job| match resolve(job, settings, targets, policies) {
        Ok(()) => true,
        Err(error) => {
            fates.push((job.index, hand_off::fate_of(env, Err(error))));
            false
        }
    });
    jobs
}

fn resolve(
    job: &mut Job,
    settings: &Settings,
    targets: &Targets,
    policies: &PoliciesByTenant,
) -> Result<(), PortError> {
    if let Some(key) = job.subscription_key() {
        let subscription = targets.get(&key).expect("every subscription was asked for").as_ref();
        job.resolve(subscription.map_err(Clone::clone)?.as_ref(), &settings.hash_keys);
    }
    if job.follows_its_tenant() {
        let known = policies.get(&job.message.tenant).expect("every tenant was asked for").as_ref();
        job.choose_policy(&known.map_err(Clone::clone)?.policies);
    }
    Ok(())
}
