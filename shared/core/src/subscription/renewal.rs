//! A browser's subscription is submitted again: what happens to the stored one.
//!
//! | stored | submitted | result |
//! |---|---|---|
//! | nothing, or a tombstone | with consent | a new one, active |
//! | nothing, or a tombstone | without consent | nothing: a new one needs consent |
//! | anything | with a token of an earlier one | nothing: the token has ended (see [`Permit`]) |
//! | one with the same endpoint | either | new keys, consent and tags; state, flag and health stay; suspect no longer, if its browser submitted it |
//! | one with another endpoint | either | the new one, active and unflagged; `created_at` stays |
//! | one that time alone has ended | either | the new one, active; `created_at` stays |
//! | one of another id has the endpoint | either | as [`SameEndpoint`] says |
//! | a webhook's | either | nothing: its id is taken |
//!
//! State and flag come from the push service: a 404 or a 410 for the endpoint. A page that submits the same endpoint again does not
//! change them, because the browser does not know of either. Only a new endpoint does. What dead letters say against it is
//! forgotten, unless it was imported: the browser has just shown that it is there.

use super::{Doubts, Permit, Rival, SameEndpoint, State, Subscription, document::Document};
use crate::identity::{SubscriptionId, SubscriptionKey};
use crate::push_target::PushTarget;
use crate::recipient::Recipient;
use crate::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renewal {
    pub key: SubscriptionKey,
    pub document: Document,
    /// When the browser itself submitted it; `None` where an import or a server did.
    pub seen_at: Option<Timestamp>,
    /// Of the browser's token; `None` where a sender itself or an operator submitted it.
    pub permit: Option<Permit>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Decision {
    Begins(Subscription),
    Moves(Subscription),
    /// The same endpoint: its state, flag and health stay as they are.
    Stays(Subscription),
    NeedsConsent,
    IsAWebhook,
    /// The token is for an earlier subscription of this id.
    TokenEnded,
    /// The token may not set these tags on what is stored.
    TagsNotPermitted,
    /// Another subscription of the tenant has the endpoint, and keeps it.
    EndpointTaken {
        /// Its id, if its keys are the same as well: it is the same subscription of the same browser.
        same: Option<SubscriptionId>,
    },
}

impl Renewal {
    /// `deleted_at`: of the tombstone, where nothing else is stored. `rival`: what has or had the endpoint under another id.
    pub fn decide(
        &self,
        before: Option<&Subscription>,
        deleted_at: Option<Timestamp>,
        rival: Option<&Rival>,
        same_endpoint: SameEndpoint,
        now: Timestamp,
    ) -> Decision {
        let mut decision = self.decide_alone(before, deleted_at, now);
        if let Decision::Begins(after) | Decision::Moves(after) | Decision::Stays(after) = &mut decision
            && let Some(rival) = rival
        {
            if same_endpoint.refuses(rival, now) {
                return Decision::EndpointTaken { same: self.same_as(rival) };
            }
            after.took_over_at = Some(now);
        }
        decision
    }

    /// The id under which exactly what is submitted, endpoint and keys, is stored.
    pub fn same_as(&self, rival: &Rival) -> Option<SubscriptionId> {
        let Rival::Stored(stored) = rival else { return None };
        let Recipient::WebPush(known) = &stored.recipient else { return None };
        let submitted = &self.document.target;
        let is_same = known.endpoint == submitted.endpoint && known.keys == submitted.keys;
        is_same.then(|| stored.key.id.clone())
    }

    fn decide_alone(
        &self,
        before: Option<&Subscription>,
        deleted_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Decision {
        let Document { target, tags, time_zone, consent, ends_at } = &self.document;
        // When a sender decided on what is submitted; a renewal token only repeats.
        let authorized_at = match &self.permit {
            None => Some(now),
            Some(permit) => permit.begins.then_some(permit.issued_at),
        };
        let Some(before) = before else {
            if self.permit.as_ref().is_some_and(|permit| !permit.may_begin(deleted_at)) {
                return Decision::TokenEnded;
            }
            let Some(consent) = consent else { return Decision::NeedsConsent };
            return Decision::Begins(Subscription {
                consent: Some(consent.clone()),
                tags: tags.clone().unwrap_or_default(),
                time_zone: *time_zone,
                last_seen_at: self.seen_at,
                created_at: Some(now),
                authorized_at,
                ends_at: *ends_at,
                ..Subscription::new(self.key.clone(), Recipient::WebPush(target.clone()))
            });
        };
        let Recipient::WebPush(known) = &before.recipient else { return Decision::IsAWebhook };
        if let Some(permit) = &self.permit {
            if !permit.is_for(before) {
                return Decision::TokenEnded;
            }
            if tags.as_ref().is_some_and(|tags| !tags.are_within(&permit.tags_on(before))) {
                return Decision::TagsNotPermitted;
            }
        }
        let stays = known.endpoint == target.endpoint;
        // An endpoint belongs to the key that it was made with: a document without one does not change it.
        let vapid_key_id =
            target.vapid_key_id.clone().or_else(|| known.vapid_key_id.clone().filter(|_| stays));
        let recipient = Recipient::WebPush(PushTarget { vapid_key_id, ..target.clone() });
        // What time has ended was given up because its browser was not heard of: here it is.
        let goes_on = stays && !matches!(before.state, State::Expired | State::Stale);
        let of =
            if goes_on { before.clone() } else { Subscription::new(self.key.clone(), recipient.clone()) };
        let after = Subscription {
            recipient,
            doubts: if self.seen_at.is_some() { Doubts::default() } else { of.doubts.clone() },
            consent: consent.clone().or_else(|| before.consent.clone()),
            tags: tags.clone().unwrap_or_else(|| before.tags.clone()),
            time_zone: time_zone.or(before.time_zone),
            last_seen_at: self.seen_at.or(before.last_seen_at),
            created_at: before.created_at,
            moved_at: if stays { before.moved_at } else { Some(now) },
            authorized_at: before.authorized_at.max(authorized_at.filter(|_| tags.is_some())),
            ends_at: *ends_at,
            took_over_at: before.took_over_at,
            ..of
        };
        if goes_on { Decision::Stays(after) } else { Decision::Moves(after) }
    }
}

#[cfg(test)]
#[path = "renewal_tests.rs"]
mod tests;
