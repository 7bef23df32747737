//! The runtime's clock, which a test can pause: for windows and periods. The wall clock is [`crate::ambient`]'s.

use tokio::time::Instant;

#[expect(clippy::disallowed_methods, reason = "this module alone reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
