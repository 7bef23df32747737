//! What tenants use of their quotas, in the `control` table.
//!
//! | pk | sk | attributes |
//! |---|---|---|
//! | `usage#<tenant>` | `parked#<end>`, `dead_letters#<end>` | `count`: how many were stored that are gone at the window's end, in epoch seconds of 12 digits |
//! | `quotas` | `<tenant>` | `subscriptions`, `parked`, `dead_letters`: a quota that an operator has set, a number or `off` |
//!
//! A count expires a day after its window. It is only ever added to: see [`redial_core::quota`]. A tenant's subscriptions are counted by
//! [`crate::control_dynamo`], in the transaction that adds or removes one.

use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnValue;
use futures_util::future::{join_all, try_join};
use redial_core::identity::Tenant;
use redial_core::quota::{Limit, Quota};
use redial_core::time::Timestamp;
use redial_engine::ports::{Added, PortError, Quotas, Usage};

use crate::control_dynamo::subscriptions_in;
use crate::table::attributes::{Item, Read as _, expiry, key, n, s};
use crate::table::{Table, all, on_a_table};
use crate::telemetry;

/// The partition of what an operator sets.
const QUOTAS: &str = "quotas";

/// How long a count is kept after its window.
const KEPT: Duration = Duration::from_secs(86_400);

/// The `control` table: partition key `pk`, sort key `sk` (strings), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoQuotas {
    table: Table,
}

on_a_table!(DynamoQuotas);

impl DynamoQuotas {
    async fn used(&self, tenant: &Tenant, quota: Quota, now: Timestamp) -> Result<u64, PortError> {
        if quota == Quota::Subscriptions {
            return subscriptions_in(&self.table, tenant).await;
        }
        let ends_after = |secs: i64| s(sort(quota, Timestamp::from_secs(secs)));
        let values = [
            (":pk", s(partition(tenant))),
            (":from", ends_after(now.as_secs() + 1)),
            (":to", ends_after(i64::MAX)),
        ];
        let counts = all(self.table.query("pk = :pk AND sk BETWEEN :from AND :to", values)).await?;
        Ok(counts.iter().filter_map(|item| item.number::<u64>("count")).sum())
    }

    async fn own(&self, tenant: &Tenant, quota: Quota) -> Result<Option<Limit>, PortError> {
        let item = self.table.get(quotas_key(tenant)).await?;
        Ok(item.and_then(|item| limit(tenant, quota, &item)))
    }

    /// Sets a tenant's own quota; returns the previous one, if it was valid.
    pub async fn set(&self, tenant: &Tenant, quota: Quota, limit: Limit) -> Result<Option<Limit>, PortError> {
        let values = [(":limit", s(limit.to_string()))];
        let expression = format!("SET #{quota} = :limit");
        let update = self.table.update(quotas_key(tenant), expression, values);
        let before = self.table.send(update.return_values(ReturnValue::UpdatedOld)).await?.attributes();
        Ok(before.and_then(|item| self::limit(tenant, quota, &item)))
    }

    /// Removes a tenant's own quota; returns it, if it was valid. The stack's holds from then on.
    pub async fn unset(&self, tenant: &Tenant, quota: Quota) -> Result<Option<Limit>, PortError> {
        let update = self.table.update(quotas_key(tenant), format!("REMOVE #{quota}"), []);
        let before = self.table.send(update.return_values(ReturnValue::UpdatedOld)).await?.attributes();
        Ok(before.and_then(|item| limit(tenant, quota, &item)))
    }
}

impl Quotas for DynamoQuotas {
    async fn usage(&self, tenant: &Tenant, quota: Quota, now: Timestamp) -> Result<Usage, PortError> {
        let (used, limit) = try_join(self.used(tenant, quota, now), self.own(tenant, quota)).await?;
        Ok(Usage { used, limit })
    }

    async fn add(&self, added: Vec<(Added, u64)>) -> Vec<Result<(), PortError>> {
        let updates = added.into_iter().map(async |(Added { tenant, quota, until }, number)| {
            let values = [(":expires_at", expiry(until.plus(KEPT))), (":number", n(number))];
            let key = key(partition(&tenant), sort(quota, until));
            let expression = "SET #expires_at = :expires_at ADD #count :number";
            self.table.send(self.table.update(key, expression, values)).await.map(|_| ())
        });
        join_all(updates).await
    }
}

fn partition(tenant: &Tenant) -> String {
    format!("usage#{tenant}")
}

fn sort(quota: Quota, end: Timestamp) -> String {
    format!("{quota}#{:012}", end.as_secs())
}

fn quotas_key(tenant: &Tenant) -> Item {
    key(QUOTAS, tenant.as_str())
}

/// A tenant's own quota. An invalid one is logged and ignored.
fn limit(tenant: &Tenant, quota: Quota, item: &Item) -> Option<Limit> {
    item.get(quota.label())?;
    // An attribute of another type counts as an empty text: invalid.
    let read = Limit::parse(item.text(quota.label()).unwrap_or_default());
    read.map_err(|error| telemetry::limit_ignored(Some(tenant), quota.label(), &error)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake_table::FakeTable;
    use crate::fixtures::tenant;

    const NOW: i64 = 1_800_000_000;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(NOW + secs)
    }

    fn new() -> (FakeTable, DynamoQuotas) {
        let table = FakeTable::default();
        let quotas = DynamoQuotas::new(table.client(), "control".to_owned());
        (table, quotas)
    }

    fn added(name: &str, quota: Quota, until: i64) -> Added {
        Added { tenant: tenant(name), quota, until: at(until) }
    }

    async fn usage(quotas: &DynamoQuotas, name: &str, quota: Quota, now: i64) -> Usage {
        quotas.usage(&tenant(name), quota, at(now)).await.expect("it is read")
    }

    #[tokio::test]
    async fn what_is_added_counts_until_its_window_ends() {
        let (table, quotas) = new();
        let all = vec![
            (added("acme", Quota::Parked, 900), 3),
            (added("acme", Quota::Parked, 1_800), 4),
            (added("acme", Quota::DeadLetters, 900), 100),
            (added("bolt", Quota::Parked, 900), 1_000),
        ];
        for _ in 0..2 {
            assert_eq!(quotas.add(all.clone()).await, vec![Ok(()); 4]);
        }
        let item = json!({"count": {"N": "6"}, "expires_at": {"N": (NOW + 900 + 86_400).to_string()}});
        assert_eq!(table.item("usage#acme", "parked#001800000900"), Some(item));
        for (now, used) in [(0, 14), (899, 14), (900, 8), (1_799, 8), (1_800, 0)] {
            assert_eq!(
                usage(&quotas, "acme", Quota::Parked, now).await,
                Usage { used, limit: None },
                "{now}"
            );
        }
        assert_eq!(usage(&quotas, "acme", Quota::DeadLetters, 0).await.used, 200);
        assert_eq!(usage(&quotas, "bolt", Quota::Parked, 0).await.used, 2_000);
        assert_eq!(usage(&quotas, "crux", Quota::Parked, 0).await.used, 0);
    }

    #[tokio::test]
    async fn subscriptions_are_the_sum_of_their_parts() {
        let (table, quotas) = new();
        for (sort, count) in [("subscriptions", "7"), ("subscriptions#03", "5"), ("subscriptions#15", "-2")] {
            table.write("tenant#acme", sort, &json!({"count": {"N": count}}));
        }
        table.write("tenant#acme", "policies", &json!({"count": {"N": "99"}}));
        assert_eq!(usage(&quotas, "acme", Quota::Subscriptions, 0).await.used, 10);
    }

    #[tokio::test]
    async fn a_tenant_s_own_quota_is_set_read_and_removed() {
        let (table, quotas) = new();
        let acme = tenant("acme");
        let most = |number| Some(Limit::Most(number));
        for (quota, new, old) in [
            (Quota::Parked, Limit::Most(50), None),
            (Quota::Parked, Limit::Off, most(50)),
            (Quota::DeadLetters, Limit::Most(0), None),
        ] {
            assert_eq!(quotas.set(&acme, quota, new).await, Ok(old));
            assert_eq!(usage(&quotas, "acme", quota, 0).await.limit, Some(new));
        }
        let both = json!({"parked": {"S": "off"}, "dead_letters": {"S": "0"}});
        assert_eq!(table.item("quotas", "acme"), Some(both), "it does not expire");
        assert_eq!(usage(&quotas, "acme", Quota::Subscriptions, 0).await.limit, None);
        assert_eq!(usage(&quotas, "bolt", Quota::Parked, 0).await.limit, None);
        assert_eq!(quotas.unset(&acme, Quota::Parked).await, Ok(Some(Limit::Off)));
        assert_eq!(quotas.unset(&acme, Quota::Parked).await, Ok(None));
        assert_eq!(usage(&quotas, "acme", Quota::Parked, 0).await.limit, None);
        assert_eq!(usage(&quotas, "acme", Quota::DeadLetters, 0).await.limit, most(0));
    }

    #[tokio::test]
    async fn an_invalid_quota_of_its_own_is_none_and_can_be_replaced() {
        for garbage in [json!({"parked": {"S": "many"}}), json!({"parked": {"N": "50"}}), json!({})] {
            let (table, quotas) = new();
            table.write("quotas", "acme", &garbage);
            assert_eq!(usage(&quotas, "acme", Quota::Parked, 0).await.limit, None, "{garbage}");
            assert_eq!(quotas.set(&tenant("acme"), Quota::Parked, Limit::Most(5)).await, Ok(None));
            assert_eq!(usage(&quotas, "acme", Quota::Parked, 0).await.limit, Some(Limit::Most(5)));
        }
    }

    #[tokio::test]
    async fn a_table_that_cannot_be_read_or_written_is_an_error() {
        let (table, quotas) = new();
        table.state().refusing = Some(("", ""));
        assert!(quotas.usage(&tenant("acme"), Quota::Parked, at(0)).await.is_err());
        assert!(quotas.add(vec![(added("acme", Quota::Parked, 900), 1)]).await[0].is_err());
    }
}
