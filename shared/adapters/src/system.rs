//! The system's clock and randomness: the only module that reads either.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::SeedableRng;
use rand::rngs::StdRng;
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock, Randomness};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct System;

impl Clock for System {
    #[expect(clippy::disallowed_methods, reason = "this is the one adapter that reads the clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

impl Randomness for System {
    #[expect(clippy::disallowed_methods, reason = "this is the one adapter that reads randomness")]
    fn rng(&self) -> StdRng {
        StdRng::from_rng(&mut rand::rng())
    }
}
