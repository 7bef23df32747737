//! What a receiver was sent, as it came.

use std::time::Instant;

use http::{HeaderMap, Method, Version};
use hyper::body::Bytes;

/// One request. It is written down when it has arrived whole and before it is answered, so one that is never answered is there
/// too.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub path: String,
    /// What followed the path's `?`, if anything did.
    pub query: Option<String>,
    pub version: Version,
    /// The number of the connection it came over, from 1.
    pub connection: u64,
    pub headers: HeaderMap,
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
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.body).ok()
    }
}
