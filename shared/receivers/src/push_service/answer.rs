//! What a test wants a service to answer.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;

use super::Fixture;

/// One step of an endpoint's script. It uses up one request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) reply: Reply,
    pub(super) delay: Duration,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    pub(super) subscription_key: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// What Mozilla's service would answer to this very request.
    Strict,
    /// 201 with Location and TTL, whatever the request.
    Created,
    Status(StatusCode),
    Fixture(Fixture),
    /// No answer: the stream is reset (HTTP/2) or the connection closed (HTTP/1.1).
    Reset,
    /// No answer, and the whole connection is cut, with every other request on it.
    Disconnect,
}

impl Answer {
    fn new(reply: Reply) -> Self {
        Self { reply, delay: Duration::ZERO, headers: HeaderMap::new(), body: None, subscription_key: None }
    }

    /// What Mozilla's service would answer to this very request: also the answer after a script.
    pub fn strict() -> Self {
        Self::new(Reply::Strict)
    }

    /// 201 with `Location` and `TTL`, even to a request that no service would accept.
    pub fn created() -> Self {
        Self::new(Reply::Created)
    }

    /// This status without a body, even to a request that is right.
    pub fn status(status: u16) -> Self {
        Self::new(Reply::Status(StatusCode::from_u16(status).expect("a status is 100 to 999")))
    }

    /// A row of the table, even to a request that is right.
    pub fn fixture(fixture: Fixture) -> Self {
        Self::new(Reply::Fixture(fixture))
    }

    /// Takes the message and answers 201 only after this time: for a sender whose patience is shorter, a
    /// time-out in doubt.
    pub fn hang(time: Duration) -> Self {
        Self::created().after(time)
    }

    /// Reads the request and gives no answer: the stream is reset (HTTP/2) or the connection closed
    /// (HTTP/1.1).
    pub fn reset() -> Self {
        Self::new(Reply::Reset)
    }

    /// Reads the request and cuts the whole connection, with every other request on it.
    pub fn disconnect() -> Self {
        Self::new(Reply::Disconnect)
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

    /// Sets the answer's body, with a media type.
    pub fn with_body(mut self, media_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self.with_header(CONTENT_TYPE.as_str(), media_type)
    }

    /// `n` times this answer: an outage of that many requests.
    pub fn times(self, n: usize) -> Vec<Self> {
        vec![self; n]
    }
}

/// The row as a response.
pub(super) fn from_fixture(fixture: Fixture) -> Response<Full<Bytes>> {
    let row = fixture.row();
    let (media_type, body) = row.body().map_or((None, Vec::new()), |(kind, body)| (Some(kind), body));
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(row.status).expect("a row's status is one");
    for (name, value) in row.headers {
        let name = HeaderName::from_static(name);
        response.headers_mut().append(name, HeaderValue::from_static(value));
    }
    if let Some(media_type) = media_type {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    response
}
