//! The HTTP client for push services and webhooks' receivers, which never connects to internal addresses.
//!
//! An endpoint is a stranger's text, so what is posted to is checked (`allow`, `resolver`, `address`), no redirect is
//! followed, no proxy is read from the environment, no cookie is kept, and of an answer only what a verdict needs is read:
//! the status, [`Response::KEPT_HEADERS`], and the first 4 KiB of the body. And an endpoint may be slow or broken, so each
//! step has its end, and `classify` says for each failure whether the request may have arrived.
//!
//! There is one client, with one connection an origin that carries all requests (`warm_up`). Origins that are exempt from
//! the address check have a second client of their own, made only if there are any: a connection that was made without
//! the check can never serve a request that is to be checked.

mod address;
mod allow;
mod classify;
mod resolver;
mod tls;
mod warm_up;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use redial_core::endpoint::Endpoint;
use redial_core::outcome::{Impossible, InDoubt, Outcome, Response};
use redial_engine::ports::Clock;
use reqwest::{Client, redirect};
use tokio::time::{Instant, timeout_at};

pub use self::address::is_public;
pub use self::allow::{EgressAllow, EgressAllowError};
pub use self::tls::{ExtraRootError, ExtraRoots};

use self::allow::Passage;
use self::resolver::{EgressResolver, Lookup, SystemLookup};
use self::warm_up::WarmUp;

/// How long an unused connection is kept: Lambda freezes the process between invocations, and what was open before may be
/// dead after.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// How long a connection with a request on it may be silent before it is asked whether it lives.
const PING_AFTER: Duration = Duration::from_secs(5);

/// How long its answer may take.
const PING_TIMEOUT: Duration = Duration::from_secs(4);

/// Longest wait for an origin's first request; see `warm_up`.
const LONGEST_WARM_UP: Duration = Duration::from_secs(1);

/// Longest value of a kept header, in bytes. No header that is looked at is near it, and what is kept is stored.
const MAX_HEADER_VALUE: usize = 1024;

#[derive(Clone, Debug)]
pub struct EgressConfig {
    /// For resolving, connecting and TLS together. At most half of `total_timeout` is used.
    pub connect_timeout: Duration,
    /// For the whole request, to the end of the response.
    pub total_timeout: Duration,
    /// The origins that are exempt from the address and port checks.
    pub allow: EgressAllow,
    /// Root certificates beside the public ones.
    pub extra_roots: ExtraRoots,
}

impl Default for EgressConfig {
    /// 2 s to connect, 10 s in all, no exceptions.
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            total_timeout: Duration::from_secs(10),
            allow: EgressAllow::default(),
            extra_roots: ExtraRoots::default(),
        }
    }
}

/// The client. Its connections live as long as it does: one for a worker's life.
#[derive(Debug)]
pub struct Egress {
    checked: Client,
    exempt: Option<Client>,
    allow: EgressAllow,
    warm_up: WarmUp,
    total_timeout: Duration,
}

impl Egress {
    /// A client with the operating system's resolver. Must be called within a tokio runtime.
    pub fn new(config: EgressConfig) -> Self {
        Self::with_lookup(config, Arc::new(SystemLookup))
    }

    fn with_lookup(config: EgressConfig, lookup: Arc<dyn Lookup>) -> Self {
        // Waiting to be let through and connecting end well before the whole time does: when that runs out, the
        // request has left.
        let connect_timeout = config.connect_timeout.min(config.total_timeout / 2);
        let warm_up = WarmUp::new(LONGEST_WARM_UP.min(config.total_timeout / 4));
        let client = |public_only| {
            let resolver = EgressResolver { lookup: Arc::clone(&lookup), public_only };
            client(&config.extra_roots, connect_timeout, resolver)
        };
        Self {
            checked: client(true),
            exempt: (!config.allow.is_empty()).then(|| client(false)),
            allow: config.allow,
            warm_up,
            total_timeout: config.total_timeout,
        }
    }

    /// The longest that [`Egress::post`] takes.
    pub fn total_timeout(&self) -> Duration {
        self.total_timeout
    }

    /// Posts once. An answer counts from its headers on: if its body breaks off or takes too long, the answer stands with
    /// what came of it. `clock` stamps the answer.
    #[expect(
        clippy::disallowed_methods,
        reason = "a time-out ends by the runtime's clock, not by the one that stamps"
    )]
    pub async fn post(
        &self,
        endpoint: &Endpoint,
        headers: HeaderMap,
        body: Vec<u8>,
        clock: &impl Clock,
    ) -> Outcome {
        let deadline = Instant::now() + self.total_timeout;
        let client = match (self.allow.passage(endpoint), &self.exempt) {
            (Passage::Checked, _) => &self.checked,
            (Passage::Exempt, Some(exempt)) => exempt,
            (Passage::Exempt, None) | (Passage::Refused, _) => {
                return Outcome::Impossible(Impossible::EndpointNotAllowed);
            }
        };
        let origin = endpoint.origin();
        let turn = self.warm_up.enter(&origin).await;
        let request = client.post(endpoint.expose().clone()).headers(headers).body(body).send();
        let answer = match timeout_at(deadline, request).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                turn.broke();
                return classify::failed_request(&error);
            }
            Err(_) => return Outcome::InDoubt(InDoubt::Timeout),
        };
        turn.answered();
        let at = clock.now();
        let status = answer.status().as_u16();
        let headers = kept_headers(answer.headers());
        let body = first_bytes(answer, deadline).await;
        Outcome::Response(Response { status, headers, body, at })
    }
}

fn client(extra_roots: &ExtraRoots, connect_timeout: Duration, resolver: EgressResolver) -> Client {
    Client::builder()
        .tls_backend_preconfigured(tls::client_config(extra_roots))
        .dns_resolver(resolver)
        .https_only(true)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        .user_agent(concat!("redial/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(POOL_IDLE)
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .build()
        .expect("invariant: constants and a finished TLS configuration make a client")
}

fn kept_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut kept = Vec::new();
    for name in Response::KEPT_HEADERS {
        for value in headers.get_all(name) {
            if let Some(value) = value.to_str().ok().filter(|value| value.len() <= MAX_HEADER_VALUE) {
                kept.push((name.to_owned(), value.to_owned()));
            }
        }
    }
    kept
}

/// The body as far as it is read: [`Response::MAX_BODY`] bytes, or what comes until it breaks off or the time is over.
async fn first_bytes(mut answer: reqwest::Response, deadline: Instant) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < Response::MAX_BODY {
        match timeout_at(deadline, answer.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let wanted = chunk.len().min(Response::MAX_BODY - body.len());
                body.extend_from_slice(&chunk[..wanted]);
            }
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    body
}
