//! The one place where receivers and the testkit read the clock and draw random numbers. What Redial decides takes both as arguments.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "this module alone reads the clock")]
pub fn epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |elapsed| elapsed.as_millis().try_into().unwrap_or(u64::MAX))
}

#[expect(clippy::disallowed_methods, reason = "this module alone reads the clock")]
pub fn monotonic() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "this module alone draws random numbers")]
pub fn random_bytes<const N: usize>() -> [u8; N] {
    rand::random()
}

/// 128 random bits as 32 hex digits: a name that nothing else has.
pub fn unique_name() -> String {
    format!("{:032x}", u128::from_be_bytes(random_bytes()))
}
