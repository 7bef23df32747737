//! What the service was sent, as a test sees it.
//!
//! A request is written down when it has arrived whole and before it is answered, so one that is never
//! answered is there too. It is opened when it is read: a push service can't open it, and a benchmark
//! should not pay for it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::{HeaderMap, Version};
use hyper::body::Bytes;

use super::decrypt::{DecryptError, Receiver};
use super::problem::Problem;
use super::vapid::Claims;

#[derive(Clone, Debug)]
pub struct Received {
    pub endpoint: String,
    /// When it had arrived whole.
    pub at: Instant,
    /// The same in milliseconds since the Unix epoch.
    pub at_ms: u64,
    pub version: Version,
    /// The number of the connection it came over, from 1.
    pub connection: u64,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// What the browser would show; `None` if there is no body or it can't be opened.
    pub plaintext: Option<Vec<u8>>,
    /// The VAPID token's claims, if they can be read.
    pub claims: Option<Claims>,
    /// The VAPID key the sender presented.
    pub vapid_key: Option<Vec<u8>>,
    pub problems: Vec<Problem>,
    pub answered: Answered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    Status(u16),
    /// With `status` after `after`, if the sender was still there.
    Late {
        status: u16,
        after: Duration,
    },
    /// Not at all: the stream or the connection was closed.
    Reset,
}

impl Received {
    /// A header's value, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The plaintext, if it is UTF-8.
    pub fn text(&self) -> Option<&str> {
        self.plaintext.as_deref().and_then(|text| std::str::from_utf8(text).ok())
    }
}

pub(super) struct Entry {
    /// As it will be shown, with `plaintext` still missing.
    pub(super) raw: Received,
    pub(super) path: String,
    pub(super) receiver: Option<Arc<Receiver>>,
    pub(super) opened: OnceLock<Result<Vec<u8>, DecryptError>>,
}

impl Entry {
    /// Opens the body, once.
    pub(super) fn show(&self) -> Received {
        let mut shown = self.raw.clone();
        let sealed = shown.header("content-encoding") == Some("aes128gcm") && !shown.body.is_empty();
        if let (Some(receiver), true) = (&self.receiver, sealed) {
            match self.opened.get_or_init(|| receiver.open(&shown.body)) {
                Ok(text) => shown.plaintext = Some(text.clone()),
                Err(error) => shown.problems.push(Problem::Undecryptable(error.clone())),
            }
        }
        shown
    }
}
