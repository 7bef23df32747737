//! What a test wants a receiver to answer, and the body that takes its time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, LOCATION};
use http::{Response, StatusCode};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::Sleep;

/// One step of a path's script. It uses up one request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) reply: Reply,
    pub(super) delay: Duration,
    headers: HeaderMap,
    body: Bytes,
    pace: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    Status(StatusCode),
    /// No answer: the stream is reset (HTTP/2) or the connection closed (HTTP/1.1).
    Reset,
}

impl Answer {
    fn new(reply: Reply) -> Self {
        Self { reply, delay: Duration::ZERO, headers: HeaderMap::new(), body: Bytes::new(), pace: None }
    }

    /// This status, without a body.
    pub fn status(status: u16) -> Self {
        Self::new(Reply::Status(StatusCode::from_u16(status).expect("a status is 100 to 999")))
    }

    /// A redirect: this status, and the address in `Location`.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::status(status).with_header(LOCATION.as_str(), location)
    }

    /// Takes the request and answers 200 only after this time: for a sender whose patience is shorter, a time-out in doubt.
    pub fn hang(time: Duration) -> Self {
        Self::status(200).after(time)
    }

    /// 200 at once, and then a body of that many bytes, one by one, each after this pause.
    pub fn drip(bytes: usize, pause: Duration) -> Self {
        Self { body: vec![b'.'; bytes].into(), pace: Some(pause), ..Self::status(200) }
    }

    /// Reads the request and gives no answer: the stream is reset (HTTP/2) or the connection closed (HTTP/1.1).
    pub fn reset() -> Self {
        Self::new(Reply::Reset)
    }

    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Adds a header to the answer.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().expect("a header's name");
        self.headers.append(name, value.parse().expect("a header's value"));
        self
    }

    pub fn with_body(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// `n` times this answer: an outage of that many requests.
    pub fn times(self, n: usize) -> Vec<Self> {
        vec![self; n]
    }

    pub(super) fn code(&self) -> Option<u16> {
        match self.reply {
            Reply::Status(status) => Some(status.as_u16()),
            Reply::Reset => None,
        }
    }

    pub(super) fn response(&self) -> Option<Response<Paced>> {
        let Reply::Status(status) = self.reply else { return None };
        let mut response = Response::new(Paced::new(self.body.clone(), self.pace));
        *response.status_mut() = status;
        *response.headers_mut() = self.headers.clone();
        Some(response)
    }
}

/// A body that is sent whole, or byte by byte.
pub(super) struct Paced {
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
