//! Events for producers: one for each delivery that has ended, before its message is acknowledged.

use super::acknowledgements::Acknowledgements;
use super::planned::Planned;
use super::worker::{Ports, Worker};
use redial_core::event::{End, Event, State};
use redial_core::queue::Outgoing;
use redial_core::reason::Reason;

/// The events of those of these plans that are ends, by their messages' places.
pub(super) fn of_ends(ready: &[Planned]) -> Vec<(usize, Outgoing)> {
    let mut events = Vec::with_capacity(ready.len());
    for planned in ready {
        let Planned { job, plan, facts, at } = planned;
        let state = plan.state();
        if !state.is_terminal() {
            continue;
        }
        events.extend(End::of(&job.message, state).map(|end| {
            let event = Event {
                producer_ref: job.message.producer_ref.clone(),
                subscription: job.message.to.subscription().cloned(),
                tags: job.message.tags.clone(),
                traceparent: job.message.traceparent,
                reason: plan.reason(),
                status: facts.status,
                ..Event::of_delivery(&job.message.key(), State::Delivery(end), *at)
            };
            (job.place, event.outgoing())
        }));
        // Cleanup announces the end of a push subscription when it has confirmed it.
        // A webhook's may be off already, by a worker that died. Whether it leads elsewhere by now was checked when it was resolved.
        let leads_elsewhere = job.target == Err(Reason::SubscriptionUnknown);
        let is_off = planned.wants_no_more() && !leads_elsewhere;
        events.extend(job.subscription_key().filter(|_| is_off).map(|key| {
            let event = Event::of_subscription(&key, State::Disabled, Some(Reason::Gone), *at);
            (job.place, event.outgoing())
        }));
    }
    events
}

impl<P: Ports> Worker<P> {
    /// Sends the events of messages that are about to be acknowledged. A message whose event could not be sent comes back, and its
    /// hand-off is made again.
    pub(super) async fn announce(
        &self,
        mut ends: Vec<(usize, Outgoing)>,
        acknowledgements: &mut Acknowledgements,
    ) {
        ends.retain(|(place, _)| acknowledgements.is_acknowledged(*place));
        acknowledgements.extend(self.send(ends).await);
    }
}
