//! The four calls of the Runtime API, on a socket of their own for each process.
//!
//! A socket for each process, because a call of a killed process may still lie in a buffer when the next
//! one starts: it must neither take that one's event nor answer for it. The address has a path that only the process is given,
//! because every user of the machine, and every page in a browser, can connect to the socket.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinSet;

use crate::ambient;
use crate::serve::{self, Port};

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
    /// `http://127.0.0.1:PORT/SECRET`
    pub(super) url: String,
    pub(super) reports: mpsc::UnboundedReceiver<Report>,
    invocations: mpsc::UnboundedSender<Invocation>,
    exchange: Arc<Exchange>,
    serving: JoinSet<()>,
}

struct Exchange {
    /// What the path of every call begins with.
    root: String,
    waiting: AsyncMutex<mpsc::UnboundedReceiver<Invocation>>,
    reports: mpsc::UnboundedSender<Report>,
    /// The request that has no answer yet.
    open: Mutex<Option<String>>,
}

impl Api {
    /// Listens on a free port of 127.0.0.1 until it is dropped.
    pub(super) fn start() -> io::Result<Self> {
        let port = Port::take(0)?;
        let root = format!("/{}", ambient::unique_name());
        let url = format!("{}{root}", port.origin("127.0.0.1"));
        let (invocations, waiting) = mpsc::unbounded_channel();
        let (sender, reports) = mpsc::unbounded_channel();
        let exchange = Arc::new(Exchange {
            root,
            waiting: AsyncMutex::new(waiting),
            reports: sender,
            open: Mutex::default(),
        });
        let mut serving = JoinSet::new();
        let answering = Arc::clone(&exchange);
        serving.spawn(serve::accept(port.listen()?, move |stream| {
            let exchange = Arc::clone(&answering);
            serve::http(serve::http_versions(), stream, move |parts, body| {
                Arc::clone(&exchange).handle(parts, body)
            })
        }));
        Ok(Self { url, reports, invocations, exchange, serving })
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
    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, report: Report) {
        // There is no receiver any more when the host has given the process up.
        let _ = self.reports.send(report);
    }

    async fn handle(self: Arc<Self>, request: Parts, body: Bytes) -> Option<Response<Full<Bytes>>> {
        let call = request.uri.path().strip_prefix(&self.root).and_then(|path| path.strip_prefix(PREFIX));
        let call = call.unwrap_or_default();
        let steps: Vec<&str> = call.split('/').collect();
        Some(match (&request.method, steps.as_slice()) {
            (&Method::GET, ["invocation", "next"]) => self.next().await,
            (&Method::POST, ["invocation", id, "response"]) => self.answer(id, Report::Response(body)),
            (&Method::POST, ["invocation", id, "error"]) => self.answer(id, Report::Error(body)),
            (&Method::POST, ["init", "error"]) => {
                self.report(Report::InitError(body));
                with_json(StatusCode::ACCEPTED, &json!({"status": "OK"}))
            }
            _ => with_json(StatusCode::NOT_FOUND, &Value::Null),
        })
    }

    async fn next(&self) -> Response<Full<Bytes>> {
        self.report(Report::Ready);
        let Some(invocation) = self.waiting.lock().await.recv().await else {
            return with_json(StatusCode::GONE, &Value::Null);
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
            return with_json(StatusCode::BAD_REQUEST, &error);
        }
        *open = None;
        self.report(report);
        with_json(StatusCode::ACCEPTED, &json!({"status": "OK"}))
    }
}

fn with_json(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    response.body(Full::from(body.to_string())).expect("a status and one header are well formed")
}
