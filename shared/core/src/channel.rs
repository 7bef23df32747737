//! The two ways in which Redial delivers.

/// A channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Channel {
    /// To a browser, through its push service (RFC 8030).
    WebPush,
    /// To an HTTPS address of the receiver's own (Standard Webhooks).
    Webhook,
}

impl Channel {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::WebPush, Self::Webhook];

    /// Its name in messages, logs and tables.
    pub const fn label(self) -> &'static str {
        match self {
            Self::WebPush => "web_push",
            Self::Webhook => "webhook",
        }
    }

    /// The channel of that name.
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|channel| channel.label() == label)
    }
}
