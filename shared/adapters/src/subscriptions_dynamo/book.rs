//! Storing, looking up and erasing subscriptions, and exchanging a webhook's signing secret while messages are under way.
//!
//! A renewal with the same endpoint updates only the attributes that the browser sent, so that the health of the endpoint, which an
//! attempt may change at that moment, stays. Everything else replaces the item.

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::channel::Channel;
use redial_core::endpoint::HashKeys;
use redial_core::identity::{SubscriptionId, SubscriptionKey};
use redial_core::recipient::Recipient;
use redial_core::subscription::{Decision, Permit, Renewal, Rival, SameEndpoint, Subscription};
use redial_core::time::Timestamp;
use redial_core::webhook::{SigningSecrets, WebhookSecret};
use redial_engine::ports::{Erased, Found, Kept, PortError, Renewed, SubscriptionBook};

use super::transaction::{After, Met};
use super::{DynamoSubscriptions, item, item_key};
use crate::aws_error;
use crate::table::attributes::{Item, Read as _, ms, s};

/// The attributes that follow from what a browser sends, and that a renewal therefore sets or removes.
const SENT: [&str; 14] = [
    "p256dh",
    "auth",
    "vapid_key_id",
    "tags",
    "time_zone",
    "consent_at",
    "consent_prompt",
    "consent_action",
    "consent_origin",
    "last_seen_at",
    "authorized_at",
    "ends_at",
    "took_over_at",
    "updated_at",
];

/// How often a rotation starts over while others keep changing the item.
const ROUNDS: usize = 4;

/// How a subscription was stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    New,
    /// In place of one of the same id.
    InPlace,
    /// It was not: another subscription of the tenant has the endpoint, and keeps it.
    EndpointTaken,
}

/// What an operator's deletion found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deleted {
    /// It is deleted now.
    Yes(Channel),
    /// It was deleted before, at this time: nothing was written.
    Before(Timestamp),
    /// There is none of that key: nothing was written.
    Unknown,
}

impl DynamoSubscriptions {
    /// Deletes a browser's or a webhook's subscription, whatever its state, and leaves a tombstone, so that tokens of its browser end.
    pub async fn delete(&self, key: &SubscriptionKey, now: Timestamp) -> Result<Deleted, PortError> {
        self.change(key, None, now, |Met { before, .. }| {
            let Some(before) = before else { return Ok((None, Deleted::Unknown)) };
            if let Some(at) = item::deleted_at(before) {
                return Ok((None, Deleted::Before(at)));
            }
            let Some(channel) = item::channel(before) else { return Ok((None, Deleted::Unknown)) };
            Ok((Some(After::Whole(item::tombstone(key, None, now))), Deleted::Yes(channel)))
        })
        .await
    }

    /// Stores a browser's subscription at `now`, in place of one of the same id.
    pub async fn put_browser(
        &self,
        subscription: &Subscription,
        same_endpoint: SameEndpoint,
        now: Timestamp,
    ) -> Result<Stored, PortError> {
        self.put_item(subscription, self.whole(subscription, now), same_endpoint, now).await
    }

    /// Stores a subscription at `now`, in place of one of the same id; its receiver's health starts over. Returns whether it is new.
    /// A retry policy of its own is kept as text: see [`Self::put_with_policy`].
    pub async fn put(&self, subscription: &Subscription, now: Timestamp) -> Result<bool, PortError> {
        let stored = self.put_item(subscription, self.whole(subscription, now), SameEndpoint::Replace, now);
        Ok(stored.await? == Stored::New)
    }

    /// The same, with a retry policy of its own: the JSON of one, or of the name of one of the package's, which the caller has
    /// checked.
    pub async fn put_with_policy(
        &self,
        subscription: &Subscription,
        policy: &str,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let mut item = self.whole(subscription, now);
        item.insert("policy".to_owned(), s(policy));
        Ok(self.put_item(subscription, item, SameEndpoint::Replace, now).await? == Stored::New)
    }

    /// Keeps the time when it was first stored. An operator decides on it now, its tags included.
    async fn put_item(
        &self,
        subscription: &Subscription,
        item: Item,
        same_endpoint: SameEndpoint,
        now: Timestamp,
    ) -> Result<Stored, PortError> {
        let endpoint = match &subscription.recipient {
            Recipient::WebPush(target) => Some(&target.endpoint),
            Recipient::Webhook(_) => None,
        };
        self.change(&subscription.key, endpoint, now, |Met { before, holder }| {
            let rival = holder.rival();
            if rival.as_ref().is_some_and(|rival| same_endpoint.refuses(rival, now)) {
                return Ok((None, Stored::EndpointTaken));
            }
            let before = before.filter(|item| item::is_stored(item));
            let created_at = before.map_or(Some(now), |before| before.time("created_at"));
            let mut item = item.clone();
            item.extend(created_at.map(|at| ("created_at".to_owned(), ms(at))));
            if item.contains_key("p256dh") {
                item.insert("authorized_at".to_owned(), ms(now));
            }
            let took_over_at = before.and_then(|before| before.time("took_over_at"));
            let took_over_at = if rival.is_some() { Some(now) } else { took_over_at };
            item.extend(took_over_at.map(|at| ("took_over_at".to_owned(), ms(at))));
            let same = before.filter(|before| before.text("endpoint") == item.text("endpoint"));
            let enabled_at = same.and_then(|before| before.time("enabled_at"));
            item.extend(enabled_at.map(|at| ("enabled_at".to_owned(), ms(at))));
            Ok((Some(After::Whole(item)), if before.is_none() { Stored::New } else { Stored::InPlace }))
        })
        .await
    }

    /// Signs with `newer` from now on, and until `ends_at` also with the previous secrets. Returns all secrets that are stored then;
    /// `None` if no webhook is stored under that key. The previous secrets of a webhook without its own are its tenant's.
    ///
    /// The write is conditional on the endpoint and the sealed text that were read: of two rotations at the same time neither loses
    /// the other's secret, and a rotation does not touch a new subscription. All other attributes stay.
    pub async fn rotate_secret(
        &self,
        key: &SubscriptionKey,
        newer: &WebhookSecret,
        ends_at: Timestamp,
        now: Timestamp,
    ) -> Result<Option<SigningSecrets>, PortError> {
        let Some(keys) = &self.keys else {
            return Err(aws_error::of_code("OpenWebhookSecrets", "NoWebhookKey"));
        };
        for _ in 0..ROUNDS {
            let Some(before) = self.table.get_one(item_key(key)).await? else { return Ok(None) };
            let Some(subscription) = item::read(&before, keys).transpose()? else { return Ok(None) };
            let Recipient::Webhook(mut target) = subscription.recipient else { return Ok(None) };
            let mut secrets = std::mem::take(&mut target.secrets);
            if secrets.at(now).is_empty() {
                let of_tenant = keys.secrets_of(&key.tenant).into_iter().take(SigningSecrets::MOST);
                let of_tenant = of_tenant.map(|secret| (secret, None)).collect();
                secrets =
                    SigningSecrets::new(of_tenant).expect("invariant: no more were taken than there may be");
            }
            target.secrets = secrets.rotated(newer.clone(), ends_at, now);
            let as_before = |name: &str| s(before.text(name).unwrap_or_default());
            let values = [
                (":sealed", s(keys.seal(key, &target))),
                (":at", ms(now)),
                (":endpoint", as_before("endpoint")),
                (":before", as_before("sealed")),
            ];
            let expression = "SET sealed = :sealed, updated_at = :at";
            let condition = "endpoint = :endpoint AND sealed = :before";
            if self.table.update_if(item_key(key), expression, condition, values).await? {
                return Ok(Some(target.secrets));
            }
        }
        Err(aws_error::of_code("UpdateItem", "Contention"))
    }

    /// The subscription of an item; `None` for a tombstone.
    pub(super) fn read(&self, item: Option<&Item>) -> Result<Option<Subscription>, PortError> {
        item.and_then(|item| item::read(item, self.keys.as_ref())).transpose()
    }

    fn whole(&self, subscription: &Subscription, now: Timestamp) -> Item {
        item::write(subscription, self.keys.as_ref(), now)
    }

    /// The attributes that the browser sent.
    fn part(&self, subscription: &Subscription, now: Timestamp) -> After {
        let mut item = self.whole(subscription, now);
        let (mut sets, mut removes): (Vec<(&'static str, AttributeValue)>, _) = (Vec::new(), Vec::new());
        for name in SENT {
            match item.remove(name) {
                Some(value) => sets.push((name, value)),
                None => removes.push(name),
            }
        }
        // A browser that shows itself clears them. What an import leaves may have changed since it was read.
        if !subscription.doubts.is_any() {
            removes.extend(item::DOUBTS);
        }
        After::Part { sets, removes }
    }
}

impl SubscriptionBook for DynamoSubscriptions {
    async fn renew(
        &self,
        renewal: Renewal,
        same_endpoint: SameEndpoint,
        now: Timestamp,
    ) -> Result<Renewed, PortError> {
        let endpoint = &renewal.document.target.endpoint;
        self.change(&renewal.key, Some(endpoint), now, |Met { before, holder }| {
            let rival = holder.rival();
            let deleted_at = before.and_then(item::deleted_at);
            let before = self.read(before)?;
            let replaced = matches!(rival, Some(Rival::Stored(_)));
            let kept = |subscription| Box::new(Kept { subscription, replaced });
            Ok(match renewal.decide(before.as_ref(), deleted_at, rival.as_ref(), same_endpoint, now) {
                Decision::Begins(new) => (Some(After::Whole(self.whole(&new, now))), Renewed::New(kept(new))),
                Decision::Moves(moved) => {
                    (Some(After::Whole(self.whole(&moved, now))), Renewed::Renewed(kept(moved)))
                }
                Decision::Stays(same) => (Some(self.part(&same, now)), Renewed::Renewed(kept(same))),
                Decision::NeedsConsent => (None, Renewed::NeedsConsent),
                Decision::IsAWebhook => (None, Renewed::IsAWebhook),
                Decision::TokenEnded => (None, Renewed::TokenEnded),
                Decision::TagsNotPermitted => (None, Renewed::TagsNotPermitted),
                Decision::EndpointTaken { same } => (None, Renewed::EndpointTaken { same }),
            })
        })
        .await
    }

    async fn find(&self, key: &SubscriptionKey) -> Result<Found, PortError> {
        let item = self.table.get_one(item_key(key)).await?;
        if let Some(stored) = self.read(item.as_ref())? {
            return Ok(Found::Stored(Box::new(stored)));
        }
        Ok(item.as_ref().and_then(item::read_tombstone).unwrap_or(Found::Unknown))
    }

    async fn same_as(&self, renewal: &Renewal, now: Timestamp) -> Result<Option<SubscriptionId>, PortError> {
        let holder = self.holder_of(&renewal.key, &renewal.document.target.endpoint, now).await?;
        Ok(holder.rival().and_then(|rival| renewal.same_as(&rival)))
    }

    async fn erase(
        &self,
        key: &SubscriptionKey,
        permit: Option<&Permit>,
        hash_keys: &HashKeys,
        now: Timestamp,
    ) -> Result<Erased, PortError> {
        self.change(key, None, now, |Met { before, .. }| {
            let Some(stored) = self.read(before)? else { return Ok((None, Erased::Nothing)) };
            let Recipient::WebPush(target) = &stored.recipient else { return Ok((None, Erased::Nothing)) };
            if permit.is_some_and(|permit| !permit.is_for(&stored)) {
                return Ok((None, Erased::TokenEnded));
            }
            let tombstone = item::tombstone(key, Some(&hash_keys.endpoint(&target.endpoint)), now);
            Ok((Some(After::Whole(tombstone)), Erased::Yes))
        })
        .await
    }
}
