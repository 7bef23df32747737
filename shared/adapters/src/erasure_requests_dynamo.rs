//! The erasures that tenants have requested, in the `control` table.
//!
//! | pk | sk | what | expires |
//! |---|---|---|---|
//! | `erasures` | `<tenant>#<id>` | a pending one: whom it is about, when it was requested and marked, and how far its search is | |
//! | `erasures#<tenant>` | id | one that is done: when, how much was read, and what was found | after 30 days |
//!
//! One that is done is stored there before it is deleted here, so that it is always found: here first.

use aws_sdk_dynamodb::types::{AttributeValue, Select};
use redial_core::endpoint::Endpoint;
use redial_core::erasure::{Erasure, ErasureId, MARK_KEPT};
use redial_core::identity::{SubscriptionId, Tenant};
use redial_core::message::ProducerRef;
use redial_engine::ports::{ErasureRequests, PortError};

use crate::table::attributes::{Item, Read as _, expiry, key, ms, n, s};
use crate::table::{Table, on_a_table, page};

const PENDING: &str = "erasures";

/// The `control` table: partition key `pk`, sort key `sk` (strings), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoErasureRequests {
    table: Table,
}

on_a_table!(DynamoErasureRequests);

fn pending_key(tenant: &Tenant, id: &ErasureId) -> Item {
    key(PENDING, format!("{tenant}#{id}"))
}

fn done_key(tenant: &Tenant, id: &ErasureId) -> Item {
    key(format!("{PENDING}#{tenant}"), id.as_str())
}

/// All attributes but the key.
fn attributes(erasure: &Erasure) -> Vec<(&'static str, AttributeValue)> {
    let json = |value: serde_json::Result<String>| s(value.expect("invariant: these have a form as JSON"));
    let some = [
        ("subscription", erasure.subscription.as_ref().map(|id| s(id.as_str()))),
        ("ref", erasure.producer_ref.as_ref().map(|text| s(text.expose()))),
        ("endpoint", erasure.endpoint.as_ref().map(|endpoint| s(endpoint.expose().as_str()))),
        ("former", (!erasure.former.is_empty()).then(|| json(serde_json::to_string(&erasure.former)))),
        ("requested_at", Some(ms(erasure.requested_at))),
        ("marked_at", erasure.marked_at.map(ms)),
        ("position", erasure.at.as_ref().map(|at| json(serde_json::to_string(at)))),
        ("read", Some(n(erasure.read))),
        ("found", Some(json(serde_json::to_string(&erasure.found)))),
        ("done_at", erasure.done_at.map(ms)),
        ("step", Some(n(erasure.step))),
    ];
    some.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// `None` if it is no such item, or another version wrote it.
fn read(item: &Item) -> Option<Erasure> {
    let (pk, sk) = (item.text("pk")?, item.text("sk")?);
    let (tenant, id) = match pk.split_once('#') {
        Some((_, tenant)) => (tenant, sk),
        None => sk.split_once('#')?,
    };
    Some(Erasure {
        tenant: Tenant::parse(tenant)?,
        id: ErasureId::parse(id)?,
        subscription: item.text("subscription").and_then(SubscriptionId::parse),
        producer_ref: item.text("ref").and_then(ProducerRef::parse),
        endpoint: item.text("endpoint").and_then(|text| Endpoint::parse(text).ok()),
        former: item.text("former").map(serde_json::from_str).transpose().ok()?.unwrap_or_default(),
        requested_at: item.time("requested_at")?,
        marked_at: item.time("marked_at"),
        at: item.text("position").map(serde_json::from_str).transpose().ok()?,
        read: item.number("read")?,
        found: serde_json::from_str(item.text("found")?).ok()?,
        done_at: item.time("done_at"),
        step: item.number("step")?,
    })
}

impl DynamoErasureRequests {
    /// Writes a row in place of what was there, if that meets the condition; whether it did.
    async fn write(
        &self,
        key: Item,
        attributes: Vec<(&'static str, AttributeValue)>,
        condition: Option<(&str, AttributeValue)>,
    ) -> Result<bool, PortError> {
        const ALL: [&str; 12] = [
            "subscription",
            "ref",
            "endpoint",
            "former",
            "requested_at",
            "marked_at",
            "position",
            "read",
            "found",
            "done_at",
            "step",
            "expires_at",
        ];
        let sets: Vec<String> = attributes.iter().map(|(name, _)| format!("#{name} = :{name}")).collect();
        let is_set = |name: &&str| attributes.iter().any(|(set, _)| set == name);
        let removes: Vec<String> =
            ALL.iter().filter(|name| !is_set(name)).map(|name| format!("#{name}")).collect();
        let mut expression = format!("SET {}", sets.join(", "));
        if !removes.is_empty() {
            expression.push_str(&format!(" REMOVE {}", removes.join(", ")));
        }
        let values = attributes.into_iter().map(|(name, value)| (format!(":{name}"), value));
        let mut values: Item = values.collect();
        let mut update = self.table.update(key, expression, []);
        if let Some((condition, value)) = condition {
            if condition.contains(":before") {
                values.insert(":before".to_owned(), value);
            }
            update = update.condition_expression(condition);
        }
        Ok(self.table.send(update.set_expression_attribute_values(Some(values))).await?.is_done())
    }
}

impl ErasureRequests for DynamoErasureRequests {
    async fn begin(&self, erasure: Erasure) -> Result<Erasure, PortError> {
        let key = pending_key(&erasure.tenant, &erasure.id);
        let is_new = Some(("attribute_not_exists(pk)", n(0)));
        if self.write(key.clone(), attributes(&erasure), is_new).await? {
            return Ok(erasure);
        }
        // The same, requested at the same moment. If it is done already, its whole search covered this one, too.
        Ok(self.find(&erasure.tenant, &erasure.id).await?.unwrap_or(erasure))
    }

    async fn count_pending(&self, tenant: &Tenant) -> Result<usize, PortError> {
        let values = [(":pk", s(PENDING)), (":own", s(format!("{tenant}#")))];
        let query = self.table.query("pk = :pk AND begins_with(sk, :own)", values).select(Select::Count);
        // A page of a megabyte has more than may be pending.
        Ok(usize::try_from(page(query).await?.count).unwrap_or_default())
    }

    async fn pending(&self) -> Result<Vec<Erasure>, PortError> {
        Ok(self.table.partition(PENDING).await?.iter().filter_map(read).collect())
    }

    async fn advance(&self, before: &Erasure, after: &Erasure) -> Result<bool, PortError> {
        let pending = pending_key(&before.tenant, &before.id);
        let unchanged = "#step = :before";
        let Some(done_at) = after.done_at else {
            return self.write(pending, attributes(after), Some((unchanged, n(before.step)))).await;
        };
        let mut row = attributes(after);
        row.push(("expires_at", expiry(done_at.plus(MARK_KEPT))));
        self.write(done_key(&after.tenant, &after.id), row, None).await?;
        self.table.delete_if(pending, unchanged, [(":before", n(before.step))]).await
    }

    async fn find(&self, tenant: &Tenant, id: &ErasureId) -> Result<Option<Erasure>, PortError> {
        for key in [pending_key(tenant, id), done_key(tenant, id)] {
            if let Some(found) = self.table.get(key).await?.as_ref().and_then(read) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use redial_core::endpoint::EndpointHash;
    use redial_core::erasure::{At, Counts, ErasureState, Kind, Place, Searched};
    use redial_core::time::Timestamp;

    use super::*;
    use crate::fake_table::FakeTable;
    use crate::fixtures::{subscription, tenant};

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000 + secs)
    }

    fn new() -> (FakeTable, DynamoErasureRequests, Erasure) {
        let table = FakeTable::default();
        let requests = DynamoErasureRequests::new(table.client(), "control".to_owned());
        let text = ProducerRef::parse("user 7");
        let erasure = Erasure::new(tenant("acme"), Some(subscription("s1").id), text, at(0));
        let endpoint = Endpoint::parse("https://push.example/s3cret").ok();
        let former = vec![EndpointHash::parse(&format!("hmac:k1:{}", "a".repeat(64))).expect("a hash")];
        (table, requests, Erasure { endpoint, former, ..erasure })
    }

    fn page(next: Option<At>) -> Searched {
        let mut found = Counts::default();
        found.add(Kind::Delivery);
        Searched { found, read: 7, next }
    }

    #[tokio::test]
    async fn a_request_is_kept_until_it_is_done_and_then_without_whom_it_was_about() {
        let (table, requests, erasure) = new();
        let find = async || requests.find(&erasure.tenant, &erasure.id).await.expect("it is read");
        assert_eq!(find().await, None);
        assert_eq!(requests.begin(erasure.clone()).await, Ok(erasure.clone()));
        assert_eq!(find().await, Some(erasure.clone()));
        // The same request again changes nothing.
        let again = Erasure { requested_at: at(9), endpoint: None, ..erasure.clone() };
        assert_eq!(requests.begin(again).await, Ok(erasure.clone()));

        let marked = erasure.marked(at(1));
        assert_eq!(requests.advance(&erasure, &marked).await, Ok(true));
        assert_eq!(requests.advance(&erasure, &erasure.marked(at(2))).await, Ok(false), "another was first");
        let under_way = marked.searched(page(Some(At::of(Place::Parked))), at(70));
        assert_eq!(requests.advance(&marked, &under_way).await, Ok(true));
        assert_eq!(find().await, Some(under_way.clone()));

        let done = under_way.searched(page(None), at(80));
        assert_eq!(requests.advance(&under_way, &done).await, Ok(true));
        assert_eq!(requests.advance(&under_way, &done).await, Ok(false));
        assert_eq!(find().await, Some(done.clone()));
        assert_eq!(done.state(), ErasureState::Done);
        assert_eq!(table.item(PENDING, &format!("acme#{}", done.id)), None);
        let row = table.item("erasures#acme", done.id.as_str()).expect("it is kept").to_string();
        assert!(!row.contains("user 7") && !row.contains("s3cret") && !row.contains("s1"), "{row}");
        assert!(row.contains("expires_at"), "{row}");
    }

    #[tokio::test]
    async fn the_pending_ones_of_a_tenant_are_counted_and_those_of_all_are_listed() {
        let (_, requests, erasure) = new();
        requests.begin(erasure.clone()).await.expect("it is stored");
        let other = Erasure::new(tenant("acme-b"), Some(subscription("s1").id), None, at(0));
        requests.begin(other.clone()).await.expect("it is stored");
        for (of, count) in [("acme", 1), ("acme-b", 1), ("shop", 0)] {
            assert_eq!(requests.count_pending(&tenant(of)).await, Ok(count), "{of}");
        }
        let mut pending = requests.pending().await.expect("they are read");
        pending.sort_by_key(|it| it.tenant.clone());
        assert_eq!(pending, [erasure, other]);
    }
}
