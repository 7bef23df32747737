//! A receiver of webhooks, scriptable, on a port of this machine.
//!
//! It speaks HTTP/2 and HTTP/1.1 over TLS, keeps every request as it came, and checks nothing: what a request should have been
//! is for the test to say, with a verifier that is not Redial's. Every path is a receiver of its own. It answers 200
//! unless it has a script: a row of answers, each for one request, and after them 200 again. It can be taken down, so that
//! connections are refused or everything is answered with one status, and brought up again at the same address.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use redial_receivers::webhook_receiver::{Answer, WebhookReceiver};
//! use std::time::Duration;
//!
//! let receiver = WebhookReceiver::start()?;
//! receiver.script("/orders", [Answer::status(500), Answer::status(503).with_header("retry-after", "5")]);
//! // … send to receiver.url("/orders") …
//! let requests = receiver.wait_for("/orders", 3, Duration::from_secs(30)).await?;
//! assert!(requests.iter().all(|request| request.header("webhook-id") == requests[0].header("webhook-id")));
//! # Ok(()) }
//! ```

#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::net::TcpSocket;
use tokio_rustls::TlsAcceptor;

use crate::answer::{Reply, Scripts};
use crate::background::Background;
use crate::fixture::empty;
use crate::journal::{Journal, TooFew};
use crate::serve;
use crate::{ambient, tls};

pub use crate::answer::Answer;
pub use crate::tls::{Certificates, StartError};

/// As many connections may wait to be accepted: a thousand webhooks may come at once.
const BACKLOG: u32 = 1024;

/// A running receiver: one origin. It ends when it is dropped.
pub struct WebhookReceiver {
    book: Arc<Book>,
    origin: String,
    address: SocketAddr,
    ca_pem: String,
    acceptor: TlsAcceptor,
    /// None while it refuses connections.
    running: Mutex<Option<Background>>,
    /// Bound and never listening: it keeps the port while the receiver refuses connections, so that no other process gets it
    /// in the meantime. Both sockets have `SO_REUSEPORT`.
    _reserved: TcpSocket,
}

#[derive(Default)]
struct Book {
    requests: Journal<Arc<Request>>,
    scripts: Scripts,
    /// What everything is answered with for the time being.
    outage: Mutex<Option<Answer>>,
    connections: AtomicU64,
}

/// One request, as it came. It is written down when it has arrived whole and before it is answered, so one that is never
/// answered is there too.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub path: String,
    /// What followed the path's `?`, if anything did.
    pub query: Option<String>,
    pub version: Version,
    /// The number of the connection it came over, from 1.
    pub connection: u64,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// When it had arrived whole.
    pub at: Instant,
    /// The same in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The status that it was answered with, or is to be after its delay; `None` if it gets no answer.
    pub answered: Option<u16>,
}

impl Request {
    /// A header's value, if it is text; the first one, if there are more.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.body).ok()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Connections are refused, and those that are open are cut.
    Refusing,
    /// Every request is kept and answered with this status; scripts wait.
    Answering(u16),
}

impl WebhookReceiver {
    /// Starts a receiver on a free port of 127.0.0.1, with a certificate of its own.
    pub fn start() -> Result<Self, StartError> {
        Self::start_at(0)
    }

    /// The same on this port; 0 for a free one.
    pub fn start_at(port: u16) -> Result<Self, StartError> {
        Self::start_with(port, &Certificates::generate()?)
    }

    /// The same with these certificates.
    pub fn start_with(port: u16, certificates: &Certificates) -> Result<Self, StartError> {
        let acceptor = certificates.acceptor(tls::PROTOCOLS)?;
        let ca_pem = certificates.root.clone();
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // A reserved port can be shared with another socket that reserves it: this fails if there is one.
        drop(TcpListener::bind(wanted)?);
        let reserved = bound(wanted)?;
        let address = reserved.local_addr()?;
        let receiver = Self {
            book: Arc::default(),
            origin: format!("https://localhost:{}", address.port()),
            address,
            ca_pem,
            acceptor,
            running: Mutex::default(),
            _reserved: reserved,
        };
        receiver.listen()?;
        Ok(receiver)
    }

    /// `https://localhost:PORT`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The URL of a path, which begins with `/`.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Adds answers to a path's script. Each is used for one request, before the usual answer.
    pub fn script(&self, path: &str, answers: impl IntoIterator<Item = Answer>) {
        self.book.scripts.add(path, answers);
    }

    /// What a path answers after its script, from now on; 200 without a body at first.
    pub fn always(&self, path: &str, answer: Answer) {
        self.book.scripts.set_usual(path, answer);
    }

    /// Takes the receiver down, in place of an outage that there may be. From its return on nothing is answered otherwise.
    /// It waits for the receiver's own thread, a moment only.
    pub fn take_down(&self, outage: Outage) -> io::Result<()> {
        match outage {
            Outage::Refusing => {
                *lock(&self.running) = None;
                Ok(())
            }
            Outage::Answering(status) => {
                *lock(&self.book.outage) = Some(Answer::status(status));
                self.listen()
            }
        }
    }

    /// Ends an outage. From its return on the receiver listens at its address, and scripts go on.
    pub fn bring_up(&self) -> io::Result<()> {
        *lock(&self.book.outage) = None;
        self.listen()
    }

    pub fn requests(&self, path: &str) -> Vec<Arc<Request>> {
        self.book.requests.read(|all| at(all, path))
    }

    pub fn all_requests(&self) -> Vec<Arc<Request>> {
        self.book.requests.read(<[_]>::to_vec)
    }

    /// TCP connections accepted since the start, with or without a request.
    pub fn connections(&self) -> u64 {
        self.book.connections.load(Ordering::Relaxed)
    }

    /// Waits until `n` requests have been sent to a path, and returns all of them. The time is that of the caller's runtime.
    pub async fn wait_for(
        &self,
        path: &str,
        n: usize,
        within: Duration,
    ) -> Result<Vec<Arc<Request>>, TooFew<Arc<Request>>> {
        self.book.requests.wait_for(n, within, |all| at(all, path)).await
    }

    /// As [`wait_for`](Self::wait_for), over all paths together.
    pub async fn wait_for_all(
        &self,
        n: usize,
        within: Duration,
    ) -> Result<Vec<Arc<Request>>, TooFew<Arc<Request>>> {
        self.book.requests.wait_for(n, within, <[_]>::to_vec).await
    }

    fn listen(&self) -> io::Result<()> {
        let mut running = lock(&self.running);
        if running.is_none() {
            let (address, acceptor, book) = (self.address, self.acceptor.clone(), Arc::clone(&self.book));
            let connection = move |stream| {
                let (acceptor, book) = (acceptor.clone(), Arc::clone(&book));
                let number = book.connections.fetch_add(1, Ordering::Relaxed) + 1;
                async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let answer = move |parts, body| Arc::clone(&book).answer(parts, body, number);
                    serve::http(serve::http_versions(), stream, answer).await;
                }
            };
            *running = Some(Background::start("webhook-receiver", move || {
                Ok(serve::accept(bound(address)?.listen(BACKLOG)?, connection))
            })?);
        }
        Ok(())
    }
}

impl Book {
    /// Writes a request down that has arrived whole, and answers it.
    async fn answer(
        self: Arc<Self>,
        request: Parts,
        body: Bytes,
        connection: u64,
    ) -> Option<Response<Full<Bytes>>> {
        let path = request.uri.path();
        let outage = lock(&self.outage).clone();
        let answer = outage.unwrap_or_else(|| self.scripts.next(path));
        let outcome = match &answer.reply {
            Reply::Strict | Reply::Accepted(None) => Some(empty(StatusCode::OK)),
            Reply::Accepted(Some(status)) | Reply::Status(status) => Some(empty(*status)),
            Reply::Fixture(fixture) => Some(fixture.response()),
            Reply::Reset => None,
        };
        self.requests.push(Arc::new(Request {
            path: path.to_owned(),
            query: request.uri.query().map(str::to_owned),
            method: request.method,
            version: request.version,
            connection,
            headers: request.headers,
            body,
            at: ambient::monotonic(),
            at_ms: ambient::epoch_ms(),
            answered: outcome.as_ref().map(|response| response.status().as_u16()),
        }));
        answer.over(outcome).await
    }
}

/// A socket at this address that does not listen yet, and shares the address with others like it.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn at(all: &[Arc<Request>], path: &str) -> Vec<Arc<Request>> {
    all.iter().filter(|request| request.path == path).cloned().collect()
}
