//! What a push server saw and did, one entry each, in order.

/// An entry of the server's journal. `message` is the last part of the Location that the sender was given; `endpoint` is the
/// URL that it posted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Hello {
        uaid: String,
        /// Whether it came back under a name that the server knew.
        known: bool,
    },
    Registered {
        uaid: String,
        channel: String,
        endpoint: String,
    },
    /// A page unsubscribed. A post to the endpoint is answered 410 from now on.
    Unregistered {
        uaid: String,
        channel: String,
        /// Where it was posted to; `None` if the server knew no such channel.
        endpoint: Option<String>,
    },
    /// A message went over the websocket.
    Notified {
        endpoint: String,
        message: String,
    },
    /// The browser was away: the message waits for it.
    Kept {
        endpoint: String,
        message: String,
    },
    Dropped {
        endpoint: String,
        message: String,
        why: Why,
    },
    Acked {
        /// Where it was posted to; `None` if the server knew no such channel.
        endpoint: Option<String>,
        message: String,
        code: Code,
    },
    /// The service worker failed with a message that it had been given: 301 for an exception, 302 for a promise that was
    /// rejected, 303 for the browser's own error.
    Nacked {
        message: String,
        code: u64,
    },
    Left {
        uaid: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its TTL is 0, and the browser was away.
    NotToBeKept,
    Expired,
    /// A newer one with the same Topic took its place.
    Replaced,
    Withdrawn,
    /// The browser came back under another name, or unsubscribed.
    Unsubscribed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// 100: decrypted, and given to the service worker.
    Decrypted,
    /// 101: not decrypted.
    NotDecrypted,
    /// 102: not delivered for another reason.
    NotDelivered,
    Other(u64),
}

impl Code {
    pub(super) fn from_number(number: u64) -> Self {
        match number {
            100 => Self::Decrypted,
            101 => Self::NotDecrypted,
            102 => Self::NotDelivered,
            other => Self::Other(other),
        }
    }
}
