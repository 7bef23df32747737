//! Draining the dead-letter queue.

use super::Settings;
use crate::channel::Channel;
use crate::dead_letter::{Kind, Reference};
use crate::endpoint::EndpointHash;
use crate::identity::{SubscriptionId, SubscriptionKey, Tenant};
use crate::metric::Metric;
use crate::ports::{
    CleanupEnvironment, Clock, DeadLetterStore, PortError, PruneCandidate, SubscriptionHealth,
    SubscriptionUpdate, Telemetry,
};
use crate::subscription::{NotFound, State};
use crate::time::Timestamp;

/// Deals with one reference: logs it, describes it in the store, and looks after the endpoint that is gone.
pub(super) async fn referenced<E: CleanupEnvironment>(
    env: &E,
    settings: &Settings,
    reference: &Reference,
) -> Result<(), PortError> {
    env.telemetry().reference(reference);
    env.dead_letters().describe(reference, env.clock().now()).await?;
    match reference.kind {
        Kind::Failed => give_up(env, settings, reference).await,
        Kind::Gone | Kind::NotFound => look_after(env, settings, reference).await,
    }
}

async fn look_after<E: CleanupEnvironment>(
    env: &E,
    settings: &Settings,
    reference: &Reference,
) -> Result<(), PortError> {
    let Some((key, hash)) = about(reference) else { return Ok(()) };
    let Some(subscription) = env.health().get(&key).await? else { return Ok(()) };
    let endpoint = subscription.recipient.endpoint().clone();
    // The user may have subscribed again: then another endpoint stands there, and this news is not about it.
    if settings.hash_keys.is_of(&hash, &endpoint) != Some(true)
        || matches!(subscription.state, State::Quarantined | State::Disabled)
    {
        return Ok(());
    }
    let seen = Timestamp::from_ms(reference.at);
    let update = SubscriptionUpdate { key: key.clone(), endpoint, at: seen };
    let confirmed = match reference.kind {
        Kind::Gone => true,
        Kind::NotFound => match subscription.not_found(seen) {
            NotFound::Flag => {
                env.health().flag(update.clone()).await?;
                false
            }
            NotFound::Wait => false,
            NotFound::Confirmed => true,
        },
        Kind::Failed => false,
    };
    if !confirmed {
        return Ok(());
    }
    // Counted before it is switched off: what is switched off and not counted would never be removed.
    let window = settings.guard.window_of(env.clock().now());
    let candidate = PruneCandidate { key, endpoint_hash: hash, at: seen, decided: false };
    env.health().add_candidate(window, candidate).await?;
    env.health().mark_gone(update).await
}

/// Switches off a webhook's receiver that has failed for days without one success.
async fn give_up<E: CleanupEnvironment>(
    env: &E,
    settings: &Settings,
    reference: &Reference,
) -> Result<(), PortError> {
    if Channel::from_label(&reference.channel) != Some(Channel::Webhook) {
        return Ok(());
    }
    let Some((key, hash)) = about(reference) else { return Ok(()) };
    let Some(subscription) = env.health().get(&key).await? else { return Ok(()) };
    let endpoint = subscription.recipient.endpoint().clone();
    let at = env.clock().now();
    let is_meant = settings.hash_keys.is_of(&hash, &endpoint) == Some(true);
    if !is_meant || !subscription.health.is_given_up(at, settings.switched_off_after) {
        return Ok(());
    }
    let update = SubscriptionUpdate { key, endpoint, at };
    if env.health().disable(update, subscription.health).await? {
        env.telemetry().count(Metric::EndpointsDisabled, 1);
    }
    Ok(())
}

fn about(reference: &Reference) -> Option<(SubscriptionKey, EndpointHash)> {
    let key = SubscriptionKey {
        tenant: Tenant::parse(&reference.tenant)?,
        id: SubscriptionId::parse(reference.subscription.as_deref()?)?,
    };
    Some((key, EndpointHash::parse(reference.endpoint_hash.as_deref()?)?))
}
