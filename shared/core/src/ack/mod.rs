//! Acknowledgements: what became of a push on its user's screen, as the browser tells it.
//!
//! A push that is `sent` was accepted by its push service, and no more is known of it. That it was displayed, clicked or
//! closed is told by the page's service worker, perhaps: browsers are offline, and users have no service worker that tells.
//! So acknowledgements stand beside a delivery's state and never change it; they come in any order, and more than once.
//!
//! | file | concept |
//! |---|---|
//! | `event` | what may be told |
//! | `envelope` | what a browser gets so that it can tell: the payload, and the delivery's id and token beside it |

mod envelope;
mod event;

pub use envelope::Envelope;
pub use event::AckEvent;
