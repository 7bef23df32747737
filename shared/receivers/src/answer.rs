//! What a test wants a server to answer, and the body that takes its time.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, LOCATION};
use http::{Response, StatusCode};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::Sleep;

use crate::fixture::Fixture;
use crate::serve::NoAnswer;

/// One step of a script. It uses up one request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(crate) reply: Reply,
    pub(crate) delay: Duration,
    pub(crate) subscription_key: Option<Vec<u8>>,
    headers: HeaderMap,
    body: Option<Bytes>,
    pace: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Strict,
    Accepted,
    Status(StatusCode),
    Fixture(Fixture),
    None(NoAnswer),
}

impl Answer {
    fn new(reply: Reply) -> Self {
        Self {
            reply,
            delay: Duration::ZERO,
            subscription_key: None,
            headers: HeaderMap::new(),
            body: None,
            pace: None,
        }
    }

    /// What Mozilla's service would answer to this very request: also the answer after a script. A receiver of webhooks
    /// accepts it.
    pub fn strict() -> Self {
        Self::new(Reply::Strict)
    }

    /// Accepts even a request that no push service would: 201 with `Location` and `TTL`, of a receiver of webhooks 200.
    pub fn created() -> Self {
        Self::new(Reply::Accepted)
    }

    /// This status without a body, even to a request that is right.
    pub fn status(status: u16) -> Self {
        Self::new(Reply::Status(StatusCode::from_u16(status).expect("a status is 100 to 999")))
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

    /// 200 at once, and then a body of that many bytes, one by one, each after this pause.
    pub fn drip(bytes: usize, pause: Duration) -> Self {
        Self { pace: Some(pause), ..Self::status(200).with_body(vec![b'.'; bytes]) }
    }

    /// Reads the request and gives no answer: the stream is reset (HTTP/2) or the connection closed (HTTP/1.1).
    pub fn reset() -> Self {
        Self::new(Reply::None(NoAnswer::Reset))
    }

    /// Reads the request and cuts the whole connection, with every other request on it.
    pub fn disconnect() -> Self {
        Self::new(Reply::None(NoAnswer::Disconnect))
    }

    /// From this request on the subscription belongs to `key` (65 bytes, uncompressed), and answers are
    /// strict: a sender that signs with another key gets 401 until it has changed to this one.
    pub fn require_key(key: &[u8]) -> Self {
        Self { subscription_key: Some(key.to_vec()), ..Self::strict() }
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

    /// `response` with the headers and the body that the script sets.
    pub(crate) fn over(self, response: Response<Bytes>) -> Response<Paced> {
        let (mut parts, body) = response.into_parts();
        parts.headers.extend(self.headers);
        Response::from_parts(parts, Paced::new(self.body.unwrap_or(body), self.pace))
    }
}

pub(crate) fn empty(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}

/// The answers of each path: those of its script, and what comes after them.
#[derive(Debug, Default)]
pub(crate) struct Scripts(Mutex<HashMap<String, (VecDeque<Answer>, Option<Answer>)>>);

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

    fn with<R>(&self, path: &str, change: impl FnOnce(&mut (VecDeque<Answer>, Option<Answer>)) -> R) -> R {
        let mut scripts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(scripts.entry(path.to_owned()).or_default())
    }
}

/// A body that is sent whole, or byte by byte.
pub(crate) struct Paced {
    rest: VecDeque<Bytes>,
    pace: Option<Duration>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    fn new(body: Bytes, pace: Option<Duration>) -> Self {
        let rest = match pace {
            _ if body.is_empty() => VecDeque::new(),
            None => VecDeque::from([body]),
            Some(_) => (0..body.len()).map(|at| body.slice(at..=at)).collect(),
        };
        Self { rest, pace, pause: None }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let (Some(pace), false) = (self.pace, self.rest.is_empty()) {
            let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(pace)));
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        Poll::Ready(self.rest.pop_front().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.iter().map(|bytes| bytes.len() as u64).sum())
    }
}
