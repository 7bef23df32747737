//! What a test wants a server to answer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, LOCATION};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;

use crate::fixture::Fixture;

/// One step of a script. It uses up one request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(crate) reply: Reply,
    pub(crate) delay: Duration,
    headers: HeaderMap,
    body: Option<Bytes>,
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Strict,
    /// With this status, or the receiver's own.
    Accepted(Option<StatusCode>),
    Status(StatusCode),
    Fixture(Fixture),
    Reset,
}

impl Answer {
    fn new(reply: Reply) -> Self {
        Self { reply, delay: Duration::ZERO, headers: HeaderMap::new(), body: None }
    }

    /// What Mozilla's service would answer to this very request: also the answer after a script. A receiver of webhooks
    /// accepts it.
    pub fn strict() -> Self {
        Self::new(Reply::Strict)
    }

    /// Accepts even a request that no push service would: 201 with `Location` and `TTL`, of a receiver of webhooks 200.
    pub fn created() -> Self {
        Self::new(Reply::Accepted(None))
    }

    /// The same with this status.
    pub fn accepted(status: u16) -> Self {
        Self::new(Reply::Accepted(Some(status_code(status))))
    }

    /// This status without a body, even to a request that is right.
    pub fn status(status: u16) -> Self {
        Self::new(Reply::Status(status_code(status)))
    }

    /// A row of the table, even to a request that is right.
    pub fn fixture(fixture: Fixture) -> Self {
        Self::new(Reply::Fixture(fixture))
    }

    /// A redirect: this status, and the address in `Location`.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::status(status).with_header(LOCATION.as_str(), location)
    }

    /// Takes the request and accepts it only after this time: for a sender whose patience is shorter, a time-out in doubt.
    pub fn hang(time: Duration) -> Self {
        Self::created().after(time)
    }

    /// Reads the request and gives no answer: the stream is reset (HTTP/2) or the connection closed (HTTP/1.1).
    pub fn reset() -> Self {
        Self::new(Reply::Reset)
    }

    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Sets a header of the answer.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().expect("a header's name");
        self.headers.insert(name, value.parse().expect("a header's value"));
        self
    }

    pub fn with_body(self, body: impl Into<Bytes>) -> Self {
        Self { body: Some(body.into()), ..self }
    }

    /// `n` times this answer: an outage of that many requests.
    pub fn times(self, n: usize) -> Vec<Self> {
        vec![self; n]
    }

    /// `response` with the headers and the body that the script sets, after its delay.
    pub(crate) async fn over(self, response: Option<Response<Bytes>>) -> Option<Response<Full<Bytes>>> {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        let (mut parts, body) = response?.into_parts();
        parts.headers.extend(self.headers);
        Some(Response::from_parts(parts, Full::new(self.body.unwrap_or(body))))
    }
}

fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).expect("a status is 100 to 999")
}

/// The answers of each path.
#[derive(Debug, Default)]
pub(crate) struct Scripts(Mutex<HashMap<String, Script>>);

/// Answers for a request each, and what comes after them.
type Script = (VecDeque<Answer>, Option<Answer>);

impl Scripts {
    pub(crate) fn add(&self, path: &str, answers: impl IntoIterator<Item = Answer>) {
        self.with(path, |(script, _)| script.extend(answers));
    }

    pub(crate) fn set_usual(&self, path: &str, answer: Answer) {
        self.with(path, |(_, usual)| *usual = Some(answer));
    }

    pub(crate) fn next(&self, path: &str) -> Answer {
        let next = self.with(path, |(script, usual)| script.pop_front().or_else(|| usual.clone()));
        next.unwrap_or_else(Answer::strict)
    }

    fn with<R>(&self, path: &str, change: impl FnOnce(&mut Script) -> R) -> R {
        let mut scripts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(scripts.entry(path.to_owned()).or_default())
    }
}
