//! The HTTP client for push services and webhooks' receivers, which never connects to internal addresses.
//!
//! An endpoint is a stranger's text, so what is posted to is checked (`allow`, `resolver`, `address`), no redirect is
//! followed, no proxy is read from the environment, no cookie is kept, and of an answer only what a verdict needs is read:
//! the status, [`Response::KEPT_HEADERS`], and the first 4 KiB of the body. And an endpoint may be slow or broken, so each
//! step has its end, and `classify` says for each failure whether the request may have arrived.
//!
//! Each origin has a client of its own (`connections`), with one connection that carries all requests (`warm_up`): a connection that
//! was made without the address check, to an origin that is exempt from it, can never serve a request that is to be checked.

mod address;
mod allow;
mod classify;
mod connections;
mod resolver;
mod tls;
mod warm_up;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, Method};
use redial_core::endpoint::Endpoint;
use redial_core::outcome::{Impossible, InDoubt, Outcome, Response};
use redial_engine::ports::Clock;
use reqwest::Request;
use tokio::time::{Instant, timeout_at};

pub use self::address::is_public;
pub use self::allow::{EgressAllow, EgressAllowError};
pub use self::tls::{ExtraRootError, ExtraRoots};
pub(crate) use self::tls::{client_builder, client_config};

use self::allow::Passage;
use self::connections::Connections;
use self::resolver::{Lookup, SystemLookup};
use self::warm_up::WarmUp;

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

/// The clients of a worker, for as long as it lives.
#[derive(Debug)]
pub struct Egress {
    connections: Connections,
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
        // Waiting to be let through and connecting end well before the whole time does, and connecting before any `within`: when that
        // runs out, the request has left.
        let connect_timeout = config.connect_timeout.min(config.total_timeout / 2);
        let warm_up = WarmUp::new(LONGEST_WARM_UP.min(config.total_timeout / 4));
        Self {
            connections: Connections::new(
                client_config(config.extra_roots.with_public()),
                connect_timeout,
                lookup,
            ),
            allow: config.allow,
            warm_up,
            total_timeout: config.total_timeout,
        }
    }

    /// The longest that [`Egress::post`] takes.
    pub fn total_timeout(&self) -> Duration {
        self.total_timeout
    }

    /// Posts once; an answer has to come `within` that time and [`Egress::total_timeout`]. An answer counts from its headers on: if its
    /// body breaks off or takes too long, the answer stands with what came of it. `clock` stamps the answer.
    #[expect(
        clippy::disallowed_methods,
        reason = "a time-out ends by the runtime's clock, not by the one that stamps"
    )]
    pub async fn post(
        &self,
        endpoint: &Endpoint,
        headers: HeaderMap,
        body: Vec<u8>,
        within: Duration,
        clock: &impl Clock,
    ) -> Outcome {
        let deadline = Instant::now() + self.total_timeout;
        let public_only = match self.allow.passage(endpoint) {
            Passage::Checked => true,
            Passage::Exempt => false,
            Passage::Refused => return Outcome::Impossible(Impossible::EndpointNotAllowed),
        };
        let origin = endpoint.origin();
        let turn = self.warm_up.enter(&origin).await;
        // A wait for another request's connection is not the receiver's.
        let deadline = deadline.min(Instant::now() + within);
        let client = self.connections.of(&origin, public_only);
        // Without a builder, which reads the address for a user's name and moves each header.
        let mut request = Request::new(Method::POST, endpoint.expose().clone());
        *request.headers_mut() = headers;
        if body.is_empty() {
            // hyper sends no length for no body over HTTP/1.1, and some servers answer a POST without one with 411 (RFC 9110, section 8.6).
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        *request.body_mut() = Some(body.into());
        let answer = match timeout_at(deadline, client.execute(request)).await {
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
