//! A POST of a stream: whose it was, and what its answer says of its origin.

use redial_core::outcome::Outcome;
use redial_core::protection::Whose;
use redial_core::time::Timestamp;

/// What an answer says of an origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    Well,
    Fails,
    Limited,
}

impl Sign {
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Response(response) if response.status == 429 => Self::Limited,
            Outcome::Response(response) if response.status < 500 => Self::Well,
            Outcome::Response(_) | Outcome::NotSent(_) | Outcome::InDoubt(_) | Outcome::Impossible(_) => {
                Self::Fails
            }
        }
    }
}

/// A POST, and whose it was.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    pub at: Timestamp,
    pub answered: Timestamp,
    pub sign: Sign,
    pub whose: Whose,
    /// A hash of tenant and address.
    pub recipient: u64,
    pub worker: usize,
    pub is_probe: bool,
    /// Whether the origin's breaker concerned its tenant then.
    pub concerned: bool,
}
