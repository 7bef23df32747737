//! One request an invocation, with the spans of its attempts.
//!
//! Lambda freezes the process once it has the invocation's response, and may never thaw it: what is sent after the response may be sent an
//! hour later, or never. So the request is made before the response, after all work is recorded, and the invocation waits for it: no
//! longer than [`BUDGET`], and never into its own last moments. A request that takes longer is not given up: it goes on in the next
//! invocation, beside its work, and ends after [`TIMEOUT`]. After a request that took longer than the budget no one waits for [`REST`], and
//! after one that failed none is made for as long. So a collector that hangs delays one invocation in thirty seconds, and costs nothing but
//! its spans.
//!
//! Spans that a collector did not take are lost and logged (`spans_lost`), never kept: they are no part of what is promised.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use redial_core::time::Timestamp;
use redial_engine::ports::AttemptSpan;
use reqwest::{Client, Request};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use super::collector::{Collector, CollectorHeaders};
use super::encode;
use crate::egress::{ExtraRoots, client_builder, client_config};

/// The longest that an invocation waits for its collector.
pub const BUDGET: Duration = Duration::from_millis(200);

/// What an invocation keeps of its time, however short it has become: no span is worth a batch that is received again.
const RESERVE: Duration = Duration::from_millis(500);

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long a collector is left alone that did not take spans in time.
const REST: Duration = Duration::from_secs(30);

/// The most spans that wait for the end of an invocation: the default of the OpenTelemetry SDKs' queues.
const MOST_SPANS: usize = 2_048;

/// How long an unused connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(60);

/// Why spans were lost: a label.
type Cause = &'static str;

/// The spans of a worker, and the way to their collector.
#[derive(Debug)]
pub struct Spans {
    stack: String,
    url: Url,
    headers: HeaderMap,
    client: Client,
    waiting: Mutex<Waiting>,
    way: tokio::sync::Mutex<Way>,
}

/// Spans that no request has yet.
#[derive(Debug, Default)]
struct Waiting {
    json: Vec<u8>,
    spans: usize,
    /// Those that there was no room for.
    too_many: usize,
}

#[derive(Debug, Default)]
struct Way {
    request: Option<(JoinHandle<Result<(), Cause>>, usize)>,
    /// When requests are waited for again; none: at once.
    waits_again: Option<Instant>,
    /// When requests are made again; none: at once.
    sends_again: Option<Instant>,
}

impl Spans {
    /// Must be called within a tokio runtime. The collector is the operator's own: neither addresses nor ports are checked as those of
    /// endpoints are.
    pub fn new(stack: String, collector: &Collector, headers: &CollectorHeaders, roots: &ExtraRoots) -> Self {
        let client = client_builder(client_config(roots.with_public()))
            .user_agent(concat!("redial/", env!("CARGO_PKG_VERSION")))
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(1)
            .build()
            .expect("invariant: constants and a finished TLS configuration make a client");
        let mut headers = headers.expose().clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (url, waiting, way) = (collector.url().clone(), Mutex::default(), tokio::sync::Mutex::default());
        Self { stack, url, headers, client, waiting, way }
    }

    /// Keeps the span for the end of the invocation.
    pub(crate) fn add(&self, span: &AttemptSpan<'_>) {
        let mut waiting = self.waiting();
        if waiting.spans == MOST_SPANS {
            waiting.too_many += 1;
            return;
        }
        waiting.spans += 1;
        encode::add_span(span, &mut waiting.json);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what waits, and waits for the answer as long as this invocation may.
    pub async fn export(&self, now: Timestamp, deadline: Timestamp) {
        self.export_within(BUDGET.min(deadline.minus(RESERVE).since(now))).await;
    }

    #[expect(clippy::disallowed_methods, reason = "a time-out ends by the runtime's clock")]
    async fn export_within(&self, budget: Duration) {
        // One invocation at a time is Lambda's promise; elsewhere the other one takes these along.
        let Ok(mut way) = self.way.try_lock() else { return };
        if way.request.is_none() && self.waiting().spans == 0 {
            return;
        }
        let now = Instant::now();
        let is_over = |until: Option<Instant>| until.is_none_or(|until| until <= now);
        let until = if is_over(way.waits_again) { now + budget } else { now };
        // The one of an invocation before.
        if !way.ends_by(until).await {
            return;
        }
        let Waiting { json, spans, too_many } = std::mem::take(&mut *self.waiting());
        lost("too_many", too_many);
        if spans == 0 {
            return;
        }
        if !is_over(way.sends_again) {
            lost("resting", spans);
            return;
        }
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = Some(encode::request(&self.stack, &json).into());
        way.request = Some((tokio::spawn(post(self.client.clone(), request)), spans));
        way.ends_by(until).await;
    }
}

impl Way {
    /// Whether no request is on its way any more.
    #[expect(clippy::disallowed_methods, reason = "a time-out ends by the runtime's clock")]
    async fn ends_by(&mut self, until: Instant) -> bool {
        let Some((request, spans)) = &mut self.request else { return true };
        let Ok(ended) = timeout_at(until, request).await else {
            let rest = Instant::now() + REST;
            // One that is not waited for does not prolong the rest.
            self.waits_again = self.waits_again.filter(|until| *until > Instant::now()).or(Some(rest));
            return false;
        };
        let spans = *spans;
        self.request = None;
        match ended.unwrap_or(Err("panic")) {
            Ok(()) => self.waits_again = None,
            Err(cause) => {
                lost(cause, spans);
                self.sends_again = Some(Instant::now() + REST);
            }
        }
        true
    }
}

/// Posts once. What the collector says besides its status is not read.
async fn post(client: Client, request: Request) -> Result<(), Cause> {
    match timeout(TIMEOUT, client.execute(request)).await {
        Ok(Ok(response)) if response.status().is_success() => {
            // To its end, or the connection could not be used again.
            let _ = timeout(TIMEOUT, response.bytes()).await;
            Ok(())
        }
        Ok(Ok(response)) if matches!(response.status().as_u16(), 401 | 403) => Err("unauthorized"),
        Ok(Ok(_)) => Err("refused"),
        Ok(Err(error)) if error.is_connect() => Err("connect"),
        Ok(Err(_)) => Err("broken"),
        Err(_) => Err("timeout"),
    }
}

fn lost(cause: Cause, spans: usize) {
    if spans > 0 {
        tracing::warn!(event = "spans_lost", cause, spans);
    }
}

#[cfg(test)]
#[path = "exporter_tests.rs"]
mod tests;
