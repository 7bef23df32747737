//! The public halves of the VAPID keys, in the `control` table.
//!
//! The function that faces the internet lists them to browsers, and must not be able to read the secret with the private halves. So the
//! functions and commands that can read the secret publish the public halves: dispatch after each deployment and every few minutes, and
//! the commands that rotate and retire keys. The secret stays the one source: the row is overwritten each time, so a change by hand is
//! undone after some minutes.
//!
//! | pk | sk | what |
//! |---|---|---|
//! | `vapid` | `public` | `current`: the id of the key for new subscribers; `keys`: public keys by id |

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::identity::VapidKeyId;
use redial_engine::ports::{PortError, PublicKey};

use crate::aws_error;
use crate::table::attributes::{self, Item, Read, s};
use crate::table::{Table, on_a_table};
use crate::vapid::{LoadPublicKeys, VapidKeys};

/// The row of the public keys, in a table with partition key `pk` and sort key `sk` (strings).
#[derive(Clone, Debug)]
pub struct DynamoPublicKeys {
    table: Table,
}

on_a_table!(DynamoPublicKeys);

impl DynamoPublicKeys {
    /// Writes the public halves of these keys in place of those that were published before.
    pub async fn publish(&self, keys: &VapidKeys) -> Result<(), PortError> {
        let public = keys.published().map(|key| (key.id.as_str().to_owned(), s(key.public_base64url)));
        let values =
            [(":current", s(keys.current_id().as_str())), (":keys", AttributeValue::M(public.collect()))];
        let update = self.table.update(key(), "SET #current = :current, #keys = :keys", values);
        self.table.send(update).await.map(|_| ())
    }

    /// What is published, in the order of the ids; `None` before the first publication.
    pub async fn published(&self) -> Result<Option<Vec<PublicKey>>, PortError> {
        Ok(self.table.get(key()).await?.as_ref().and_then(read))
    }
}

impl LoadPublicKeys for DynamoPublicKeys {
    async fn load(&self) -> Result<Vec<PublicKey>, PortError> {
        self.published().await?.ok_or_else(|| aws_error::of_code("GetItem", "VapidKeysNotPublished"))
    }
}

fn key() -> Item {
    attributes::key("vapid", "public")
}

fn read(item: &Item) -> Option<Vec<PublicKey>> {
    let current = item.text("current")?;
    let keys = item.get("keys")?.as_m().ok()?;
    let public = keys.iter().map(|(id, key)| {
        Some(PublicKey {
            id: VapidKeyId::parse(id)?,
            public_base64url: key.as_s().ok()?.clone(),
            is_current: id == current,
        })
    });
    let mut public: Vec<PublicKey> = public.collect::<Option<_>>()?;
    public.sort_by(|one, other| one.id.cmp(&other.id));
    Some(public)
}

#[cfg(test)]
#[path = "public_keys_dynamo_tests.rs"]
mod tests;
