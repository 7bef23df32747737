//! A small HTTP server of a page on this machine, whose answers are a function.
//!
//! A page of another site must neither read its answers nor change anything by it: [`Names`] refuses what was not meant for this
//! server, and [`protect`] sets the headers that keep its page to itself.

use std::sync::Arc;

use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Response, StatusCode,
    body::Bytes,
    header::{HeaderName, HeaderValue},
};
use serde_json::{Value, json as object};
use tokio::task::JoinSet;

use crate::serve::{self, Port};

const LONGEST_BODY: usize = 256 * 1024;

/// A request that has arrived whole.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub path: String,
    /// What follows the path's `?`.
    pub query: String,
    pub body: Bytes,
    headers: HeaderMap,
}

impl Asked {
    /// A header's value, if it has one and that is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

pub trait Answers: Send + Sync + 'static {
    /// The answer to a request; `None` cuts the connection.
    fn answer(&self, asked: Asked) -> impl Future<Output = Option<Response<Full<Bytes>>>> + Send;
}

#[derive(Debug)]
pub struct Server {
    _running: JoinSet<()>,
}

impl Server {
    /// Answers at a port from now on.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn start(port: Port, answers: Arc<impl Answers>) -> Self {
        let listener = port.listen().expect("invariant: a port that was just taken can be listened at");
        let connection = move |stream| {
            // A browser repeats a request by itself if a connection ends that was used before. So each has one request: what
            // is then repeated is repeated by the page or the service worker.
            let mut builder = serve::http_versions();
            builder.http1().keep_alive(false);
            let answers = Arc::clone(&answers);
            serve::http(builder, stream, move |parts, body| {
                let answers = Arc::clone(&answers);
                async move {
                    if body.len() > LONGEST_BODY {
                        return Some(answer(StatusCode::PAYLOAD_TOO_LARGE, "text/plain", "too long"));
                    }
                    let path = parts.uri.path().to_owned();
                    let query = parts.uri.query().unwrap_or_default().to_owned();
                    let asked = Asked { method: parts.method, path, query, body, headers: parts.headers };
                    answers.answer(asked).await
                }
            })
        };
        let mut running = JoinSet::new();
        running.spawn(serve::accept(listener, connection));
        Self { _running: running }
    }
}

pub fn answer(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", HeaderValue::from_static(media_type));
    response
}

pub fn json(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    answer(status, "application/json", body.to_string())
}

/// Sets a header.
///
/// # Panics
/// If the value has characters that no header may have.
pub fn set(response: &mut Response<Full<Bytes>>, name: &'static str, value: &str) {
    let value = HeaderValue::from_str(value).expect("invariant: visible ASCII");
    response.headers_mut().insert(HeaderName::from_static(name), value);
}

/// An answer that says in a few words what is wrong.
pub fn problem(status: StatusCode, title: &str) -> Response<Full<Bytes>> {
    json(status, &object!({"title": title}))
}

/// The names under which a browser on this machine reaches a server at a port of the loopback interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Names([String; 2]);

impl Names {
    pub fn at(port: u16) -> Self {
        Self(["localhost", "127.0.0.1"].map(|name| format!("{name}:{port}")))
    }

    /// The answer to a request that was not meant for this server, or that another site's page made.
    ///
    /// Any page can give a name of its own this machine's address, and read the answers (DNS rebinding): the name in `Host` is then
    /// its own. A request that another site's page makes has that site in `Origin`.
    pub fn refusal(&self, asked: &Asked) -> Option<Response<Full<Bytes>>> {
        let is_own = |host: &str| self.0.iter().any(|name| name == host);
        if !asked.header("host").is_some_and(is_own) {
            return Some(problem(StatusCode::MISDIRECTED_REQUEST, "not a name of this machine"));
        }
        let is_own_origin = |origin: &str| origin.strip_prefix("http://").is_some_and(is_own);
        if asked.header("origin").is_some_and(|origin| !is_own_origin(origin)) {
            return Some(problem(StatusCode::FORBIDDEN, "Origin: a page of another site"));
        }
        None
    }
}

/// Sets what keeps a page to itself: its content policy, and that no other site embeds it or reads it, and no cache keeps it.
///
/// # Panics
/// If the policy has characters that no header may have.
pub fn protect(response: &mut Response<Full<Bytes>>, policy: &str) {
    set(response, "content-security-policy", policy);
    set(response, "cross-origin-resource-policy", "same-origin");
    set(response, "x-content-type-options", "nosniff");
    set(response, "referrer-policy", "no-referrer");
    set(response, "cache-control", "no-store");
}
