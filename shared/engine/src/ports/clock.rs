//! The ports to time and chance.

use std::future::Future;
use std::time::Duration;

use rand::rngs::StdRng;

use redial_core::time::Timestamp;

/// Tells and spends time.
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;

    /// Waits.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}

/// Gives out random sources.
pub trait Randomness: Send + Sync {
    /// A new, independently seeded source.
    fn rng(&self) -> StdRng;
}
