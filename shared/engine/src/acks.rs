//! Taking an acknowledgement.
//!
//! Where there is a queue for events, the event goes first and the note after it: if the worker dies in between, the service worker
//! acknowledges again, and the event is sent again. The other way round the second acknowledgement would be a repetition, and
//! the producer would never learn of it.

use crate::ports::{Acknowledged, Acks, Deliveries, Outbox, PortError, Telemetry};
use redial_core::ack::AckEvent;
use redial_core::event::{Event, State};
use redial_core::identity::DeliveryKey;
use redial_core::metric::Metric;
use redial_core::time::Timestamp;

/// Notes at `now` what the browser acknowledges of a delivery, announces it to the producer, and counts it: by its event the first time,
/// then as repeated, and as unknown where the ledger has forgotten the delivery.
pub async fn take(
    acks: &impl Acks,
    deliveries: &impl Deliveries,
    outbox: &impl Outbox,
    telemetry: &impl Telemetry,
    key: &DeliveryKey,
    event: AckEvent,
    now: Timestamp,
) -> Result<Acknowledged, PortError> {
    let noted = note(acks, deliveries, outbox, key, event, now).await?;
    let metric = match noted {
        Acknowledged::First => event.metric(),
        Acknowledged::Again => Metric::AcksRepeated,
        Acknowledged::Unknown => Metric::AcksUnknown,
    };
    telemetry.count(metric, 1);
    Ok(noted)
}

async fn note(
    acks: &impl Acks,
    deliveries: &impl Deliveries,
    outbox: &impl Outbox,
    key: &DeliveryKey,
    event: AckEvent,
    now: Timestamp,
) -> Result<Acknowledged, PortError> {
    if outbox.has_events() {
        let Some(known) = deliveries.find(key).await? else { return Ok(Acknowledged::Unknown) };
        if known.acknowledged.iter().any(|(of, _)| *of == event) {
            return Ok(Acknowledged::Again);
        }
        let announced = Event {
            subscription: known.entry.subscription,
            ..Event::of_delivery(key, State::Acknowledged(event), now)
        };
        outbox.send(vec![announced.outgoing()]).await.into_iter().collect::<Result<(), _>>()?;
    }
    acks.acknowledge(key, event, now).await
}
