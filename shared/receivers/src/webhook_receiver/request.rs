//! What a receiver was sent, as it came.

use std::time::Instant;

use http::{HeaderMap, Method, Version};
use hyper::body::Bytes;

/// One request. It is written down when it has arrived whole and before it is answered, so one that is never answered is there
/// too.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// The path it was sent to.
    pub path: String,
    /// What followed the path's `?`, if anything did.
    pub query: Option<String>,
    /// HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// The number of the connection it came over, from 1.
    pub connection: u64,
    /// All of its headers.
    pub headers: HeaderMap,
    /// The very bytes of its body.
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
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body, if it is UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.body).ok()
    }
}
