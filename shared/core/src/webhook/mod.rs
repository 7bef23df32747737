//! Webhooks, as Standard Webhooks (1.0) defines them.

mod headers;
mod health;
mod secret;
mod signature;

use std::time::Duration;

pub use headers::{CustomHeaders, HeaderError, Permitted};
pub use health::{Health, SWITCHED_OFF_AFTER};
pub use secret::{SigningSecrets, WebhookSecret};
pub use signature::signatures;

use crate::endpoint::Endpoint;

/// How long one attempt may take (Standard Webhooks recommends 15 to 30 s).
pub const TIMEOUT: Duration = Duration::from_secs(15);

/// The longest body, in bytes.
pub const MAX_BODY: usize = 256 * 1024;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookTarget {
    /// Where to post to.
    pub endpoint: Endpoint,
    /// Without any, messages are signed with the tenant's own.
    pub secrets: SigningSecrets,
    pub headers: CustomHeaders,
}

impl WebhookTarget {
    pub fn at(endpoint: Endpoint) -> Self {
        Self { endpoint, secrets: SigningSecrets::default(), headers: CustomHeaders::default() }
    }
}
