//! Recording an acknowledgement.
//!
//! Where there is a queue for events, the event goes first and the record after it: if the worker dies in between, the service worker
//! acknowledges again, and the event is sent again. The other way round the second acknowledgement would be a repetition, and
//! the producer would never learn of it.

use crate::known;
use crate::ports::{Acknowledged, Acks, HttpApi, Outbox, PortError, Telemetry};
use redial_core::access::AckToken;
use redial_core::ack::AckEvent;
use redial_core::event::{Event, State};
use redial_core::identity::DeliveryKey;
use redial_core::metric::Metric;
use redial_core::time::Timestamp;

/// Records at `now` what the browser acknowledges with this token, announces it to the producer, and counts it: by its event the first
/// time, then as repeated, and as unknown where the delivery is forgotten.
pub async fn take(
    env: &impl HttpApi,
    token: &AckToken,
    event: AckEvent,
    now: Timestamp,
) -> Result<Acknowledged, PortError> {
    let key = token.key();
    let recorded = match announced(env, &key, event, now).await? {
        Some(recorded) => recorded,
        None => env.acks().acknowledge(&key, event, token.expires_at, now).await?,
    };
    let metric = match recorded {
        Acknowledged::First => event.metric(),
        Acknowledged::Again => Metric::AcksRepeated,
        Acknowledged::Unknown => Metric::AcksUnknown,
    };
    env.telemetry().count(metric, 1);
    Ok(recorded)
}

/// Sends the event where there is a queue for it, unless it was sent before; returns the answer if there is nothing to record.
async fn announced(
    env: &impl HttpApi,
    key: &DeliveryKey,
    event: AckEvent,
    now: Timestamp,
) -> Result<Option<Acknowledged>, PortError> {
    if !env.outbox().has_events() {
        return Ok(None);
    }
    let Some(known) = known::find(env, key, now).await? else { return Ok(Some(Acknowledged::Unknown)) };
    if known.acknowledged().iter().any(|(of, _)| *of == event) {
        // Its token may end later than the one that acknowledged it first, and it is known until then.
        return Ok(None);
    }
    let announced = Event {
        subscription: known.subscription().cloned(),
        tags: known.given().tags.clone(),
        ..Event::of_delivery(key, State::Acknowledged(event), now)
    };
    env.outbox().send(vec![announced.outgoing()]).await.into_iter().collect::<Result<(), _>>()?;
    Ok(None)
}
