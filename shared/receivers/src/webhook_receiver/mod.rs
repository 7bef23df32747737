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

mod answer;
mod book;
mod request;
mod serve;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpSocket;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::background::Background;
use crate::tls;
use book::Book;
use serve::Command;

pub use crate::tls::StartError;
pub use answer::Answer;
pub use request::Request;

/// A running receiver: one origin. It ends when it is dropped.
pub struct WebhookReceiver {
    book: Arc<Book>,
    origin: String,
    ca_pem: String,
    commands: UnboundedSender<Command>,
    _running: Background,
    /// Bound and never listening: it keeps the port while the receiver refuses connections.
    _reserved: TcpSocket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Connections are refused, and those that are open are cut.
    Refusing,
    /// Every request is kept and answered with this status; scripts wait.
    Answering(u16),
}

#[derive(Debug, Error)]
#[error("waited {within:?} for {wanted} requests and saw {}", seen.len())]
pub struct TooFew {
    pub wanted: usize,
    pub within: Duration,
    pub seen: Vec<Arc<Request>>,
}

impl WebhookReceiver {
    /// Starts a receiver on a free port of 127.0.0.1, with a certificate of its own.
    pub fn start() -> Result<Self, StartError> {
        Self::start_at(0)
    }

    /// The same on this port; 0 for a free one.
    pub fn start_at(port: u16) -> Result<Self, StartError> {
        let tls::Identity { ca_pem, acceptor } = tls::identity()?;
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // A reserved port can be shared with another socket that reserves it: this fails if there is one.
        drop(TcpListener::bind(wanted)?);
        let reserved = serve::bound(wanted)?;
        let address = reserved.local_addr()?;
        let book = Arc::new(Book::default());
        let (commands, received) = unbounded_channel();
        let serving = Arc::clone(&book);
        let running = Background::start("webhook-receiver", move || {
            serve::serve(address, acceptor, serving, received)
        })?;
        let receiver = Self {
            book,
            origin: format!("https://localhost:{}", address.port()),
            ca_pem,
            commands,
            _running: running,
            _reserved: reserved,
        };
        receiver.listen(true)?;
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
        self.book.with_path(path, |it| it.script.extend(answers));
    }

    /// What a path answers after its script, from now on; 200 without a body at first.
    pub fn always(&self, path: &str, answer: Answer) {
        self.book.with_path(path, |it| it.usual = Some(answer));
    }

    /// Takes the receiver down, in place of an outage that there may be. From its return on nothing is answered otherwise.
    /// It waits for the receiver's own thread, a moment only.
    pub fn take_down(&self, outage: Outage) -> io::Result<()> {
        match outage {
            Outage::Refusing => self.listen(false),
            Outage::Answering(status) => {
                self.book.set_outage(Some(Answer::status(status)));
                self.listen(true)
            }
        }
    }

    /// Ends an outage. From its return on the receiver listens at its address, and scripts go on.
    pub fn bring_up(&self) -> io::Result<()> {
        self.book.set_outage(None);
        self.listen(true)
    }

    pub fn requests(&self, path: &str) -> Vec<Arc<Request>> {
        self.book.requests.read(|all| at(all, path))
    }

    pub fn all_requests(&self) -> Vec<Arc<Request>> {
        self.book.requests.read(<[_]>::to_vec)
    }

    /// TCP connections accepted since the start, with or without a request.
    pub fn connections(&self) -> u64 {
        self.book.connections()
    }

    /// Waits until `n` requests have been sent to a path, and returns all of them. The time is that of the caller's runtime.
    pub async fn wait_for(
        &self,
        path: &str,
        n: usize,
        within: Duration,
    ) -> Result<Vec<Arc<Request>>, TooFew> {
        self.wait(n, within, |all| at(all, path)).await
    }

    /// As [`wait_for`](Self::wait_for), over all paths together.
    pub async fn wait_for_all(&self, n: usize, within: Duration) -> Result<Vec<Arc<Request>>, TooFew> {
        self.wait(n, within, <[_]>::to_vec).await
    }

    async fn wait(
        &self,
        wanted: usize,
        within: Duration,
        select: impl Fn(&[Arc<Request>]) -> Vec<Arc<Request>>,
    ) -> Result<Vec<Arc<Request>>, TooFew> {
        let enough = |all: &[Arc<Request>]| Some(select(all)).filter(|found| found.len() >= wanted);
        match self.book.requests.wait(within, enough).await {
            Some(found) => Ok(found),
            None => Err(TooFew { wanted, within, seen: self.book.requests.read(select) }),
        }
    }

    fn listen(&self, listening: bool) -> io::Result<()> {
        let (done, carried_out) = mpsc::channel();
        self.commands.send(Command { listening, done }).map_err(io::Error::other)?;
        carried_out.recv().map_err(io::Error::other)?
    }
}

fn at(all: &[Arc<Request>], path: &str) -> Vec<Arc<Request>> {
    all.iter().filter(|request| request.path == path).cloned().collect()
}
