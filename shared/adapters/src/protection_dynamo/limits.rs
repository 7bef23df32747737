//! What an operator allows origins and tenants: items of the partition `limits`, read and set.

use aws_sdk_dynamodb::types::ReturnValue;
use redial_core::identity::Tenant;
use redial_core::rate::Rate;
use redial_core::share::Share;
use redial_engine::ports::{Allowed, Limited, PortError};

use super::DynamoProtection;
use super::limit_item::{Attribute, LIMITS, described, limit_key, limited, parsed, read_and_log, share_of};
use crate::table::attributes::{Item, s};

/// What an operator reads and sets. No delivery uses it.
impl DynamoProtection {
    /// The rates in effect: origins' first, then tenants', in the order of their texts.
    pub async fn limits(&self) -> Result<Vec<(Limited, Rate)>, PortError> {
        let all = self.allowed_all().await?.into_iter();
        Ok(all.filter_map(|(limited, allowed)| Some((limited, allowed.rate?))).collect())
    }

    /// The tenants that have a rate, a weight or a number of concurrent attempts of their own, in the order of their names.
    pub async fn tenants(&self) -> Result<Vec<(Tenant, Allowed)>, PortError> {
        let tenant = |(limited, allowed)| match limited {
            Limited::Tenant(tenant) if allowed != Allowed::default() => Some((tenant, allowed)),
            Limited::Tenant(_) | Limited::Origin(_) => None,
        };
        Ok(self.allowed_all().await?.into_iter().filter_map(tenant).collect())
    }

    async fn allowed_all(&self) -> Result<Vec<(Limited, Allowed)>, PortError> {
        let items = self.table.partition(LIMITS).await?;
        let read = |item: &Item| limited(item).map(|limited| (limited.clone(), read_and_log(&limited, item)));
        Ok(items.iter().filter_map(read).collect())
    }

    /// What workers ignore, because it is invalid: `limit of tenant acme`, `weight of tenant acme`.
    pub async fn ignored(&self) -> Result<Vec<String>, PortError> {
        let items = self.table.partition(LIMITS).await?;
        Ok(items.iter().flat_map(described).collect())
    }

    pub async fn allowed(&self, limited: &Limited) -> Result<Allowed, PortError> {
        let item = self.table.get(limit_key(limited)).await?;
        Ok(item.map(|item| read_and_log(limited, &item)).unwrap_or_default())
    }

    /// Sets a limit; returns the previous one, if it was valid.
    pub async fn set_limit(&self, limited: &Limited, rate: Rate) -> Result<Option<Rate>, PortError> {
        let values = [(":rate", s(rate.to_string()))];
        let update = self.table.update(limit_key(limited), "SET #rate = :rate", values);
        let before = self.table.send(update.return_values(ReturnValue::UpdatedOld)).await?.attributes();
        Ok(before.and_then(|item| parsed(&item, Attribute::Rate, Rate::parse).ok()?))
    }

    /// Removes a limit; returns it, if it was valid.
    pub async fn remove_limit(&self, limited: &Limited) -> Result<Option<Rate>, PortError> {
        let before = self.remove(limited, &[Attribute::Rate]).await?;
        Ok(parsed(&before, Attribute::Rate, Rate::parse).ok().flatten())
    }

    /// Sets what `share` has; returns what was there before, as far as it was valid. What `share` does not have stays.
    pub async fn set_share(&self, tenant: &Tenant, share: Share) -> Result<Share, PortError> {
        let weight = share.weight.map(|weight| (Attribute::Weight, weight.to_string()));
        let concurrency = share.concurrency.map(|most| (Attribute::Concurrency, most.to_string()));
        let set: Vec<_> = [weight, concurrency].into_iter().flatten().collect();
        let steps: Vec<String> =
            set.iter().map(|(attribute, _)| format!("#{0} = :{0}", attribute.name())).collect();
        let key = limit_key(&Limited::Tenant(tenant.clone()));
        let update = self.table.update(key, format!("SET {}", steps.join(", ")), []);
        let update = set.into_iter().fold(update, |update, (attribute, value)| {
            update.expression_attribute_values(format!(":{}", attribute.name()), s(value))
        });
        // What is replaced and what stays.
        let before = self.table.send(update.return_values(ReturnValue::AllOld)).await?.attributes();
        Ok(before.map(|item| share_of(&item)).unwrap_or_default())
    }

    /// Removes a tenant's weight, its number of concurrent attempts, or both; returns what was removed, as far as it was valid.
    pub async fn clear_share(
        &self,
        tenant: &Tenant,
        weight: bool,
        concurrency: bool,
    ) -> Result<Share, PortError> {
        let which = [(weight, Attribute::Weight), (concurrency, Attribute::Concurrency)];
        let which: Vec<Attribute> = which.into_iter().filter_map(|(is, it)| is.then_some(it)).collect();
        Ok(share_of(&self.remove(&Limited::Tenant(tenant.clone()), &which).await?))
    }

    /// Removes these attributes, and the item if it has none of the others; returns them.
    async fn remove(&self, limited: &Limited, which: &[Attribute]) -> Result<Item, PortError> {
        let key = limit_key(limited);
        let names: Vec<String> = which.iter().map(|it| format!("#{}", it.name())).collect();
        let update = self.table.update(key.clone(), format!("REMOVE {}", names.join(", ")), []);
        let update =
            update.condition_expression("attribute_exists(pk)").return_values(ReturnValue::UpdatedOld);
        let before = self.table.send(update).await?.attributes().unwrap_or_default();
        let none = Attribute::ALL.map(|it| format!("attribute_not_exists(#{})", it.name()));
        self.table.delete_if(key, &none.join(" AND "), []).await?;
        Ok(before)
    }
}
