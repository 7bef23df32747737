//! Events for producers.

use crate::ports::{Outbox, PortError};
use redial_core::event::Event;

/// Sends an event, where there is a queue for events.
pub(super) async fn announce(outbox: &impl Outbox, event: Event) -> Result<(), PortError> {
    if !outbox.has_events() {
        return Ok(());
    }
    outbox.send(vec![event.outgoing()]).await.into_iter().collect()
}
