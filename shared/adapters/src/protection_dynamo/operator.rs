//! What an operator sees and sets. Nothing here is on a message's way.

use aws_sdk_dynamodb::types::ReturnValue;
use redial_core::endpoint::Origin;
use redial_core::rate::Rate;
use redial_engine::ports::{Limited, PortError, StoredOrigin};

use super::DynamoProtection;
use super::item::{self, Key, LIMITS, LIST};
use crate::attributes::{Item, Read, s};
use crate::aws_error;
use crate::batch_get::Reading;
use crate::query;

impl DynamoProtection {
    /// The origins that have a state, with it, in the order of their texts. One whose breaker has been closed for a week may
    /// be missing.
    pub async fn origins(&self) -> Result<Vec<(Origin, StoredOrigin)>, PortError> {
        let listed = self.partition(LIST).await?;
        let origins: Vec<Origin> = listed.iter().filter_map(|item| Origin::parse(item.text("sk")?)).collect();
        let found = self.find(origins.iter().map(Key::state).collect(), Reading::Consistent).await?;
        // One is on the list a moment before it has a state.
        let stored = |origin: Origin| {
            let state = found.get(&Key::state(&origin))?;
            Some((origin, item::stored(state)))
        };
        Ok(origins.into_iter().filter_map(stored).collect())
    }

    /// An origin's state as it is now; the default one, of version 0, if it has none.
    pub async fn stored(&self, origin: &Origin) -> Result<StoredOrigin, PortError> {
        Ok(self.get(&Key::state(origin)).await?.as_ref().map(item::stored).unwrap_or_default())
    }

    /// The limits that are set and followed: origins' first, then tenants', in the order of their texts.
    pub async fn limits(&self) -> Result<Vec<(Limited, Rate)>, PortError> {
        let items = self.partition(LIMITS).await?;
        let read = |item: &Item| {
            let limited = item::limited(item)?;
            let rate = item::rate(&limited, item)?;
            Some((limited, rate))
        };
        Ok(items.iter().filter_map(read).collect())
    }

    /// Sets a limit; answers the one that stood there, if it was one.
    pub async fn set_limit(&self, limited: &Limited, rate: Rate) -> Result<Option<Rate>, PortError> {
        let update = self
            .updating(&Key::limit(limited))
            .update_expression("SET #rate = :rate")
            .expression_attribute_names("#rate", "rate")
            .expression_attribute_values(":rate", s(rate.to_string()))
            .return_values(ReturnValue::UpdatedOld);
        let before = self.updated(update).await?;
        Ok(before.and_then(|item| rate_of(&item)))
    }

    /// Removes a limit; answers the one that stood there, if it was one.
    pub async fn remove_limit(&self, limited: &Limited) -> Result<Option<Rate>, PortError> {
        let deleted = self
            .client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(Key::limit(limited).item()))
            .return_values(ReturnValue::AllOld)
            .send()
            .await;
        let before = deleted.map_err(|error| aws_error::of_call("DeleteItem", &error))?.attributes;
        Ok(before.and_then(|item| rate_of(&item)))
    }

    /// All items of a partition, in the order of their sort keys.
    async fn partition(&self, pk: &str) -> Result<Vec<Item>, PortError> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", s(pk))
            .consistent_read(true);
        query::all(query).await
    }
}

fn rate_of(item: &Item) -> Option<Rate> {
    Rate::parse(item.text("rate")?).ok()
}
