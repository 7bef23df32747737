//! Announcing subscriptions that were removed.
//!
//! What removes one (the daily walk, the decision of a window, or the HTTP API and an import where another subscription gets its endpoint)
//! stores a note of it in the same transaction, and sends nothing: no response waits for the queue of events, and a worker that dies loses no
//! event. A note is deleted after its event was sent. If the sweep dies in between, the next one sends the same event again.

use super::sweep::Swept;
use super::worker::{Ports, Worker};
use crate::ports::{Clock, Outbox, PortError, Removals, Removed};
use redial_core::event::{Event, State as Announced};
use redial_core::time::Timestamp;

impl<P: Ports> Worker<P> {
    pub(super) async fn announce_removed(
        &self,
        deadline: Timestamp,
        swept: &mut Swept,
    ) -> Result<(), PortError> {
        let Self { clock, outbox, subscriptions, .. } = self;
        while clock.now() < deadline {
            let removed = subscriptions.removed().await?;
            if removed.is_empty() {
                return Ok(());
            }
            let event = |it: &Removed| {
                Event::of_subscription(&it.key, Announced::Pruned, Some(it.reason), it.at).outgoing()
            };
            let sent = match outbox.has_events() {
                true => outbox.send(removed.iter().map(event).collect()).await,
                false => vec![Ok(()); removed.len()],
            };
            let mut failed = None;
            for (removed, sent) in removed.iter().zip(sent) {
                match sent {
                    Ok(()) => {
                        subscriptions.announced(removed).await?;
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
