//! What dispatch is set to, and what one invocation has.

use std::time::Duration;

use redial_core::access::TokenKeys;
use redial_core::endpoint::{HashKeys, Origin, PushHosts};
use redial_core::gate::WAITED_OUT_INSIDE;
use redial_core::route::WaitSettings;
use redial_core::time::Timestamp;

/// How long the first outcome of a batch waits for the others before it is recorded.
pub const LINGER: Duration = Duration::from_millis(100);

/// The most attempts of one batch that are under way together.
pub const CONCURRENCY: usize = 64;

/// What an invocation keeps in reserve for recording and handing off after its last attempt.
pub const RESERVE: Duration = Duration::from_secs(2);

/// The time that an invocation needs for an attempt that takes this long: the wait before it, and what follows it.
pub fn time_for(attempt: Duration) -> Duration {
    attempt + WAITED_OUT_INSIDE + RESERVE
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub waits: WaitSettings,
    /// The hosts that may be pushed to.
    pub push_hosts: PushHosts,
    /// Origins that may be pushed to besides: tests' and the local stack's.
    pub egress_allow: Vec<Origin>,
    /// What endpoints are hashed with.
    pub hash_keys: HashKeys,
    /// How long a lease outlives its invocation.
    pub lease_margin: Duration,
    /// What the tokens are made with by which browsers acknowledge.
    pub token_keys: TokenKeys,
    /// How long a webhook's receiver may fail without one success.
    pub switched_off_after: Duration,
}

/// One invocation of the function.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// New for each: what its claims are fenced with.
    pub lease_token: String,
    /// When the function is stopped.
    pub deadline: Timestamp,
}

impl Invocation {
    /// Whether too little time is left at `now` to begin another page of work.
    pub(super) fn is_ending(&self, now: Timestamp) -> bool {
        now.plus(RESERVE) >= self.deadline
    }
}
