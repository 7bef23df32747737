//! A small HTTP server on this machine, whose answers are a function.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{HeaderName, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

const LONGEST_BODY: usize = 256 * 1024;

/// After a connection could not be taken, which passes: too many open files, say.
const BREATH: Duration = Duration::from_millis(100);

/// A port of 127.0.0.1 that is held, and does not answer yet: what is to answer there may have to know it first.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    number: u16,
}

impl Port {
    /// Takes this port; 0 is any that is free.
    ///
    /// # Errors
    /// If it is in use, or only root may bind it.
    pub async fn take(number: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, number))).await?;
        let number = listener.local_addr()?.port();
        Ok(Self { listener, number })
    }

    pub fn number(&self) -> u16 {
        self.number
    }

    /// The origin at this port: to a browser `localhost` and `127.0.0.1` are two origins.
    pub fn origin(&self, host: &str) -> String {
        format!("http://{host}:{}", self.number)
    }
}

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
    pub fn start(port: Port, answers: Arc<impl Answers>) -> Self {
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                match port.listener.accept().await {
                    Ok((stream, _)) => {
                        connections.spawn(connection(stream, Arc::clone(&answers)));
                    }
                    Err(_) => tokio::time::sleep(BREATH).await,
                }
                while connections.try_join_next().is_some() {}
            }
        });
        Self { _running: running }
    }
}

async fn connection(stream: TcpStream, answers: Arc<impl Answers>) {
    let service = service_fn(|request| {
        let answers = Arc::clone(&answers);
        async move {
            let answer = match asked(request).await {
                Some(asked) => answers.answer(asked).await,
                None => Some(answer(StatusCode::PAYLOAD_TOO_LARGE, "text/plain", "too long")),
            };
            answer.ok_or_else(|| io::Error::other("this request gets no answer"))
        }
    });
    // A browser repeats a request by itself if a connection ends that was used before. So each has one request: what is then
    // repeated is repeated by the page or the service worker.
    let mut builder = hyper::server::conn::http1::Builder::new();
    // How a connection ends is the browser's affair.
    let _ended = builder.keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
}

/// `None` if its body is too long, or breaks off.
async fn asked(request: Request<Incoming>) -> Option<Asked> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, LONGEST_BODY).collect().await.ok()?.to_bytes();
    Some(Asked { method: parts.method, path: parts.uri.path().to_owned(), body, headers: parts.headers })
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
