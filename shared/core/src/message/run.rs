//! The message of a stored run.

use super::parse::{Inbound, QueueKind, parse};
use super::{Message, To, Travel};
use crate::audience::{Audience, Run};

impl Run {
    /// The message, its audience, and its travel so far; `None` if this version did not write it.
    pub fn read(&self) -> Option<(Message, Audience, Travel)> {
        let read = parse(self.body.expose(), QueueKind::Retry, self.message.as_str(), self.opened_at).ok()?;
        let Inbound::Message(message, travel) = read else { return None };
        let To::Audience(audience) = message.to.clone() else { return None };
        Some((*message, audience, travel))
    }
}
