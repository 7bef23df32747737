//! What an operator reads and sets. No delivery uses it.

use aws_sdk_dynamodb::types::ReturnValue;
use redial_core::endpoint::Origin;
use redial_core::rate::Rate;
use redial_engine::ports::{Limited, PortError, StoredOrigin};

use super::DynamoProtection;
use super::item::{self, Key, LIMITS, LIST};
use crate::table::Reading;
use crate::table::attributes::{Item, Read, s};

impl DynamoProtection {
    /// The origins that have a state, with it, in alphabetical order. One whose breaker has been closed for a week may
    /// be missing.
    pub async fn origins(&self) -> Result<Vec<(Origin, StoredOrigin)>, PortError> {
        let listed = self.table.partition(LIST).await?;
        let origins: Vec<Origin> = listed.iter().filter_map(|item| Origin::parse(item.text("sk")?)).collect();
        let found = self.find(origins.iter().map(Key::state).collect(), Reading::Consistent).await?;
        // An origin is on the list a moment before it has a state.
        let stored = |origin: Origin| {
            let state = found.get(&Key::state(&origin))?;
            Some((origin, item::stored(state)))
        };
        Ok(origins.into_iter().filter_map(stored).collect())
    }

    /// An origin's state as it is now; the default one, of version 0, if it has none.
    pub async fn stored(&self, origin: &Origin) -> Result<StoredOrigin, PortError> {
        Ok(self.table.get(Key::state(origin).item()).await?.as_ref().map(item::stored).unwrap_or_default())
    }

    /// The limits in effect: origins' first, then tenants', in the order of their texts.
    pub async fn limits(&self) -> Result<Vec<(Limited, Rate)>, PortError> {
        let items = self.table.partition(LIMITS).await?;
        let read = |item: &Item| {
            let limited = item::limited(item)?;
            let rate = item::rate(&limited, item)?;
            Some((limited, rate))
        };
        Ok(items.iter().filter_map(read).collect())
    }

    /// Sets a limit; returns the previous one, if it was valid.
    pub async fn set_limit(&self, limited: &Limited, rate: Rate) -> Result<Option<Rate>, PortError> {
        let update = self
            .table
            .update(Key::limit(limited).item(), "SET #rate = :rate", [(":rate", s(rate.to_string()))])
            .return_values(ReturnValue::UpdatedOld);
        let before = self.table.send(update).await?.attributes();
        Ok(before.and_then(|item| rate_of(&item)))
    }

    /// Removes a limit; returns it, if it was valid.
    pub async fn remove_limit(&self, limited: &Limited) -> Result<Option<Rate>, PortError> {
        let before = self.table.delete(Key::limit(limited).item()).await?;
        Ok(before.and_then(|item| rate_of(&item)))
    }
}

fn rate_of(item: &Item) -> Option<Rate> {
    Rate::parse(item.text("rate")?).ok()
}
