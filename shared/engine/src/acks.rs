//! Taking an acknowledgement.
//!
//! Where producers are told of events, the event goes first and the note after it: whoever dies in between is told again by the
//! service worker, and tells the producer again. The other way round the second telling would be a repetition, and
//! the producer would never know.

use crate::ports::{Acknowledged, Acks, Deliveries, FrontDoor, Outbox, PortError, Telemetry};
use redial_core::ack::AckEvent;
use redial_core::event::{Event, State};
use redial_core::identity::DeliveryKey;
use redial_core::metric::Metric;
use redial_core::time::Timestamp;

/// Notes at `now` what the browser told of a delivery, tells the producer of it, and counts it: by its event the first time,
/// then as repeated, and as unknown where the ledger has forgotten the delivery.
pub async fn take<E: FrontDoor>(
    env: &E,
    key: &DeliveryKey,
    event: AckEvent,
    now: Timestamp,
) -> Result<Acknowledged, PortError> {
    let noted = note(env, key, event, now).await?;
    let metric = match noted {
        Acknowledged::First => event.metric(),
        Acknowledged::Again => Metric::AcksRepeated,
        Acknowledged::Unknown => Metric::AcksUnknown,
    };
    env.telemetry().count(metric, 1);
    Ok(noted)
}

async fn note<E: FrontDoor>(
    env: &E,
    key: &DeliveryKey,
    event: AckEvent,
    now: Timestamp,
) -> Result<Acknowledged, PortError> {
    if env.outbox().has_events() {
        match env.ledger().find(key).await? {
            None => return Ok(Acknowledged::Unknown),
            Some(known) if known.acknowledged.iter().any(|(of, _)| *of == event) => {
                return Ok(Acknowledged::Again);
            }
            Some(known) => {
                let told = Event::of_delivery(key, State::Acknowledged(event), now);
                let told = told.to(known.entry.subscription).outgoing();
                env.outbox().send(vec![told]).await.into_iter().collect::<Result<(), _>>()?;
            }
        }
    }
    env.acks().acknowledge(key, event, now).await
}
