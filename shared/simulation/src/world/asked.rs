//! What producers and browsers ask of the HTTP API.

use redial_core::ack::AckEvent;

use crate::scenario::messages::Sending;

/// A message, or nonsense, and its text.
pub(super) type Item = (Option<Sending>, String);

/// A producer's request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The place of its message among all that are sent.
    pub(super) at: usize,
    /// What is in it.
    pub(super) items: Vec<Item>,
    /// Which of its ids the ledger had when it came.
    pub(super) had: Vec<bool>,
}

/// What a browser reports.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) token: String,
    pub(super) event: AckEvent,
    /// How often it tries before it gives up.
    pub(super) tries: u32,
}
