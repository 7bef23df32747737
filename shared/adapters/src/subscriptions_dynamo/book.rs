//! What the front door keeps: browsers' subscriptions handed in, looked up and erased.
//!
//! A renewal with the same endpoint is an update of the attributes that were handed in, so that what attempts have told of
//! the endpoint, at that very moment perhaps, stays. All else replaces the item.

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::endpoint::HashKeys;
use redial_core::identity::SubscriptionKey;
use redial_core::recipient::Recipient;
use redial_core::subscription::{Decision, Renewal, Subscription};
use redial_core::time::Timestamp;
use redial_engine::ports::{Found, PortError, Renewed, SubscriptionBook};

use super::transaction::After;
use super::{DynamoSubscriptions, item, tombstone};
use crate::attributes::{Item, ms};

/// What a browser hands in, and a renewal therefore sets or removes.
const HANDED_IN: [&str; 10] = [
    "p256dh",
    "auth",
    "vapid_key_id",
    "tags",
    "consent_at",
    "consent_prompt",
    "consent_action",
    "consent_origin",
    "last_seen_at",
    "updated_at",
];

impl DynamoSubscriptions {
    /// The subscription of an item, if it is one that is stored.
    fn read(&self, item: Option<&Item>) -> Result<Option<Subscription>, PortError> {
        item.and_then(|item| item::read(item, self.keys.as_ref())).transpose()
    }

    /// The item of a subscription in full.
    fn whole(&self, subscription: &Subscription, now: Timestamp) -> Item {
        item::write(subscription, self.keys.as_ref(), now)
    }

    /// What of it was handed in.
    fn part(&self, subscription: &Subscription, now: Timestamp) -> After {
        let mut item = self.whole(subscription, now);
        let (mut sets, mut removes): (Vec<(&'static str, AttributeValue)>, _) = (Vec::new(), Vec::new());
        for name in HANDED_IN {
            match item.remove(name) {
                Some(value) => sets.push((name, value)),
                None => removes.push(name),
            }
        }
        After::Part { sets, removes }
    }
}

impl SubscriptionBook for DynamoSubscriptions {
    async fn renew(&self, renewal: Renewal, now: Timestamp) -> Result<Renewed, PortError> {
        self.change(&renewal.key, |before| {
            let before = self.read(before)?;
            Ok(match renewal.decide(before.as_ref(), now) {
                Decision::Begins(it) => {
                    (Some(After::Whole(self.whole(&it, now))), Renewed::New(Box::new(it)))
                }
                Decision::Moves(it) => {
                    (Some(After::Whole(self.whole(&it, now))), Renewed::Renewed(Box::new(it)))
                }
                Decision::Stays(it) => (Some(self.part(&it, now)), Renewed::Renewed(Box::new(it))),
                Decision::NeedsConsent => (None, Renewed::NeedsConsent),
                Decision::IsAWebhook => (None, Renewed::IsAWebhook),
            })
        })
        .await
    }

    async fn find(&self, key: &SubscriptionKey) -> Result<Found, PortError> {
        let item = self.items(std::slice::from_ref(key)).await?.pop();
        if let Some(stored) = self.read(item.as_ref())? {
            return Ok(Found::Stored(Box::new(stored)));
        }
        Ok(item.as_ref().and_then(tombstone::read).unwrap_or(Found::Unknown))
    }

    async fn erase(
        &self,
        key: &SubscriptionKey,
        hash_keys: &HashKeys,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        self.change(key, |before| {
            let Some(Subscription { recipient: Recipient::WebPush(target), .. }) = self.read(before)? else {
                return Ok((None, false));
            };
            let tombstone = tombstone::write(key, &hash_keys.endpoint(&target.endpoint), ms(now));
            Ok((Some(After::Whole(tombstone)), true))
        })
        .await
    }
}
