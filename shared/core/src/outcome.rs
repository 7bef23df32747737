//! What one attempt saw. What that means is decided in [`crate::verdict`].

use std::fmt;
use std::time::Duration;

use crate::label::labels;
use crate::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Response(Response),
    /// Nothing reached the other side: it may be sent again without any doubt.
    NotSent(NotSent),
    /// The request, or a part of it, left, and no answer came: the other side may have acted on it.
    InDoubt(InDoubt),
    /// The message cannot be sent to this endpoint at all, and will not be next time.
    Impossible(Impossible),
}

impl Outcome {
    pub const fn response(&self) -> Option<&Response> {
        if let Self::Response(response) = self { Some(response) } else { None }
    }

    pub const fn not_sent(&self) -> Option<NotSent> {
        if let Self::NotSent(failure) = self { Some(*failure) } else { None }
    }
}

#[derive(Clone, PartialEq, Eq, Default)]
pub struct Response {
    pub status: u16,
    /// The headers of [`Response::KEPT_HEADERS`] that came with it, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The first 4 KiB of the body: the provider's own reason may stand there.
    pub body: Vec<u8>,
    /// When the answer arrived, by our clock.
    pub at: Timestamp,
}

impl Response {
    /// The headers that are looked at; no others are kept.
    pub const KEPT_HEADERS: [&str; 8] = [
        "date",
        "retry-after",
        "ttl",
        "content-type",
        "x-wns-status",
        "x-wns-error-description",
        "x-wns-notificationstatus",
        "apns-id",
    ];

    pub const MAX_BODY: usize = 4096;

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for Response {
    /// Without the body and header values: a push service may quote the endpoint there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Response({}, {} header(s), {} body bytes)",
            self.status,
            self.headers.len(),
            self.body.len()
        )
    }
}

labels! {
    pub enum NotSent {
        Dns = "dns",
        Connect = "connect",
        ConnectTimeout = "connect_timeout",
        Tls = "tls",
        /// This process has no file descriptor, port or memory left for a connection. It says nothing of the other side.
        NoResources = "no_resources",
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InDoubt {
    Timeout,
    /// The connection broke after the request had begun to leave.
    Reset,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Impossible {
    /// The endpoint's name or address is one that egress does not reach: private, loopback, reserved and the like.
    EndpointNotAllowed,
    /// The subscription's public key is not a point on the curve.
    BadSubscriptionKey,
    UnknownVapidKey,
    /// The payload is longer than the sealer that this was built with takes.
    PayloadTooLarge,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempted {
    pub outcome: Outcome,
    /// From the first byte of work to the end of the answer.
    pub took: Duration,
}
