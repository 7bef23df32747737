//! A proxy between a function and the cloud's API, which counts the calls and breaks the ones that a test names.
//!
//! Redial's promise is about what happens when a process dies, or a call fails, between two effects. The
//! production code has no hooks for that, and needs none: each of its effects is one HTTP call, so a proxy
//! on the line can kill the process before a call is carried out, or after it was carried out and
//! before its answer arrives, and can do so at every call in turn.
//!
//! A call that has arrived whole is carried out to its end, whatever becomes of the caller: that is how a
//! network behaves, and it keeps the outcome of a kill clear. Plain HTTP/1.1, AWS's JSON protocols. Bodies
//! are passed on as they are; only a call with an injected failure is taken apart.

mod call;
mod fault;
mod forward;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::uri::{Scheme, Uri};

use crate::background::Background;
use crate::journal::TooFew;
use crate::serve::{self, Port};
use fault::{Matcher, Plan};
use forward::Line;

pub use call::{AwsService, Call, Injected};
pub use fault::{Fault, Kill};

/// A running proxy. It ends when it is dropped.
pub struct FaultProxy {
    line: Arc<Line>,
    url: String,
    _running: Background,
}

impl FaultProxy {
    /// Starts a proxy on a free port of 127.0.0.1, in front of `upstream`: `http://HOST:PORT`.
    pub fn start(upstream: &str) -> io::Result<Self> {
        let uri: Uri =
            upstream.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let authority = match (uri.scheme(), uri.authority()) {
            (Some(scheme), Some(authority)) if *scheme == Scheme::HTTP => authority.clone(),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected http://HOST:PORT")),
        };
        let port = Port::take(0)?;
        let url = port.origin("127.0.0.1");
        let line = Arc::new(Line::new(authority));
        let serving = Arc::clone(&line);
        let running = port.serve("fault-proxy", move |stream| {
            let mut builder = serve::http_versions();
            // A caller that was killed leaves whole calls behind; hyper must not drop them at its end.
            builder.http1().half_close(true);
            let line = Arc::clone(&serving);
            serve::http(builder, stream, move |parts, body| Arc::clone(&line).handle(parts, body))
        })?;
        Ok(Self { line, url, _running: running })
    }

    /// `http://127.0.0.1:PORT`, for `AWS_ENDPOINT_URL`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Every call since the start or the last reset, in the order of arrival.
    pub fn calls(&self) -> Vec<Call> {
        self.line.journal.read(<[_]>::to_vec)
    }

    /// How many of them were for this operation.
    pub fn count(&self, service: &AwsService, operation: &str) -> usize {
        let fits = |call: &&Call| call.service == *service && call.operation == operation;
        self.line.journal.read(|calls| calls.iter().filter(fits).count())
    }

    /// Waits until `n` calls have arrived.
    pub async fn wait_for(&self, n: usize, within: Duration) -> Result<Vec<Call>, TooFew<Call>> {
        self.line.journal.wait_for(n, within, <[_]>::to_vec).await
    }

    /// Breaks the `n`-th call since the start or the last reset; the first is 1.
    pub fn on_call(&self, n: usize, fault: Fault) {
        self.line.plan().add(Matcher::Nth(n), fault);
    }

    /// Breaks every call that fits. Where several rules fit, the one that was made first is used. The
    /// closure must not call the proxy.
    pub fn when(&self, fits: impl Fn(&Call) -> bool + Send + Sync + 'static, fault: Fault) {
        self.line.plan().add(Matcher::Every(Box::new(fits)), fault);
    }

    /// Breaks the first call that fits, and only that. The closure must not call the proxy.
    pub fn once(&self, fits: impl Fn(&Call) -> bool + Send + Sync + 'static, fault: Fault) {
        self.line.plan().add(Matcher::First(Box::new(fits)), fault);
    }

    /// Whether there is a fault that no call has met yet: a test that means to break something checks this.
    pub fn has_unused_faults(&self) -> bool {
        self.line.plan().has_unused()
    }

    /// Forgets the calls and the faults, and counts from 1 again.
    pub fn reset(&self) {
        let mut plan = self.line.plan();
        *plan = Plan::default();
        self.line.journal.clear();
    }
}
