//! A message to an audience, under way.

use super::{Audience, RunKey};
use crate::body::Body;
use crate::identity::{DeliveryId, SubscriptionId};
use crate::lane::Lane;
use crate::message::{Inbound, Message, QueueKind, To, Travel, parse};
use crate::time::Timestamp;

/// A message to an audience, as it is stored: once an opening, whatever the number of its recipients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Whose, and which.
    pub key: RunKey,
    /// The id of its message, by which the producer knows it.
    pub message: DeliveryId,
    /// On which lane it goes out.
    pub lane: Lane,
    /// It, as it travels.
    pub body: Body,
    /// When its message was claimed.
    pub opened_at: Timestamp,
    /// When it is forgotten: no recipient's delivery is under way any more. A row that is still there after this counts as absent.
    pub kept_until: Timestamp,
    /// When an operator called it off.
    pub cancelled_at: Option<Timestamp>,
}

impl Run {
    /// The message, whom it is for, and since when it is on its way; `None` if it is not one that this version wrote.
    pub fn read(&self) -> Option<(Message, Audience, Travel)> {
        let read = parse(self.body.expose(), QueueKind::Retry, self.message.as_str(), self.opened_at).ok()?;
        match read {
            Inbound::Message(message, travel) => match message.to.clone() {
                To::Audience(audience) => Some((*message, audience, travel)),
                To::Subscription(_) | To::WebPush(_) | To::Webhook(_) => None,
            },
            Inbound::Release(_) | Inbound::Expand(_) | Inbound::Recipient(..) => None,
        }
    }
}

/// How far a part of an audience is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The last subscription that was sent to; `None` before the first.
    pub after: Option<SubscriptionId>,
    /// How many were sent to.
    pub recipients: u64,
    /// Whether that was all.
    pub done: bool,
}

impl Progress {
    /// After a page of these, which was asked to have `page`.
    #[must_use]
    pub fn past(&self, sent: &[SubscriptionId], page: u16) -> Self {
        Self {
            after: sent.last().or(self.after.as_ref()).cloned(),
            recipients: self.recipients + sent.len() as u64,
            done: sent.len() < usize::from(page),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_full_is_the_last() {
        let ids: Vec<_> = ["a", "b"].iter().filter_map(|id| SubscriptionId::parse(id)).collect();
        let two = Progress::default().past(&ids, 2);
        assert_eq!(two, Progress { after: Some(ids[1].clone()), recipients: 2, done: false });
        let none = two.past(&[], 2);
        assert_eq!(none, Progress { done: true, ..two });
    }
}
