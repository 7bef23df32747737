//! The ports to time and chance.

use std::future::Future;
use std::time::Duration;

use rand::rngs::StdRng;

use redial_core::time::Timestamp;

pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}

/// Gives out random sources.
pub trait Randomness: Send + Sync {
    /// A new, independently seeded source.
    fn rng(&self) -> StdRng;
}
