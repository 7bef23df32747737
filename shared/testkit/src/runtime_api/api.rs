//! The four calls of the Runtime API, on a socket of their own for each process.
//!
//! A socket for each process, because a call of a killed process may still lie in a buffer when the next
//! one starts: it must neither take that one's event nor answer for it.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinSet;

const PREFIX: &str = "/2018-06-01/runtime/";

pub(super) struct Invocation {
    pub(super) request_id: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) event: Bytes,
}

pub(super) enum Report {
    /// It asked for its first event: initialisation is over.
    Ready,
    InitError(Bytes),
    Response(Bytes),
    Error(Bytes),
}

pub(super) struct Api {
    pub(super) address: SocketAddr,
    pub(super) reports: mpsc::UnboundedReceiver<Report>,
    invocations: mpsc::UnboundedSender<Invocation>,
    exchange: Arc<Exchange>,
    serving: JoinSet<()>,
}

struct Exchange {
    waiting: AsyncMutex<mpsc::UnboundedReceiver<Invocation>>,
    reports: mpsc::UnboundedSender<Report>,
    /// The request that has no answer yet.
    open: Mutex<Option<String>>,
}

impl Api {
    /// Listens on a free port of 127.0.0.1 until it is dropped.
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (invocations, waiting) = mpsc::unbounded_channel();
        let (sender, reports) = mpsc::unbounded_channel();
        let exchange =
            Arc::new(Exchange { waiting: AsyncMutex::new(waiting), reports: sender, open: Mutex::default() });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&exchange)));
        Ok(Self { address, reports, invocations, exchange, serving })
    }

    pub(super) fn hand_out(&self, invocation: Invocation) {
        *self.exchange.lock() = Some(invocation.request_id.clone());
        self.invocations.send(invocation).expect("the receiving end lives in the same struct");
    }

    /// Stops, and with that ends every call that is still open.
    pub(super) async fn stop(&mut self) {
        self.serving.shutdown().await;
    }
}

impl Exchange {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, report: Report) {
        // There is no receiver any more when the host has given the process up.
        let _ = self.reports.send(report);
    }

    async fn next(&self) -> Response<Full<Bytes>> {
        self.report(Report::Ready);
        let Some(invocation) = self.waiting.lock().await.recv().await else {
            return status(StatusCode::GONE);
        };
        let mut response = Response::builder().header(CONTENT_TYPE, "application/json");
        for (name, value) in invocation.headers {
            response = response.header(name, value);
        }
        response.body(Full::new(invocation.event)).expect("the host's own headers are well formed")
    }

    /// Takes an answer, once, and only to the open request.
    fn answer(&self, request_id: &str, report: Report) -> Response<Full<Bytes>> {
        let mut open = self.lock();
        if open.as_deref() != Some(request_id) {
            let error = json!({"errorMessage": "Invalid request ID", "errorType": "InvalidRequestID"});
            return with_json(StatusCode::BAD_REQUEST, error.to_string());
        }
        *open = None;
        self.report(report);
        accepted()
    }
}

async fn serve(listener: TcpListener, exchange: Arc<Exchange>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let exchange = Arc::clone(&exchange);
        connections.spawn(async move {
            let service = service_fn(move |request| handle(request, Arc::clone(&exchange)));
            // How a connection ends is the process's affair.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn handle(
    request: Request<Incoming>,
    exchange: Arc<Exchange>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return Ok(status(StatusCode::BAD_REQUEST)) };
    let body = body.to_bytes();
    let call = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let steps: Vec<&str> = call.split('/').collect();
    Ok(match (&parts.method, steps.as_slice()) {
        (&Method::GET, ["invocation", "next"]) => exchange.next().await,
        (&Method::POST, ["invocation", id, "response"]) => exchange.answer(id, Report::Response(body)),
        (&Method::POST, ["invocation", id, "error"]) => exchange.answer(id, Report::Error(body)),
        (&Method::POST, ["init", "error"]) => {
            exchange.report(Report::InitError(body));
            accepted()
        }
        _ => status(StatusCode::NOT_FOUND),
    })
}

fn accepted() -> Response<Full<Bytes>> {
    with_json(StatusCode::ACCEPTED, json!({"status": "OK"}).to_string())
}

fn with_json(code: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = status(code);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    *response.body_mut() = Full::from(body);
    response
}

fn status(code: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = code;
    response
}
