//! What a key may be for.

use std::fmt;

/// One thing that a key may be for. They do not contain each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// Sending messages.
    Send,
    /// Storing, renewing and deleting subscriptions.
    Subscribe,
    /// Reading where deliveries and subscriptions stand.
    Read,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Send, Self::Subscribe, Self::Read];

    /// The stable label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Subscribe => "subscribe",
            Self::Read => "read",
        }
    }

    /// The scope of a label.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.label() == text)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_reads_back_and_nothing_else_is_one() {
        for scope in Scope::ALL {
            assert_eq!(Scope::parse(scope.label()), Some(scope));
        }
        for text in ["", "Send", "admin", "send,read", " read"] {
            assert_eq!(Scope::parse(text), None, "{text}");
        }
    }
}
