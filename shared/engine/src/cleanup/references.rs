//! Draining the dead-letter queue: what a reference says about its subscription.

use std::time::Duration;

use super::worker::{Ports, Worker};
use crate::ports::{PortError, PruneCandidate, SubscriptionHealth, SubscriptionUpdate, Telemetry};
use redial_core::channel::Channel;
use redial_core::dead_letter::{Kind, Reference};
use redial_core::endpoint::EndpointHash;
use redial_core::event::{Event, State as Announced};
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::metric::Metric;
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::subscription::{NotFound, State, Subscription, suspicion};
use redial_core::time::Timestamp;

/// A 404 that is older says nothing: the endpoint may have accepted something since, of which the subscription shows nothing.
const NOT_FOUND_COUNTS_FOR: Duration = Duration::from_secs(300);

/// How often counting a dead letter starts over while others change the subscription.
const DOUBTED_AT_MOST: usize = 4;

impl<P: Ports> Worker<P> {
    /// Verifies an endpoint that is gone; counts a dead letter against its browser's subscription; switches off a webhook's receiver that has failed for days without one success.
    pub(super) async fn follow_up(&self, reference: &Reference, now: Timestamp) -> Result<(), PortError> {
        let is_webhook = Channel::from_label(&reference.channel) == Some(Channel::Webhook);
        if reference.kind == Kind::Failed && !is_webhook && !counts(reference) {
            return Ok(());
        }
        let Some((key, hash)) = about(reference) else { return Ok(()) };
        let Some(subscription) = self.subscriptions.get(&key).await? else { return Ok(()) };
        // The user may have subscribed again: then another endpoint stands there, and the reference is not about it.
        if self.settings.hash_keys.is_of(&hash, subscription.recipient.endpoint()) != Some(true) {
            return Ok(());
        }
        match reference.kind {
            Kind::Failed if is_webhook => self.give_up(&subscription, reference, now).await,
            Kind::Failed => self.doubt(subscription, reference, now).await,
            Kind::Gone | Kind::NotFound => self.verify(subscription, hash, reference, now).await,
        }
    }

    async fn verify(
        &self,
        subscription: Subscription,
        endpoint_hash: EndpointHash,
        reference: &Reference,
        now: Timestamp,
    ) -> Result<(), PortError> {
        if matches!(subscription.state, State::Quarantined | State::Disabled | State::Expired | State::Stale)
        {
            return Ok(());
        }
        let seen = Timestamp::from_ms(reference.at);
        // An operator knew of what was answered before, and decided otherwise.
        if subscription.enabled_at.is_some_and(|enabled_at| seen <= enabled_at) {
            return Ok(());
        }
        let update = update(&subscription, seen);
        if reference.kind == Kind::NotFound {
            if now.since(seen) > NOT_FOUND_COUNTS_FOR {
                return Ok(());
            }
            match subscription.not_found(seen) {
                NotFound::Flag => return self.subscriptions.flag(update).await,
                NotFound::Wait => return Ok(()),
                NotFound::Confirmed => {}
            }
        }
        // Counted before it is switched off: what is switched off and not counted would never be removed.
        // By when it was answered: endpoints that turned gone together count together however late cleanup gets to them.
        let guard = &self.settings.guard;
        let window = guard.window_of(seen.min(now));
        let candidate = PruneCandidate { key: subscription.key, endpoint_hash, at: seen, decided: false };
        self.subscriptions.add_candidate(window, candidate, guard.window_of(now)).await?;
        self.subscriptions.mark_gone(update).await
    }

    /// Counts a dead letter, and announces a subscription that it makes suspect.
    async fn doubt(
        &self,
        mut subscription: Subscription,
        reference: &Reference,
        now: Timestamp,
    ) -> Result<(), PortError> {
        let at = Timestamp::from_ms(reference.at);
        for _ in 0..DOUBTED_AT_MOST {
            let is_push = matches!(subscription.recipient, Recipient::WebPush(_));
            // A browser that has submitted it since has shown that it is there.
            let is_older = subscription.last_seen_at.is_some_and(|seen| seen > at);
            if !is_push || is_older || subscription.state != State::Active {
                return Ok(());
            }
            // By this very dead letter: who died over it before may not have announced it.
            let mut is_suspect = subscription.doubts.suspect_at == Some(at);
            if !is_suspect {
                let before = &subscription.doubts;
                let Some(after) = before.with(at, self.settings.suspect_apart) else { return Ok(()) };
                let becomes_suspect = after.suspect_at.is_some();
                if becomes_suspect && !self.may_become_suspect(&subscription.key.tenant, now).await? {
                    return Ok(());
                }
                if !self.subscriptions.doubt(update(&subscription, now), before, &after).await? {
                    let endpoint = subscription.recipient.endpoint().clone();
                    let stored = self.subscriptions.get(&subscription.key).await?;
                    let Some(stored) = stored.filter(|it| *it.recipient.endpoint() == endpoint) else {
                        return Ok(());
                    };
                    subscription = stored;
                    continue;
                }
                is_suspect = becomes_suspect;
                self.telemetry.count(Metric::SubscriptionsSuspect, u64::from(is_suspect));
            }
            if is_suspect {
                let event =
                    Event::of_subscription(&subscription.key, Announced::Suspect, reference.reason(), now);
                self.announce(event).await?;
            }
            return Ok(());
        }
        Err(PortError { operation: "doubt", code: "Contention".to_owned(), throttled: false })
    }

    /// Whether another of the tenant's subscriptions may become suspect. Counted before it does: who dies in between has counted one more.
    async fn may_become_suspect(&self, tenant: &Tenant, now: Timestamp) -> Result<bool, PortError> {
        let nth = self.subscriptions.count_suspect(tenant, now).await?;
        Ok(suspicion::may_become_suspect(nth, self.subscriptions.count(tenant).await?))
    }

    async fn give_up(
        &self,
        subscription: &Subscription,
        reference: &Reference,
        now: Timestamp,
    ) -> Result<(), PortError> {
        if !subscription.health.is_given_up(now, self.settings.switched_off_after) {
            return Ok(());
        }
        let disabled = self.subscriptions.disable(update(subscription, now), subscription.health).await?;
        if disabled {
            self.telemetry.count(Metric::EndpointsDisabled, 1);
        }
        // A worker may have died between switching off and announcing, or a first try was carried out and not answered. What failed because it
        // was off already is no news.
        let is_news = !disabled && reference.reason != Reason::EndpointDisabled.label();
        let is_off = is_news && self.is_off(subscription).await?;
        if disabled || is_off {
            self.announce(Event::of_subscription(&subscription.key, Announced::Disabled, None, now)).await?;
        }
        Ok(())
    }

    /// Whether it is switched off by now, and leads where it did.
    async fn is_off(&self, subscription: &Subscription) -> Result<bool, PortError> {
        let stored = self.subscriptions.get(&subscription.key).await?;
        let is_same = |it: &Subscription| it.recipient.endpoint() == subscription.recipient.endpoint();
        Ok(stored.filter(is_same).is_some_and(|it| it.state == State::Disabled))
    }
}

fn update(subscription: &Subscription, at: Timestamp) -> SubscriptionUpdate {
    let endpoint = subscription.recipient.endpoint().clone();
    SubscriptionUpdate { key: subscription.key.clone(), endpoint, at }
}

/// Whether it says anything about a browser's endpoint.
fn counts(reference: &Reference) -> bool {
    let counts = |reason| suspicion::counts(reason, reference.status);
    !reference.shared_failure && reference.reason().is_some_and(counts)
}

fn about(reference: &Reference) -> Option<(SubscriptionKey, EndpointHash)> {
    let key = SubscriptionKey {
        tenant: Tenant::parse(&reference.tenant)?,
        id: SubscriptionId::parse(reference.subscription.as_deref()?)?,
    };
    Some((key, EndpointHash::parse(reference.endpoint_hash.as_deref()?)?))
}
