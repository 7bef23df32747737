//! The HTTP client of one origin: hyper's, with an end to connecting.
//!
//! hyper's own and not one with redirects, proxies and cookies around it: what is posted never needs those, and they took as many
//! instructions as the rest of posting, most of them to read the endpoint's address twice more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{ACCEPT, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::{BoxError, Service};

use super::classify;
use super::resolver::EgressResolver;

/// How many idle connections an origin keeps that speaks HTTP/1.1; HTTP/2 needs one.
const MOST_IDLE: usize = 8;

/// How long an unused connection is kept: Lambda freezes the process between invocations, and what was open before may be
/// dead after.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// How long a connection with a request on it may be silent before it is asked whether it lives.
const PING_AFTER: Duration = Duration::from_secs(5);

/// How long its answer may take.
const PING_TIMEOUT: Duration = Duration::from_secs(4);

/// After how much silence TCP looks after a connection, how often from then on, and how many times.
const KEEP_ALIVE: (Duration, u32) = (Duration::from_secs(15), 3);

/// How often a request is sent again that its receiver has refused to take up.
const MOST_REFUSALS: usize = 2;

/// Clones share their connections.
#[derive(Clone)]
pub(super) struct Client(legacy::Client<Connector, Full<Bytes>>);

impl Client {
    pub(super) fn new(tls: Arc<ClientConfig>, resolver: EgressResolver, connect_timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE.0));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE.0));
        tcp.set_keepalive_retries(Some(KEEP_ALIVE.1));
        let mut https = HttpsConnector::from((tcp, tls));
        https.enforce_https();
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(MOST_IDLE)
            .http2_keep_alive_interval(PING_AFTER)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .build(Connector { https, within: connect_timeout });
        Self(client)
    }

    /// Posts. A request that the receiver has refused to take up (RFC 9113, section 8.7) is sent again.
    pub(super) async fn post(
        &self,
        to: Uri,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, legacy::Error> {
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("redial/", env!("CARGO_PKG_VERSION"))));
        for _ in 0..MOST_REFUSALS {
            match self.0.request(request(&to, headers.clone(), &body)).await {
                Err(error) if classify::is_refused(&error) => {}
                ended => return ended,
            }
        }
        self.0.request(request(&to, headers, &body)).await
    }
}

fn request(to: &Uri, headers: HeaderMap, body: &Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = to.clone();
    *request.headers_mut() = headers;
    request
}

/// Connecting, TLS included, took too long.
#[derive(Debug, thiserror::Error)]
#[error("connecting took too long")]
pub(super) struct ConnectTimedOut;

/// Resolves, connects and agrees on TLS, all within one time.
#[derive(Clone)]
struct Connector {
    https: HttpsConnector<HttpConnector<EgressResolver>>,
    within: Duration,
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = timeout(self.within, self.https.call(to));
        Box::pin(async { connecting.await.unwrap_or_else(|_| Err(ConnectTimedOut.into())) })
    }
}
