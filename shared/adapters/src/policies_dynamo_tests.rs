use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;

use super::*;
use crate::cache::MOST;
use crate::fake_table::FakeTable;
use crate::fixtures::tenant;
use crate::table::attributes::n;

const MAX_AGE: Duration = Duration::from_secs(30);

struct Harness {
    table: FakeTable,
    worker: DynamoPolicies,
}

impl Harness {
    fn new(max_age: Duration) -> Self {
        let table = FakeTable::default();
        Self { worker: DynamoPolicies::new(table.client(), "control".to_owned(), max_age), table }
    }

    /// With a policy of `acme`, of one retry, that was read at 100 s.
    async fn with_acme() -> Self {
        let harness = Self::new(MAX_AGE);
        harness.store("acme", &retries(1));
        assert_eq!(harness.retries("acme", 100).await, Some(1));
        assert_eq!(harness.reads(), [["tenant#acme"]]);
        harness
    }

    fn store(&self, tenant: &str, policy: &str) {
        let item = json!({"policy#tenant": {"S": policy}});
        self.table.write(&format!("tenant#{tenant}"), SORT_KEY, &item);
    }

    fn refuse(&self, refused: bool) {
        self.table.state().refusing = refused.then_some(("BatchGetItem", ""));
    }

    /// The partition keys of each call since the last time.
    fn reads(&self) -> Vec<Vec<String>> {
        assert!(self.table.state().consistent.iter().all(|consistent| *consistent));
        self.table.calls_with_partitions().into_iter().map(|(_, partitions)| partitions).collect()
    }

    async fn of(&self, tenants: &[&str], secs: i64) -> Vec<Result<KnownPolicies, PortError>> {
        let tenants = tenants.iter().map(|name| tenant(name)).collect();
        self.worker.of(tenants, Timestamp::from_secs(secs)).await
    }

    async fn known(&self, tenant: &str, secs: i64) -> KnownPolicies {
        self.of(&[tenant], secs).await.remove(0).expect("known")
    }

    async fn retries(&self, tenant: &str, secs: i64) -> Option<u32> {
        max_retries(&self.known(tenant, secs).await)
    }
}

fn retries(most: u32) -> String {
    json!({"max_retries": most}).to_string()
}

fn max_retries(known: &KnownPolicies) -> Option<u32> {
    Some(known.policies.of_tenant()?.retries.as_ref()?.max_retries)
}

#[tokio::test]
async fn a_policy_is_read_once_in_its_max_age() {
    let harness = Harness::with_acme().await;
    harness.store("acme", &retries(2));
    for (secs, expected) in [(100, 1), (115, 1), (129, 1), (130, 2)] {
        assert_eq!(harness.retries("acme", secs).await, Some(expected), "{secs}");
    }
    harness.table.state().items.clear();
    assert_eq!(harness.retries("acme", 159).await, Some(2));
    assert_eq!(harness.retries("acme", 160).await, None, "none is stored any more");
    assert_eq!(harness.reads().len(), 2);

    let harness = Harness::new(Duration::ZERO);
    for n in 1..=3 {
        harness.store("acme", &retries(n));
        assert_eq!(harness.retries("acme", 100).await, Some(n), "read each time");
    }
}

#[tokio::test]
async fn tenants_are_read_in_one_call_even_those_without_an_item() {
    let harness = Harness::with_acme().await;
    harness.store("bolt", &retries(2));
    let answers = harness.of(&["acme", "bolt", "crux", "dune"], 110).await;
    let answers: Vec<_> = answers.into_iter().map(|it| max_retries(&it.expect("known"))).collect();
    assert_eq!(answers, [Some(1), Some(2), None, None]);
    assert_eq!(harness.reads(), [["tenant#bolt", "tenant#crux", "tenant#dune"]], "acme is fresh");
    harness.of(&["bolt", "crux", "dune"], 139).await;
    assert_eq!(harness.reads(), [] as [Vec<String>; 0], "the absence of an item is cached as well");
}

#[tokio::test]
async fn a_failed_read_leaves_the_cached_policies_in_effect() {
    let harness = Harness::with_acme().await;
    harness.refuse(true);
    let known = harness.known("acme", 130).await;
    assert_eq!((max_retries(&known), known.ignored.len()), (Some(1), 0));
    let error = known.stale.expect("reported as stale");
    assert_eq!((error.operation, error.code.as_str()), ("BatchGetItem", "AccessDeniedException"));
    // It is tried once in a pause, and reported once for each failed read, however long that lasts.
    for (secs, is_reported) in [(134, false), (135, true), (90_000, true)] {
        let known = harness.known("acme", secs).await;
        assert_eq!((max_retries(&known), known.stale.is_some()), (Some(1), is_reported), "{secs}");
    }
    assert_eq!(harness.reads().len(), 3);
    harness.refuse(false);
    harness.store("acme", &retries(2));
    let known = harness.known("acme", 90_005).await;
    assert_eq!((max_retries(&known), known.stale), (Some(2), None));
}

#[tokio::test]
async fn a_failed_read_is_an_error_for_a_tenant_never_read() {
    let harness = Harness::with_acme().await;
    harness.refuse(true);
    for (secs, is_stale) in [(110, false), (130, true)] {
        let answers = harness.of(&["acme", "bolt"], secs).await;
        let [Ok(known), Err(_)] = answers.as_slice() else { panic!("{answers:?}") };
        assert_eq!(known.stale.is_some(), is_stale, "{secs}");
    }
    // Nothing is cached for it: it is read again at once.
    assert!(harness.of(&["bolt"], 130).await[0].is_err());
    assert_eq!(harness.reads().len(), 3);
    harness.refuse(false);
    assert!(harness.of(&["bolt"], 131).await[0].is_ok());
}

#[tokio::test]
async fn an_invalid_policy_is_reported_once_and_the_previous_one_stays() {
    let harness = Harness::with_acme().await;
    harness.store("acme", "broken");
    for (secs, ignored) in [(129, 0), (130, 1), (131, 0), (160, 1)] {
        let known = harness.known("acme", secs).await;
        assert_eq!((max_retries(&known), known.ignored.len()), (Some(1), ignored), "{secs}");
    }
}

#[test]
fn the_cache_is_bounded_and_keeps_fresh_policies() {
    let worker = Harness::new(MAX_AGE).worker;
    let learn = |name: &str, secs| {
        worker.learn(&tenant(name), Vec::new(), Timestamp::from_secs(secs));
        worker.cache.lock().len()
    };
    for n in 0..MOST {
        learn(&format!("old-{n}"), 100);
    }
    assert_eq!(learn("old-0", 129), MOST, "a cached tenant needs no more room");
    // At 130 only that one is fresh.
    assert_eq!(learn("new", 130), 2);
    let is_fresh = |name: &str| worker.fresh(&tenant(name), Timestamp::from_secs(130)).is_some();
    assert!(is_fresh("old-0") && !is_fresh("old-1"));
    for n in 0..3 * MOST {
        assert!(learn(&format!("at-once-{n}"), 130) <= MOST);
    }
    assert!(is_fresh(&format!("at-once-{}", 3 * MOST - 1)));
}

#[test]
fn attributes_are_policies_by_slot_and_other_types_are_invalid() {
    let item = attributes::item([
        ("pk", s("tenant#acme")),
        ("sk", s(SORT_KEY)),
        ("policy#tenant", n(3)),
        ("last_good#tenant", s("\"otp\"")),
        ("policy#topic#order.paid", s("{}")),
        ("policy#topic#a#b", AttributeValue::M(HashMap::new())),
        ("last_good#topic#a#b", n(5)),
        ("policy#topic#tenant", s("\"none\"")),
        // None of these is a policy.
        ("last_good#topic#forgotten", s("{}")),
        ("policy#other", s("{}")),
        ("policy", s("{}")),
        ("updated_by", s("someone")),
    ]);
    let topic = |name: &str| Slot::Topic(name.to_owned());
    let expected = [
        (Slot::Tenant, "", Some("\"otp\"")),
        (topic("a#b"), "", None),
        (topic("order.paid"), "{}", None),
        (topic("tenant"), "\"none\"", None),
    ];
    let expected = expected.map(|(slot, policy, last_good)| {
        let (policy, last_good) = (policy.to_owned(), last_good.map(str::to_owned));
        Stored { slot, policy, last_good }
    });
    assert_eq!(stored(&item), expected);
    let (policies, ignored) = TenantPolicies::read(stored(&item), &TenantPolicies::default());
    assert_eq!(policies.of_tenant().map(|policy| policy.name.as_str()), Some("otp"));
    let ignored: Vec<Slot> = ignored.into_iter().map(|it| it.slot).collect();
    assert_eq!(ignored, [Slot::Tenant, topic("a#b")]);
}

#[tokio::test]
async fn put_and_remove_return_the_previous_policy_even_if_invalid() {
    let (acme, slot) = (tenant("acme"), Slot::Tenant);
    for (stored, previous) in [
        (json!({"policy#tenant": {"S": "{}"}, "last_good#tenant": {"S": "\"otp\""}}), Some("{}")),
        (json!({"policy#tenant": {"N": "5"}}), Some("")),
        (json!({"last_good#tenant": {"S": "{}"}}), None),
        (json!({}), None),
    ] {
        let Harness { table, worker } = Harness::new(MAX_AGE);
        let previous = Ok(previous.map(str::to_owned));
        table.write("tenant#acme", SORT_KEY, &stored);
        assert_eq!(worker.put(&acme, &slot, "{}").await, previous, "{stored}");
        table.write("tenant#acme", SORT_KEY, &stored);
        assert_eq!(worker.remove(&acme, &slot).await, previous, "{stored}");
        assert_eq!(table.item("tenant#acme", SORT_KEY), Some(json!({})));
    }
}

#[tokio::test]
async fn a_written_policy_reads_back() {
    let acme = tenant("acme");
    for slot in [Slot::Tenant, Slot::Topic("tenant".to_owned()), Slot::Topic("order#paid é".to_owned())] {
        let worker = Harness::new(MAX_AGE).worker;
        assert_eq!(worker.put(&acme, &slot, "{}").await, Ok(None));
        let (policy, last_good) = ("{}".to_owned(), Some("{}".to_owned()));
        assert_eq!(worker.stored(&acme).await, Ok(vec![Stored { slot, policy, last_good }]));
    }
}
