//! The public halves of the VAPID keys, in the `control` table.
//!
//! The function that faces the internet lists them to browsers, and must not be able to read the secret with the private
//! halves. So whoever can read the secret publishes what may be known of it: dispatch after each deployment and every few
//! minutes, and the commands that rotate and retire keys. The secret stays the one source: the row is written over each time,
//! so that a change that was made by hand is listed some minutes later.
//!
//! | pk | sk | what |
//! |---|---|---|
//! | `vapid` | `public` | `current`: the id of the key that new subscribers are given; `keys`: public keys by id |

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::identity::VapidKeyId;
use redial_engine::ports::{PortError, PublicKey};

use crate::attributes::{Item, Read, s};
use crate::aws_error;
use crate::vapid::{LoadPublicKeys, VapidKeys};

/// The row of the public keys.
#[derive(Clone, Debug)]
pub struct DynamoPublicKeys {
    client: Client,
    table: String,
}

impl DynamoPublicKeys {
    /// In this table: partition key `pk`, sort key `sk` (strings).
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// Writes the public halves of these keys in the place of what was published before.
    pub async fn publish(&self, keys: &VapidKeys) -> Result<(), PortError> {
        let public = keys.published().map(|key| (key.id.as_str().to_owned(), s(key.public_base64url)));
        let updated = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key()))
            .update_expression("SET #current = :current, #keys = :keys")
            .expression_attribute_names("#current", "current")
            .expression_attribute_names("#keys", "keys")
            .expression_attribute_values(":current", s(keys.current_id().as_str()))
            .expression_attribute_values(":keys", AttributeValue::M(public.collect()))
            .send()
            .await;
        updated.map(|_| ()).map_err(|error| aws_error::of_call("UpdateItem", &error))
    }

    /// What is published, in the order of the ids; `None` before the first time.
    pub async fn published(&self) -> Result<Option<Vec<PublicKey>>, PortError> {
        let got = self.client.get_item().table_name(&self.table).set_key(Some(key()));
        let got = got.consistent_read(true).send().await;
        let item = got.map_err(|error| aws_error::of_call("GetItem", &error))?.item;
        Ok(item.as_ref().and_then(read))
    }
}

impl LoadPublicKeys for DynamoPublicKeys {
    async fn load(&self) -> Result<Vec<PublicKey>, PortError> {
        self.published().await?.ok_or_else(|| aws_error::of_code("GetItem", "VapidKeysNotPublished"))
    }
}

fn key() -> Item {
    HashMap::from([("pk".to_owned(), s("vapid")), ("sk".to_owned(), s("public"))])
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
