//! A push server for real browsers: what Mozilla's is to Firefox, on free ports of this machine.
//!
//! It has the two sides of the real one. A browser connects to a websocket and says hello; a page that subscribes is given an
//! endpoint there, and messages come over it. Senders post to the endpoint, which is [`PushService`]'s: the same TLS, checks,
//! VAPID verification, scripts and journal as with a browser that is only played. What is accepted there goes on to the browser
//! as it is, still sealed; whether it could be opened, only the browser knows, and says so ([`Code`]).
//!
//! What it keeps true: an accepted message is sent again after every hello until the browser acknowledges it or its TTL has
//! passed; one with a TTL of 0 is never kept; after an unsubscription the endpoint answers 410.
//!
//! Firefox connects by itself some seconds after its start, and a page that subscribes before that waits for ever. So a test
//! waits for [`Event::Hello`] first.
//!
//! ```no_run
//! # async fn example() -> Option<()> {
//! use redial_testkit::autopush::{Autopush, Event};
//! use std::time::Duration;
//!
//! let server = Autopush::start().ok()?;
//! // … start a browser with `dom.push.serverURL` set to `server.websocket_url()` …
//! server
//!     .wait(Duration::from_secs(30), |events| {
//!         events.iter().any(|event| matches!(event, Event::Hello { .. })).then_some(())
//!     })
//!     .await
//! # }
//! ```

mod browsers;
mod event;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::background::Background;
use crate::push_service::{PushService, StartError};
use crate::serve::Port;
use browsers::Browsers;

pub use event::{Code, Event, Why};

/// A running push server. It ends when it is dropped.
pub struct Autopush {
    browsers: Arc<Browsers>,
    address: SocketAddr,
    endpoints: PushService,
    _running: Background,
}

impl Autopush {
    /// Starts both sides on free ports of 127.0.0.1.
    pub fn start() -> Result<Self, StartError> {
        let endpoints = PushService::start()?;
        let port = Port::take(0)?;
        let address = port.address();
        let browsers = Arc::new(Browsers::new(endpoints.subscriptions()));
        let serving = Arc::clone(&browsers);
        let running =
            port.serve("autopush", move |stream| socket::connection(stream, Arc::clone(&serving)))?;
        Ok(Self { browsers, address, endpoints, _running: running })
    }

    /// `ws://127.0.0.1:PORT/`: Firefox's preference `dom.push.serverURL`.
    pub fn websocket_url(&self) -> String {
        format!("ws://{}/", self.address)
    }

    /// The side that senders post to: its origin, its certificate, its scripts and what it received.
    pub fn endpoints(&self) -> &PushService {
        &self.endpoints
    }

    pub fn events(&self) -> Vec<Event> {
        self.browsers.journal.read(<[_]>::to_vec)
    }

    /// Waits until the reader finds what it looks for among all events so far; `None` when the time is up first. The time is
    /// that of the caller's runtime.
    pub async fn wait<R>(&self, within: Duration, reader: impl FnMut(&[Event]) -> Option<R>) -> Option<R> {
        self.browsers.journal.wait(within, reader).await
    }

    /// All browsers are away from now on: their connections end, and none is taken until [`let_in`](Self::let_in).
    pub fn lock_out(&self) {
        self.browsers.set_shut(true);
    }

    /// Browsers may connect again.
    pub fn let_in(&self) {
        self.browsers.set_shut(false);
    }

    /// Forgets all browsers: their connections end, their endpoints answer 410, and who comes back is given another name. A
    /// browser then drops its subscriptions and notifies the service workers (`pushsubscriptionchange`).
    pub fn forget_browsers(&self) {
        self.browsers.forget();
    }
}
