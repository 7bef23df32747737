//! The walk over all subscriptions, once a day: it ends those that time alone ends, removes those in
//! quarantine of which an operator said that they are gone, and records whose the endpoints are that an earlier release
//! stored.
//!
//! A subscription is first switched off, then removed and noted for its announcement: what dies in between is found again by the next walk, in
//! its state.
//! Nothing marks what is due, so no renewal has to write a second item; a walk of a million subscriptions reads about 600 MB.

use std::time::Duration;

use super::sweep::Swept;
use super::worker::{Ports, Worker};
use crate::ports::{
    Clock, Endowed, PortError, SubscriptionHealth, SubscriptionUpdate, SubscriptionWalk, WalkProgress, Walked,
};
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::subscription::{State, Subscription};
use redial_core::time::Timestamp;

const EVERY: Duration = Duration::from_secs(86_400);

impl<P: Ports> Worker<P> {
    /// Goes on with the walk, or begins the next one if it is time.
    pub(super) async fn walk(&self, deadline: Timestamp, swept: &mut Swept) -> Result<(), PortError> {
        let Self { clock, subscriptions, .. } = self;
        let now = clock.now();
        let known = subscriptions.walk_progress().await?;
        let goes_on = known.as_ref().is_some_and(|known| known.next.is_some());
        if known.as_ref().is_some_and(|known| !goes_on && now.since(known.began_at) < EVERY) {
            return Ok(());
        }
        let mut at = known.filter(|_| goes_on).unwrap_or(WalkProgress { began_at: now, next: None });
        loop {
            if clock.now() >= deadline {
                return Ok(());
            }
            let page = subscriptions.walk_page(at.next.take()).await?;
            for walked in page.found {
                if clock.now() >= deadline {
                    // The page is walked again: what was done of it is not found again.
                    return Ok(());
                }
                self.visit(walked, swept).await?;
            }
            at.next = page.next;
            subscriptions.walk_to(&at).await?;
            if at.next.is_none() {
                return Ok(());
            }
        }
    }

    async fn visit(&self, walked: Walked, swept: &mut Swept) -> Result<(), PortError> {
        let Self { clock, subscriptions, settings, .. } = self;
        let Walked { subscription: found, has_its_endpoint } = walked;
        let now = clock.now();
        let is_browser = matches!(found.recipient, Recipient::WebPush(_));
        // An operator decided what the windows of endpoints that turned gone had left open.
        if found.state == State::Gone && found.gone_confirmed_at.is_some() {
            return self.remove_ended(&found, Reason::Gone, &mut swept.pruned).await;
        }
        match found.ended_by_time(settings.stale_after, now) {
            // Another subscription has got its endpoint, and this one was not removed yet.
            Some(State::Stale) if found.state == State::Stale && !has_its_endpoint => {
                self.remove_ended(&found, Reason::EndpointReplaced, &mut swept.replaced).await
            }
            Some(ended) => {
                let is_off = found.state == ended || subscriptions.end(&found, ended, now).await?;
                let (reason, count) = if ended == State::Expired {
                    (Reason::SubscriptionExpired, &mut swept.expired)
                } else {
                    (Reason::SubscriptionStale, &mut swept.stale)
                };
                if is_off { self.remove_ended(&found, reason, count).await } else { Ok(()) }
            }
            None if is_browser && !has_its_endpoint => match subscriptions.endow(&found, now).await? {
                Endowed::Lost(lost) => {
                    self.remove_ended(&lost, Reason::EndpointReplaced, &mut swept.replaced).await
                }
                Endowed::Its | Endowed::Changed => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Removes it. Its browser may have submitted it again since the walk found it.
    async fn remove_ended(
        &self,
        ended: &Subscription,
        reason: Reason,
        count: &mut u32,
    ) -> Result<(), PortError> {
        let endpoint = ended.recipient.endpoint().clone();
        let update = SubscriptionUpdate { key: ended.key.clone(), endpoint, at: self.clock.now() };
        *count += u32::from(self.subscriptions.remove(update, reason).await?);
        Ok(())
    }
}
