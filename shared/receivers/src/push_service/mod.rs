//! A push service and its browsers, scriptable, on a free port of this machine.
//!
//! It speaks what push services speak (HTTP/2 and HTTP/1.1 over TLS), answers as Mozilla's was measured
//! to answer, and opens what it gets as browsers do. Where a test wants something else, an endpoint has a
//! script: a row of answers, each for one request, and after them the strict ones again.
//!
//! What it is for is to disagree: it shares no code and no cryptographic library with the sender, it writes
//! down every problem it finds instead of failing, and it distinguishes what a service would have accepted from
//! what a browser could have shown.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use redial_receivers::push_service::{Answer, PushService};
//! use std::time::Duration;
//!
//! let service = PushService::start()?;
//! let vapid_public_key = [4; 65];
//! let browser = service.subscribe(&vapid_public_key);
//! service.script(&browser.endpoint, [Answer::status(503).with_header("Retry-After", "1")]);
//! // … send twice …
//! let received = service.wait_for(&browser.endpoint, 2, Duration::from_secs(5)).await?;
//! assert!(received.iter().all(|message| message.problems.is_empty()));
//! # Ok(()) }
//! ```

mod checks;
mod decrypt;
mod problem;
mod received;
pub mod sender;
mod service;
mod subscriber;
#[cfg(test)]
mod tests;
mod vapid;

use std::sync::Arc;
use std::time::Duration;

use crate::background::Background;
use crate::journal::TooFew;
use crate::serve::{self, Port};
use crate::tls;
use received::Entry;
use service::{Browser, Service};

pub use crate::answer::Answer;
pub use crate::fixture::Fixture;
pub use crate::tls::{Certificates, StartError};
pub use decrypt::DecryptError;
pub use problem::Problem;
pub use received::{Answered, Received};
pub use service::{Accepted, Mailbox};
pub use subscriber::Subscriber;
pub use vapid::Claims;

/// A running push service: one origin. It ends when it is dropped.
pub struct PushService {
    service: Arc<Service>,
    ca_pem: String,
    _running: Background,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub tcp_connections: u64,
    pub tls_connections: u64,
    /// POSTs to endpoints, known or not.
    pub requests: u64,
    pub tokens: usize,
}

impl PushService {
    /// Starts a service on a free port of 127.0.0.1, with a certificate of its own.
    pub fn start() -> Result<Self, StartError> {
        Self::start_with(Port::take(0)?, &Certificates::generate()?)
    }

    /// The same on this port, with these certificates.
    pub fn start_with(port: Port, certificates: &Certificates) -> Result<Self, StartError> {
        let acceptor = certificates.acceptor(tls::PROTOCOLS)?;
        let ca_pem = certificates.root.clone();
        let service = Arc::new(Service::new(format!("https://localhost:{}", port.address().port())));
        let serving = Arc::clone(&service);
        let running = port.serve("push-service", move |stream| {
            let (acceptor, service) = (acceptor.clone(), Arc::clone(&serving));
            service.counts().tcp += 1;
            async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let number = {
                    let mut counts = service.counts();
                    counts.tls += 1;
                    counts.tls
                };
                let answer = move |parts, body| Arc::clone(&service).answer(parts, body, number);
                serve::http(serve::http_versions(), stream, answer).await;
            }
        })?;
        Ok(Self { service, ca_pem, _running: running })
    }

    /// `https://localhost:PORT`.
    pub fn origin(&self) -> &str {
        &self.service.origin
    }

    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// A browser subscribes for the sender with this VAPID key: 65 bytes, uncompressed P-256. With any
    /// other bytes every message is refused, because no key is equal to them.
    pub fn subscribe(&self, vapid_public_key: &[u8]) -> Subscriber {
        let receiver = Arc::new(subscriber::new_receiver());
        let endpoint = self.service.subscribe(vapid_public_key, Browser::Played(Arc::clone(&receiver)));
        Subscriber::new(endpoint, &receiver)
    }

    /// The subscriptions alone, for those who speak with real browsers.
    pub fn subscriptions(&self) -> Subscriptions {
        Subscriptions(Arc::clone(&self.service))
    }

    /// The browser unsubscribes: from now on the strict answer is 410.
    pub fn unsubscribe(&self, endpoint: &str) {
        self.subscriptions().cancel(endpoint);
    }

    /// Adds answers to an endpoint's script. Each is used for one request, before the usual answer.
    pub fn script(&self, endpoint: &str, answers: impl IntoIterator<Item = Answer>) {
        self.service.scripts.add(self.path(endpoint), answers);
    }

    /// What the endpoint answers after its script, from now on; [`Answer::strict`] at first.
    pub fn always(&self, endpoint: &str, answer: Answer) {
        self.service.scripts.set_usual(self.path(endpoint), answer);
    }

    pub fn received(&self, endpoint: &str) -> Vec<Received> {
        show(&self.service.journal.read(|entries| at(entries, self.path(endpoint))))
    }

    pub fn received_by_all(&self) -> Vec<Received> {
        show(&self.service.journal.read(<[_]>::to_vec))
    }

    /// Waits until an endpoint has been sent `n` requests, and returns all of them. The time is that of
    /// the caller's runtime.
    pub async fn wait_for(
        &self,
        endpoint: &str,
        n: usize,
        within: Duration,
    ) -> Result<Vec<Received>, TooFew<Received>> {
        let path = self.path(endpoint);
        self.wait(n, within, |entries| at(entries, path)).await
    }

    /// As [`wait_for`](Self::wait_for), over all endpoints together.
    pub async fn wait_for_all(&self, n: usize, within: Duration) -> Result<Vec<Received>, TooFew<Received>> {
        self.wait(n, within, <[_]>::to_vec).await
    }

    pub fn counts(&self) -> Counts {
        let tally = self.service.counts();
        Counts {
            tcp_connections: tally.tcp,
            tls_connections: tally.tls,
            requests: tally.requests,
            tokens: tally.tokens.len(),
        }
    }

    async fn wait(
        &self,
        wanted: usize,
        within: Duration,
        select: impl Fn(&[Arc<Entry>]) -> Vec<Arc<Entry>>,
    ) -> Result<Vec<Received>, TooFew<Received>> {
        let found = self.service.journal.wait_for(wanted, within, select).await;
        found.map(|found| show(&found)).map_err(|few| TooFew { wanted, within, seen: show(&few.seen) })
    }

    fn path<'a>(&self, endpoint: &'a str) -> &'a str {
        self.service.path(endpoint)
    }
}

/// The subscriptions of a service, which may be changed while it runs. Keeping this does not keep the service running.
pub struct Subscriptions(Arc<Service>);

impl Subscriptions {
    /// A real browser subscribes for the sender with this VAPID key: returns its endpoint. What is accepted there goes into
    /// the mailbox. Only the browser can open it, so [`Received::plaintext`] stays absent.
    pub fn add(&self, vapid_public_key: &[u8], mailbox: Arc<dyn Mailbox>) -> String {
        self.0.subscribe(vapid_public_key, Browser::Real(mailbox))
    }

    /// The browser unsubscribes: from now on the strict answer is 410.
    pub fn cancel(&self, endpoint: &str) {
        if let Some(endpoint) = self.0.endpoints().get_mut(self.0.path(endpoint)) {
            endpoint.cancelled = true;
        }
    }
}

fn at(entries: &[Arc<Entry>], path: &str) -> Vec<Arc<Entry>> {
    entries.iter().filter(|entry| entry.path == path).cloned().collect()
}

fn show(entries: &[Arc<Entry>]) -> Vec<Received> {
    entries.iter().map(|entry| entry.show()).collect()
}
