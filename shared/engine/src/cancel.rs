//! Cancelling a delivery on a caller's request.
//!
//! The ledger decides ([`redial_core::ledger::cancel`]), but for recipients of an audience that are sent to by the page: these have no
//! entry while they are on it, and a page's worker reads none. Such a recipient is cancelled with the message to the audience, or once it
//! has left its page.

use crate::ports::{Deliveries, Pages, PortError};
use redial_core::identity::DeliveryKey;
use redial_core::ledger::{Cancellation, State};
use redial_core::page::Position;
use redial_core::time::Timestamp;

/// Cancels a delivery at `now`. The answer is durable; the same request again has the same answer.
pub async fn cancel(
    ledger: &impl Deliveries,
    pages: &impl Pages,
    key: &DeliveryKey,
    now: Timestamp,
) -> Result<Cancellation, PortError> {
    if let Some(position) = Position::of(key)
        && ledger.find(key).await?.is_none()
    {
        match pages.on_page(&position, now).await? {
            // It never goes back: its message meets the entry.
            Some(on_page) if on_page.is_apart() => {}
            Some(on_page) => {
                let state = on_page.state();
                return Ok(if state == State::Sending {
                    Cancellation::BeingAttempted { until: None }
                } else if state.is_terminal() {
                    Cancellation::Ended(state)
                } else {
                    Cancellation::OnPage
                });
            }
            // Its page is not begun, or its run is forgotten.
            None => return Ok(Cancellation::OnPage),
        }
    }
    ledger.cancel(key, now).await
}
