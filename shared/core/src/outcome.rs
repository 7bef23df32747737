//! What one attempt saw, before anybody judges it.
//!
//! An adapter that sends reports what happened and nothing more: which status and headers came back, or how the
//! connection failed and whether the request may have reached the other side. What that means is
//! [`crate::verdict`]'s to say.

use std::fmt;
use std::time::Duration;

use crate::retry_after;
use crate::time::Timestamp;

/// How one attempt ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The other side answered.
    Response(Response),
    /// Nothing reached the other side: it may be sent again without any doubt.
    NotSent(NotSent),
    /// The request, or a part of it, left, and no answer came: the other side may have acted on it.
    InDoubt(InDoubt),
    /// The message cannot be sent to this endpoint at all, and will not be next time.
    Impossible(Impossible),
}

impl Outcome {
    /// What was answered, if anything was.
    pub const fn response(&self) -> Option<&Response> {
        match self {
            Self::Response(response) => Some(response),
            Self::NotSent(_) | Self::InDoubt(_) | Self::Impossible(_) => None,
        }
    }

    /// What failed before anything was sent.
    pub const fn not_sent(&self) -> Option<NotSent> {
        match self {
            Self::NotSent(failure) => Some(*failure),
            Self::Response(_) | Self::InDoubt(_) | Self::Impossible(_) => None,
        }
    }
}

/// An answer, as far as a verdict needs it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// HTTP status code.
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

    /// The longest value that the ledger keeps, in bytes.
    const MAX_LEDGER_VALUE: usize = 64;

    /// How much of a body is read, in bytes.
    pub const MAX_BODY: usize = 4096;

    /// What the ledger keeps of its headers: what tells an operator what the provider thought. Each has one form, and no
    /// value of another form is kept, because a service may write the endpoint's token where nobody expects it.
    pub fn ledger_headers(&self) -> Vec<(String, String)> {
        let kept = |(name, value): &&(String, String)| {
            let of_form = match name.as_str() {
                "retry-after" => retry_after::parse(value, self.at).is_some(),
                "ttl" => value.bytes().all(|b| b.is_ascii_digit()),
                "apns-id" => is_uuid(value),
                "x-wns-status" | "x-wns-notificationstatus" => value.bytes().all(|b| b.is_ascii_alphabetic()),
                _ => false,
            };
            of_form && (1..=Self::MAX_LEDGER_VALUE).contains(&value.len())
        };
        self.headers.iter().filter(kept).cloned().collect()
    }

    /// The first header of that (lower-case) name.
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

/// Why nothing was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotSent {
    /// The name did not resolve.
    Dns,
    /// No connection could be made.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// Connecting took longer than its time-out.
    ConnectTimeout,
}

impl NotSent {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Dns, Self::Connect, Self::ConnectTimeout, Self::Tls];

    /// Its name in logs, in the ledger and in dead letters.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::Tls => "tls",
        }
    }

    /// The failure of that label.
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|failure| failure.label() == label)
    }
}

/// Why it is not known whether it arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InDoubt {
    /// No answer within the time-out.
    Timeout,
    /// The connection broke after the request had begun to leave.
    Reset,
}

/// Why an attempt can never succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Impossible {
    /// The endpoint's name or address is one that egress does not reach: private, loopback, reserved and the like.
    EndpointNotAllowed,
    /// The subscription's public key is not a point on the curve.
    BadSubscriptionKey,
    /// The subscription names a VAPID key that is not configured.
    UnknownVapidKey,
    /// The payload is longer than the sealer that this was built with takes.
    PayloadTooLarge,
}

/// An outcome with the time that it took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempted {
    /// How it ended.
    pub outcome: Outcome,
    /// From the first byte of work to the end of the answer.
    pub took: Duration,
}

fn is_uuid(text: &str) -> bool {
    let hyphen = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| if hyphen(at) { b == b'-' } else { b.is_ascii_hexdigit() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_before_sending_has_a_label_that_reads_back() {
        let labels = NotSent::ALL.map(NotSent::label);
        assert_eq!(labels, ["dns", "connect", "connect_timeout", "tls"]);
        assert_eq!(labels.map(NotSent::from_label), NotSent::ALL.map(Some));
        assert_eq!(NotSent::from_label("nonsense"), None);
    }

    #[test]
    fn the_ledger_keeps_a_few_headers_each_in_its_one_form() {
        let kept = |headers: &[(&str, &str)]| {
            let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Response { headers: headers.collect(), ..Response::default() }.ledger_headers()
        };
        let good = [
            ("retry-after", "Sat, 21 Nov 2026 10:05:00 GMT"),
            ("retry-after", "120"),
            ("ttl", "60"),
            ("apns-id", "8d2f9c3a-1b7e-4c5d-9a6f-0e1d2c3b4a59"),
            ("x-wns-status", "appthrottled"),
            ("x-wns-notificationstatus", "dropped"),
        ];
        assert_eq!(kept(&good).len(), good.len());

        let token = "gAAAAABmQ2-endpoint.token";
        for name in Response::KEPT_HEADERS {
            for value in [token, "https://push.example/secret", "", &"1".repeat(65), &format!("120 {token}")]
            {
                assert_eq!(kept(&[(name, value)]), [], "{name}: {value}");
            }
        }
        assert_eq!(kept(&[("x-wns-error-description", "dropped"), ("location", "60")]), []);
    }
}
