//! A run: a message to an audience while it is sent.

use super::RunKey;
use crate::body::Body;
use crate::identity::{DeliveryId, SubscriptionId};
use crate::lane::Lane;
use crate::time::Timestamp;

/// A message to an audience, as it is stored: once for each opening, whatever the number of its recipients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    pub key: RunKey,
    /// The id of its message, by which the producer knows it.
    pub message: DeliveryId,
    pub lane: Lane,
    pub body: Body,
    pub opened_at: Timestamp,
    /// When it is forgotten: no recipient's delivery is under way any more. A row that is still there after this counts as absent.
    pub kept_until: Timestamp,
    pub cancelled_at: Option<Timestamp>,
}

/// How far a part of an audience has come.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The last subscription that was sent to; `None` before the first.
    pub after: Option<SubscriptionId>,
    pub recipients: u64,
    pub done: bool,
}

impl Progress {
    /// The progress after a page of at most `page` recipients.
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
    fn a_page_that_is_not_full_ends_the_part() {
        let ids: Vec<_> = ["a", "b"].iter().filter_map(|id| SubscriptionId::parse(id)).collect();
        let two = Progress::default().past(&ids, 2);
        assert_eq!(two, Progress { after: Some(ids[1].clone()), recipients: 2, done: false });
        let none = two.past(&[], 2);
        assert_eq!(none, Progress { done: true, ..two });
    }
}
