//! The HTTP API's part of a delivery: from a request's body to a message on its lane's queue, once.
//!
//! What is accepted is what dispatch would accept: the same parser reads it. The API adds what an HTTP caller may leave out,
//! the tenant, which its key names, and an id; and it rejects at once what a queue can only reject later: an id that was used for
//! another content. It rejects such an idempotency key, too, which on the queue is the same delivery whatever it carries, because
//! here the caller reads the response.
//!
//! The order of effects is the promise: the ledger's entry first, in state `queued`; then the queue; then the response. If the worker
//! dies in between, the producer gets no response and sends again. Then the entry is there and still `queued`,
//! which leaves open whether the queue has the message, so it goes there once more: dispatch's claim drops the second. Once
//! the entry is past `queued` a worker has had the message, and nothing is sent; but for a cancelled one that no message has met, which a
//! worker is to announce.

mod accept;
mod duplicates;
mod enter;
mod openapi;
mod scheduled;

pub use accept::{Accepted, accept};
pub use duplicates::Answer;
pub use enter::enter;
pub use openapi::openapi;
pub use scheduled::over_quota;

use redial_core::access::TokenKeys;
use redial_core::endpoint::{HashKeys, Origin, PushHosts};
use redial_core::push_target::PushKeys;
use redial_core::quota;
use redial_core::rate::Rate;
use redial_core::subscription::SameEndpoint;

/// The operator's settings of the HTTP API.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What browsers' tokens are made with.
    pub token_keys: TokenKeys,
    pub hash_keys: HashKeys,
    /// The hosts that may be pushed to.
    pub push_hosts: PushHosts,
    /// Origins that may be pushed to besides: tests' and the local stack's.
    pub egress_allow: Vec<Origin>,
    /// Whether a browser's key is a point of its curve: cryptography, and so an adapter's.
    pub is_on_curve: fn(&PushKeys) -> bool,
    /// The sites whose pages may call.
    pub cors_origins: Vec<Origin>,
    /// How many messages and other requests of an API key are accepted; `None`: any number.
    pub rate: Option<Rate>,
    /// What each tenant may have, unless it has quotas of its own.
    pub quotas: quota::Limits,
    /// What becomes of an endpoint that another subscription of the tenant has.
    pub same_endpoint: SameEndpoint,
}
