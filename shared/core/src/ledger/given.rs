//! What the ledger holds of a message as its producer gave it. Nothing is decided by it.
//!
//! Every road by which a message comes to the ledger writes it: what the HTTP API accepts, a claim, a note about what is held back, and
//! the message that meets a cancellation.

use crate::tag::MessageTags;
use crate::time::Ttl;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Given {
    /// How long it was worth delivering from the start: its own TTL, or its class's; none for a message without a limit, and while its
    /// channel, which decides, is not known.
    pub ttl: Option<Ttl>,
    pub tags: MessageTags,
}
