//! Spreading delays at random, so that a thousand failures do not come back in one second.

use std::time::Duration;

use rand::{Rng, RngExt};

/// How a delay is spread around its nominal value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Jitter {
    /// Anywhere from zero to the nominal delay: the widest spread (article 000).
    Full,
    /// Half of it fixed, half random: keeps a minimum distance.
    Equal,
    /// The nominal delay and up to this fraction of it on top (articles 001 and 002); 0 to 10.
    Additive {
        /// Share of the nominal delay.
        fraction: f64,
    },
    /// The nominal delay and up to so many milliseconds on top (000's code).
    Bounded {
        /// Milliseconds.
        ms: u64,
    },
    /// No randomness: for receivers that are alone, and for tables.
    None,
}

impl Jitter {
    /// A delay drawn around `nominal`; never longer than [`Self::range`]'s end.
    pub fn spread(self, nominal: Duration, rng: &mut dyn Rng) -> Duration {
        let (low, high) = self.range(nominal);
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(rng.random_range(ms(low)..=ms(high)))
    }

    /// The shortest and the longest delay that can be drawn around `nominal`.
    pub fn range(self, nominal: Duration) -> (Duration, Duration) {
        match self {
            Self::Full => (Duration::ZERO, nominal),
            Self::Equal => (nominal / 2, nominal),
            Self::Additive { fraction } => (nominal, nominal.saturating_add(scaled(nominal, fraction))),
            Self::Bounded { ms } => (nominal, nominal.saturating_add(Duration::from_millis(ms))),
            Self::None => (nominal, nominal),
        }
    }
}

/// `duration · factor`, saturating; `factor` is finite and not negative.
pub(super) fn scaled(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}
