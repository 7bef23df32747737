//! Announcing subscriptions that another one with their endpoint has replaced.
//!
//! Whoever replaces one, the HTTP API or an import, stores a note of it in the same transaction, and sends nothing: no response waits for
//! the queue of events, and a worker that dies loses no event. A note is deleted after its event was sent. If the sweep dies in between, the
//! next one sends the same event again.

use super::sweep::Swept;
use super::worker::{Ports, Worker};
use crate::ports::{Clock, Outbox, PortError, Replaced, Replacements};
use redial_core::event::{Event, State as Announced};
use redial_core::reason::Reason;
use redial_core::time::Timestamp;

impl<P: Ports> Worker<P> {
    pub(super) async fn announce_replaced(
        &self,
        deadline: Timestamp,
        swept: &mut Swept,
    ) -> Result<(), PortError> {
        let Self { clock, outbox, subscriptions, .. } = self;
        while clock.now() < deadline {
            let replaced = subscriptions.replaced().await?;
            if replaced.is_empty() {
                return Ok(());
            }
            let event = |it: &Replaced| {
                let reason = Some(Reason::EndpointReplaced);
                Event::of_subscription(&it.key, Announced::Pruned, reason, it.at).outgoing()
            };
            let sent = match outbox.has_events() {
                true => outbox.send(replaced.iter().map(event).collect()).await,
                false => vec![Ok(()); replaced.len()],
            };
            let mut failed = None;
            for (replaced, sent) in replaced.iter().zip(sent) {
                match sent {
                    Ok(()) => {
                        subscriptions.announced(replaced).await?;
                        swept.announced += u32::from(outbox.has_events());
                    }
                    Err(error) => failed = Some(error),
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(())
    }
}
