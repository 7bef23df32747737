//! What a browser's token permits on what is stored.
//!
//! A token outlives much of what it was made for, and is stored nowhere. So it names the time when it was made, and holds only for the
//! subscription that was stored then: one that is deleted and made again is another, even under the same id.
//!
//! | stored | a token that a sender has made | a renewal token |
//! |---|---|---|
//! | nothing | begins a subscription | has ended |
//! | a tombstone | begins a subscription, if made after the deletion | has ended |
//! | a subscription | holds, if made since that began, or since the token with which it began | holds, if made since that began |
//!
//! A token sets the tags that it names until a sender sets tags itself or makes a newer token that does. From then on it can keep or drop
//! what is stored, and add nothing: a tag that a sender removed does not come back by an older token.

use super::Subscription;
use crate::tag::Tags;
use crate::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Permit {
    pub issued_at: Timestamp,
    /// Whether a sender made it. A renewal token begins nothing.
    pub begins: bool,
    /// The tags that it names.
    pub tags: Tags,
}

impl Permit {
    /// Whether a subscription may begin with it where there is none, or where the last one was deleted at that time.
    pub fn may_begin(&self, deleted_at: Option<Timestamp>) -> bool {
        self.begins && deleted_at.is_none_or(|deleted_at| deleted_at < self.issued_at)
    }

    /// Whether it is for this subscription, and not for an earlier one of the same id. Where an early release stored no beginning, that
    /// was before any token. Once a sender decides again, a token with which the subscription began no longer proves that it did: its
    /// browser has the renewal token.
    pub fn is_for(&self, stored: &Subscription) -> bool {
        let was_there = stored.created_at.is_none_or(|at| at <= self.issued_at);
        was_there || (self.begins && stored.authorized_at.is_some_and(|at| at <= self.issued_at))
    }

    /// The tags that it may set on this subscription.
    pub fn tags_on(&self, stored: &Subscription) -> Tags {
        // Without that time, an earlier release stored it: what a sender has just made is the later word, a renewal token may not be.
        let is_latest = stored.authorized_at.map_or(self.begins, |at| at <= self.issued_at);
        if is_latest { self.tags.clone() } else { self.tags.common(&stored.tags) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, browser, subscription, tags};
    use crate::recipient::Recipient;

    fn permit(issued: u64, begins: bool) -> Permit {
        Permit { issued_at: at(issued), begins, tags: tags(&["news", "vip"]) }
    }

    fn stored(created: Option<u64>, authorized: Option<u64>) -> Subscription {
        Subscription {
            created_at: created.map(at),
            authorized_at: authorized.map(at),
            tags: tags(&["news", "sport"]),
            ..Subscription::new(subscription("s1"), Recipient::WebPush(browser("https://push.example/x")))
        }
    }

    #[test]
    fn a_subscription_begins_with_a_senders_token_made_after_the_last_deletion() {
        for (begins, deleted, expected) in [
            (true, None, true),
            (true, Some(99), true),
            (true, Some(100), false),
            (true, Some(101), false),
            (false, None, false),
            (false, Some(1), false),
        ] {
            assert_eq!(permit(100, begins).may_begin(deleted.map(at)), expected, "{begins} {deleted:?}");
        }
    }

    #[test]
    fn a_token_is_for_the_subscription_that_was_stored_when_it_was_made() {
        for (created, authorized, by_sender, by_renewal) in [
            (Some(99), None, true, true),
            (Some(100), Some(500), true, true),
            (None, Some(500), true, true),
            (Some(101), None, false, false),
            // It began with this token, or with one made before it.
            (Some(101), Some(100), true, false),
            (Some(200), Some(101), false, false),
        ] {
            let stored = stored(created, authorized);
            for (begins, expected) in [(true, by_sender), (false, by_renewal)] {
                let is_for = permit(100, begins).is_for(&stored);
                assert_eq!(is_for, expected, "{created:?} {authorized:?} {begins}");
            }
        }
    }

    #[test]
    fn a_token_adds_no_tag_once_a_sender_has_set_them() {
        for (authorized, begins, expected) in [
            (Some(100), false, &["news", "vip"][..]),
            (Some(101), false, &["news"]),
            (Some(101), true, &["news"]),
            (None, true, &["news", "vip"]),
            (None, false, &["news"]),
        ] {
            let found = permit(100, begins).tags_on(&stored(Some(1), authorized));
            assert_eq!(found, tags(expected), "{authorized:?} {begins}");
        }
    }
}
