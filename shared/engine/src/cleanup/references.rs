//! Draining the dead-letter queue.

use super::{Settings, announce};
use crate::ports::{
    CleanupEnvironment, Clock, DeadLetterStore, PortError, PruneCandidate, SubscriptionHealth,
    SubscriptionUpdate, Telemetry,
};
use redial_core::channel::Channel;
use redial_core::dead_letter::{Kind, Reference};
use redial_core::endpoint::EndpointHash;
use redial_core::event::{Event, State as Announced};
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::metric::Metric;
use redial_core::reason::Reason;
use redial_core::subscription::{NotFound, State, Subscription};
use redial_core::time::Timestamp;

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
    let Some((subscription, hash)) = meant(env, settings, reference).await? else { return Ok(()) };
    if matches!(subscription.state, State::Quarantined | State::Disabled) {
        return Ok(());
    }
    let seen = Timestamp::from_ms(reference.at);
    let update = update(&subscription, seen);
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
    let candidate = PruneCandidate { key: subscription.key, endpoint_hash: hash, at: seen, decided: false };
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
    let Some((subscription, _)) = meant(env, settings, reference).await? else { return Ok(()) };
    let at = env.clock().now();
    if !subscription.health.is_given_up(at, settings.switched_off_after) {
        return Ok(());
    }
    let disabled = env.health().disable(update(&subscription, at), subscription.health).await?;
    if disabled {
        env.telemetry().count(Metric::EndpointsDisabled, 1);
    }
    // A worker may have died between switching off and telling. What failed because it was off already tells nothing new.
    let is_off =
        subscription.state == State::Disabled && reference.reason != Reason::EndpointDisabled.label();
    if disabled || is_off {
        let event = Event::of_subscription(&subscription.key, Announced::Disabled, None, at);
        announce(env, event).await?;
    }
    Ok(())
}

/// The subscription that a reference is about, and the hash of the endpoint that it was about. The user may have subscribed
/// again: then another endpoint stands there, and this news is not about it.
async fn meant<E: CleanupEnvironment>(
    env: &E,
    settings: &Settings,
    reference: &Reference,
) -> Result<Option<(Subscription, EndpointHash)>, PortError> {
    let Some((key, hash)) = about(reference) else { return Ok(None) };
    let subscription = env.health().get(&key).await?;
    let leads_there =
        |it: &Subscription| settings.hash_keys.is_of(&hash, it.recipient.endpoint()) == Some(true);
    Ok(subscription.filter(leads_there).map(|it| (it, hash)))
}

fn update(subscription: &Subscription, at: Timestamp) -> SubscriptionUpdate {
    let endpoint = subscription.recipient.endpoint().clone();
    SubscriptionUpdate { key: subscription.key.clone(), endpoint, at }
}

fn about(reference: &Reference) -> Option<(SubscriptionKey, EndpointHash)> {
    let key = SubscriptionKey {
        tenant: Tenant::parse(&reference.tenant)?,
        id: SubscriptionId::parse(reference.subscription.as_deref()?)?,
    };
    Some((key, EndpointHash::parse(reference.endpoint_hash.as_deref()?)?))
}
