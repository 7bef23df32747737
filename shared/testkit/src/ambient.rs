//! The kit's one door to the clock and to chance. What Redial decides takes both as arguments; the kit
//! plays the outside world, so it may read them, but only here.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "the kit's one door to the clock")]
pub(crate) fn epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |elapsed| elapsed.as_millis().try_into().unwrap_or(u64::MAX))
}

/// A point of the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "the kit's one door to the clock")]
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// `N` random bytes.
#[expect(clippy::disallowed_methods, reason = "the kit's one door to chance")]
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    rand::random()
}

/// 128 random bits as 32 hex digits: a name that nothing else has.
pub(crate) fn unique_name() -> String {
    format!("{:032x}", u128::from_be_bytes(random_bytes()))
}
