//! Telling producers of ends: an event for each delivery that has ended, before its message is acknowledged.

use super::fate::{Fate, Setback};
use super::hand_off::{self, HandOff};
use super::inbox::Target;
use super::settle;
use crate::ports::Environment;
use redial_core::event::{Event, State};
use redial_core::queue::Outgoing;
use redial_core::reason::Reason;

/// The events of those of these plans that are ends, and each message's place in its batch.
pub(super) fn ends(ready: &[HandOff]) -> Vec<(usize, Outgoing)> {
    let mut events = Vec::with_capacity(ready.len());
    for hand_off in ready {
        let HandOff { job, plan, facts, at } = hand_off;
        let state = settle::state_of(plan);
        if !state.is_terminal() {
            continue;
        }
        let event = Event::of_delivery(&job.message.key(), State::Delivery(state), *at)
            .with_ref(job.message.producer_ref.clone())
            .to(job.message.to.subscription().cloned())
            .because(plan.reason(), facts.status);
        events.push((job.index, event.outgoing()));
        // A push subscription's end is told when cleanup has confirmed it.
        // It may be off already, by a worker that died; whether it leads elsewhere by now was asked when it was resolved.
        let leads_elsewhere = job.target == Target::Nowhere(Reason::SubscriptionUnknown);
        let is_off = hand_off.wants_no_more() && !leads_elsewhere;
        events.extend(job.subscription_key().filter(|_| is_off).map(|key| {
            let event = Event::of_subscription(&key, State::Disabled, Some(Reason::Gone), *at);
            (job.index, event.outgoing())
        }));
    }
    events
}

/// Sends the events of messages that are about to be acknowledged. A message whose event could not be sent comes back, and its
/// hand-off is made again.
pub(super) async fn announce<E: Environment>(
    env: &E,
    ends: Vec<(usize, Outgoing)>,
    mut fates: Vec<(usize, Fate)>,
) -> Vec<(usize, Fate)> {
    let is_over = |index: usize| fates.contains(&(index, Fate::Acknowledged));
    let due: Vec<_> = ends.into_iter().filter(|(index, _)| is_over(*index)).collect();
    for (index, told) in hand_off::send(env, due).await {
        if told != Fate::Acknowledged {
            let fate = fates.iter_mut().find(|(of, _)| *of == index);
            fate.expect("its fate was looked up before").1 = Fate::ComesBack(Setback::Infrastructure);
        }
    }
    fates
}
