//! A client for each origin, and for [`MOST_ORIGINS`] of them at most.
//!
//! A client keeps its idle connections open, and a function's process has 1,024 file descriptors. One client for all origins would
//! keep a connection for each, as many as a tenant has names. With a client for each origin, the connections of the origin that has
//! not been posted to for longest are closed when there is no room for another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redial_core::endpoint::Origin;
use reqwest::Client;
use rustls::ClientConfig;
use tokio::time::Instant;

use super::resolver::{EgressResolver, Lookup};
use super::tls::client_builder;

/// How many origins have connections that are kept. A worker has two of these pools, one for pushes and one for webhooks.
pub(super) const MOST_ORIGINS: usize = 48;

/// How many idle connections an origin keeps that speaks HTTP/1.1; HTTP/2 needs one.
const MOST_IDLE: usize = 8;

/// How long an unused connection is kept: Lambda freezes the process between invocations, and what was open before may be
/// dead after.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// How long a connection with a request on it may be silent before it is asked whether it lives.
const PING_AFTER: Duration = Duration::from_secs(5);

/// How long its answer may take.
const PING_TIMEOUT: Duration = Duration::from_secs(4);

pub(super) struct Connections {
    tls: ClientConfig,
    connect_timeout: Duration,
    lookup: Arc<dyn Lookup>,
    clients: Mutex<HashMap<Origin, Kept>>,
}

struct Kept {
    client: Client,
    used: Instant,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connections")
    }
}

impl Connections {
    pub(super) fn new(tls: ClientConfig, connect_timeout: Duration, lookup: Arc<dyn Lookup>) -> Self {
        Self { tls, connect_timeout, lookup, clients: Mutex::default() }
    }

    /// The client of that origin. `public_only` says whether it refuses addresses that are not public; it is the same for an origin
    /// each time.
    #[expect(clippy::disallowed_methods, reason = "connections age by the runtime's clock")]
    pub(super) fn of(&self, origin: &Origin, public_only: bool) -> Client {
        let now = Instant::now();
        // No change under this lock can be left half done.
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = clients.get_mut(origin) {
            kept.used = now;
            return kept.client.clone();
        }
        if clients.len() >= MOST_ORIGINS {
            let oldest = clients.iter().min_by_key(|(_, kept)| kept.used).map(|(origin, _)| origin.clone());
            // Requests under way have clones of it, and end.
            oldest.map(|oldest| clients.remove(&oldest));
        }
        let client = self.make(public_only);
        clients.insert(origin.clone(), Kept { client: client.clone(), used: now });
        client
    }

    fn make(&self, public_only: bool) -> Client {
        client_builder(self.tls.clone())
            .dns_resolver(EgressResolver { lookup: Arc::clone(&self.lookup), public_only })
            .https_only(true)
            .user_agent(concat!("redial/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.connect_timeout)
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(MOST_IDLE)
            .http2_keep_alive_interval(PING_AFTER)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .build()
            .expect("invariant: constants and a finished TLS configuration make a client")
    }
}
