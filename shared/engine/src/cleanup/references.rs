//! Draining the dead-letter queue: what a reference says about its subscription.

use super::events::announce;
use super::settings::Settings;
use crate::ports::{Outbox, PortError, PruneCandidate, SubscriptionHealth, SubscriptionUpdate, Telemetry};
use redial_core::channel::Channel;
use redial_core::dead_letter::{Kind, Reference};
use redial_core::endpoint::EndpointHash;
use redial_core::event::{Event, State as Announced};
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::metric::Metric;
use redial_core::reason::Reason;
use redial_core::subscription::{NotFound, State, Subscription};
use redial_core::time::Timestamp;

/// Verifies an endpoint that is gone; switches off a webhook's receiver that has failed for days without one success.
pub(super) async fn follow_up(
    settings: &Settings,
    subscriptions: &impl SubscriptionHealth,
    outbox: &impl Outbox,
    telemetry: &impl Telemetry,
    reference: &Reference,
    now: Timestamp,
) -> Result<(), PortError> {
    let is_webhook = Channel::from_label(&reference.channel) == Some(Channel::Webhook);
    if reference.kind == Kind::Failed && !is_webhook {
        return Ok(());
    }
    let Some((key, hash)) = about(reference) else { return Ok(()) };
    let Some(subscription) = subscriptions.get(&key).await? else { return Ok(()) };
    // The user may have subscribed again: then another endpoint stands there, and the reference is not about it.
    if settings.hash_keys.is_of(&hash, subscription.recipient.endpoint()) != Some(true) {
        return Ok(());
    }
    match reference.kind {
        Kind::Failed => {
            give_up(settings, subscriptions, outbox, telemetry, &subscription, reference, now).await
        }
        Kind::Gone | Kind::NotFound => {
            verify(settings, subscriptions, subscription, hash, reference, now).await
        }
    }
}

async fn verify(
    settings: &Settings,
    subscriptions: &impl SubscriptionHealth,
    subscription: Subscription,
    endpoint_hash: EndpointHash,
    reference: &Reference,
    now: Timestamp,
) -> Result<(), PortError> {
    if matches!(subscription.state, State::Quarantined | State::Disabled) {
        return Ok(());
    }
    let seen = Timestamp::from_ms(reference.at);
    let update = update(&subscription, seen);
    if reference.kind == Kind::NotFound {
        match subscription.not_found(seen) {
            NotFound::Flag => return subscriptions.flag(update).await,
            NotFound::Wait => return Ok(()),
            NotFound::Confirmed => {}
        }
    }
    // Counted before it is switched off: what is switched off and not counted would never be removed.
    let window = settings.guard.window_of(now);
    let candidate = PruneCandidate { key: subscription.key, endpoint_hash, at: seen, decided: false };
    subscriptions.add_candidate(window, candidate).await?;
    subscriptions.mark_gone(update).await
}

async fn give_up(
    settings: &Settings,
    subscriptions: &impl SubscriptionHealth,
    outbox: &impl Outbox,
    telemetry: &impl Telemetry,
    subscription: &Subscription,
    reference: &Reference,
    now: Timestamp,
) -> Result<(), PortError> {
    if !subscription.health.is_given_up(now, settings.switched_off_after) {
        return Ok(());
    }
    let disabled = subscriptions.disable(update(subscription, now), subscription.health).await?;
    if disabled {
        telemetry.count(Metric::EndpointsDisabled, 1);
    }
    // A worker may have died between switching off and announcing. What failed because it was off already is no news.
    let is_off =
        subscription.state == State::Disabled && reference.reason != Reason::EndpointDisabled.label();
    if disabled || is_off {
        announce(outbox, Event::of_subscription(&subscription.key, Announced::Disabled, None, now)).await?;
    }
    Ok(())
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
