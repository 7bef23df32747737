//! A browser's subscription handed in again: what becomes of the one that is stored.
//!
//! | stored | handed in | what it comes to |
//! |---|---|---|
//! | nothing, or a tombstone | with consent | a new one, active |
//! | nothing, or a tombstone | without consent | nothing: a new one needs consent |
//! | one with the same endpoint | either | new keys, consent and tags; state, flag and health stay |
//! | one with another endpoint | either | the new one, active and unflagged; when it was made stays |
//! | a webhook's | either | nothing: its id is taken |
//!
//! State and flag are the push service's word about an endpoint: a 404 or a 410. A page that shows the same endpoint once more
//! does not contradict it, as the browser learns of neither. Only a new endpoint does.

use super::{Subscription, document::Document};
use crate::identity::SubscriptionKey;
use crate::push_target::PushTarget;
use crate::recipient::Recipient;
use crate::time::Timestamp;

/// A document for one subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renewal {
    /// Which.
    pub key: SubscriptionKey,
    /// What was handed in.
    pub document: Document,
    /// When the browser itself was heard of; `None` where another speaks for it, as an import does.
    pub seen_at: Option<Timestamp>,
}

/// What a renewal comes to.
#[derive(Clone, PartialEq, Debug)]
pub enum Decision {
    /// A new one.
    Begins(Subscription),
    /// It leads to another endpoint now.
    Moves(Subscription),
    /// It leads where it led; of what is stored, its state, flag and health are not touched.
    Stays(Subscription),
    /// There is none yet, and no consent came with it.
    NeedsConsent,
    /// A webhook's receiver is stored under that id.
    IsAWebhook,
}

impl Renewal {
    /// Decides, over what is stored, at `now`.
    pub fn decide(&self, before: Option<&Subscription>, now: Timestamp) -> Decision {
        let Document { target, tags, consent } = &self.document;
        let Some(before) = before else {
            let Some(consent) = consent else { return Decision::NeedsConsent };
            return Decision::Begins(Subscription {
                consent: Some(consent.clone()),
                tags: tags.clone().unwrap_or_default(),
                last_seen_at: self.seen_at,
                created_at: Some(now),
                ..Subscription::new(self.key.clone(), Recipient::WebPush(target.clone()))
            });
        };
        let Recipient::WebPush(known) = &before.recipient else { return Decision::IsAWebhook };
        let stays = known.endpoint == target.endpoint;
        // An endpoint belongs to the key that it was made with: who does not name it has not changed it.
        let vapid_key_id =
            target.vapid_key_id.clone().or_else(|| known.vapid_key_id.clone().filter(|_| stays));
        let recipient = Recipient::WebPush(PushTarget { vapid_key_id, ..target.clone() });
        let of = if stays { before.clone() } else { Subscription::new(self.key.clone(), recipient.clone()) };
        let after = Subscription {
            recipient,
            consent: consent.clone().or_else(|| before.consent.clone()),
            tags: tags.clone().unwrap_or_else(|| before.tags.clone()),
            last_seen_at: self.seen_at.or(before.last_seen_at),
            created_at: before.created_at,
            ..of
        };
        if stays { Decision::Stays(after) } else { Decision::Moves(after) }
    }
}

#[cfg(test)]
#[path = "renewal_tests.rs"]
mod tests;
