//! Exchanging a webhook's signing secret while messages are under way.
//!
//! What is written is conditional on what was read, the endpoint and the sealed text: of two rotations at the same time neither
//! loses the other's secret, and one that meets a new subscription leaves it alone. Everything else of the item stays, its
//! health among it.

use redial_core::identity::SubscriptionKey;
use redial_core::recipient::Recipient;
use redial_core::time::Timestamp;
use redial_core::webhook::{SigningSecrets, WebhookSecret};
use redial_engine::ports::PortError;

use super::{DynamoSubscriptions, item};
use crate::attributes::{Item, Read, ms, s};
use crate::aws_error;
use crate::webhook_keys::WebhookKeys;

/// How often a rotation begins anew when others keep changing the item.
const ROUNDS: usize = 4;

impl DynamoSubscriptions {
    /// Signs with `newer` from now on, and until `ends_at` with the secrets from before beside it. Answers all that are stored
    /// then; `None` if no webhook is stored under that key. A webhook without secrets of its own had its tenant's: those
    /// are what sign beside the new one.
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
            let items = self.items(std::slice::from_ref(key)).await?;
            let Some(before) = items.first() else { return Ok(None) };
            let Some(subscription) = item::read(before, keys).transpose()? else { return Ok(None) };
            let Recipient::Webhook(target) = subscription.recipient else { return Ok(None) };
            let mut known = target.secrets;
            if known.at(now).is_empty() {
                known = secrets_of_the_tenant(keys, key);
            }
            let secrets = known.rotated(newer.clone(), ends_at, now);
            let sealed = keys.seal(key, &secrets, &target.headers);
            if self.put_sealed(key, before, sealed, now).await? {
                return Ok(Some(secrets));
            }
        }
        Err(aws_error::of_code("UpdateItem", "Contention"))
    }

    /// Puts a sealed text in the place of the one that `before` has; `false` if that is no longer what is stored.
    async fn put_sealed(
        &self,
        key: &SubscriptionKey,
        before: &Item,
        sealed: String,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let as_before = |name: &str| s(before.text(name).unwrap_or_default());
        let update = self
            .updating(key)
            .update_expression("SET sealed = :sealed, updated_at = :at")
            .condition_expression("endpoint = :endpoint AND sealed = :before")
            .expression_attribute_values(":sealed", s(sealed))
            .expression_attribute_values(":at", ms(now))
            .expression_attribute_values(":endpoint", as_before("endpoint"))
            .expression_attribute_values(":before", as_before("sealed"));
        self.updated(update).await
    }
}

fn secrets_of_the_tenant(keys: &WebhookKeys, key: &SubscriptionKey) -> SigningSecrets {
    let secrets = keys.secrets_of(&key.tenant).into_iter().take(SigningSecrets::MOST);
    SigningSecrets::new(secrets.map(|secret| (secret, None)).collect())
        .expect("invariant: no more were taken than there may be")
}
