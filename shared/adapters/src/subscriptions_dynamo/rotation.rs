//! Exchanging a webhook's signing secret while messages are under way.
//!
//! The write is conditional on the endpoint and the sealed text that were read: of two rotations at the same time neither loses the
//! other's secret, and a rotation does not touch a new subscription. All other attributes stay, the receiver's health among them.

use redial_core::identity::SubscriptionKey;
use redial_core::recipient::Recipient;
use redial_core::time::Timestamp;
use redial_core::webhook::{SigningSecrets, WebhookSecret};
use redial_engine::ports::PortError;

use super::{DynamoSubscriptions, item, item_key};
use crate::aws_error;
use crate::table::attributes::{Item, Read, ms, s};
use crate::webhook_keys::WebhookKeys;

/// How often a rotation starts over while others keep changing the item.
const ROUNDS: usize = 4;

impl DynamoSubscriptions {
    /// Signs with `newer` from now on, and until `ends_at` also with the previous secrets. Returns all secrets that are stored then;
    /// `None` if no webhook is stored under that key. The previous secrets of a webhook without its own are its tenant's.
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
            let Recipient::Webhook(target) = subscription.recipient else { return Ok(None) };
            let mut secrets = target.secrets;
            if secrets.at(now).is_empty() {
                secrets = secrets_of_the_tenant(keys, key);
            }
            let secrets = secrets.rotated(newer.clone(), ends_at, now);
            let sealed = keys.seal(key, &secrets, &target.headers);
            if self.put_sealed(key, &before, sealed, now).await? {
                return Ok(Some(secrets));
            }
        }
        Err(aws_error::of_code("UpdateItem", "Contention"))
    }

    /// Replaces the sealed text of `before`; `false` if the item has changed since.
    async fn put_sealed(
        &self,
        key: &SubscriptionKey,
        before: &Item,
        sealed: String,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let as_before = |name: &str| s(before.text(name).unwrap_or_default());
        let values = [
            (":sealed", s(sealed)),
            (":at", ms(now)),
            (":endpoint", as_before("endpoint")),
            (":before", as_before("sealed")),
        ];
        let update = self.table.update(item_key(key), "SET sealed = :sealed, updated_at = :at", values);
        let update = update.condition_expression("endpoint = :endpoint AND sealed = :before");
        Ok(self.table.send(update).await?.is_done())
    }
}

fn secrets_of_the_tenant(keys: &WebhookKeys, key: &SubscriptionKey) -> SigningSecrets {
    let secrets = keys.secrets_of(&key.tenant).into_iter().take(SigningSecrets::MOST);
    SigningSecrets::new(secrets.map(|secret| (secret, None)).collect())
        .expect("invariant: no more were taken than there may be")
}
