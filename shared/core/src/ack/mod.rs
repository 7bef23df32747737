//! Acknowledgements: what happened to a push on its user's screen, as the browser reports it.
//!
//! A push that is `sent` was accepted by its push service. The page's service worker may report that it was displayed, clicked or
//! closed; browsers are offline, and some pages report nothing. So acknowledgements never change a delivery's state; they come in any
//! order, and more than once.

mod envelope;
mod event;

pub use envelope::Envelope;
pub use event::AckEvent;
