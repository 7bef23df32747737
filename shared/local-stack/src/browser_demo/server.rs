//! A small HTTP server on this machine, whose answers are a function.

use std::sync::Arc;

use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Response, StatusCode,
    body::Bytes,
    header::{HeaderName, HeaderValue},
};
use redial_receivers::serve::{self, Port};
use serde_json::Value;
use tokio::task::JoinSet;

const LONGEST_BODY: usize = 256 * 1024;

/// A request that has arrived whole.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub path: String,
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
                    let asked = Asked { method: parts.method, path, body, headers: parts.headers };
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
