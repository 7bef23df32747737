use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;

use super::*;
use crate::cache::MOST;
use crate::fake_table::FakeTable;
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
}

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("valid")
}

fn max_retries(known: &KnownPolicies) -> Option<u32> {
    Some(known.policies.of_tenant()?.retries.as_ref()?.max_retries)
}

fn tenant_s(policy: &str) -> Vec<Stored> {
    vec![Stored { slot: Slot::Tenant, policy: policy.to_owned(), last_good: None }]
}

#[tokio::test]
async fn a_policy_is_read_once_in_its_max_age() {
    let harness = Harness::new(MAX_AGE);
    harness.store("acme", r#"{"max_retries": 1}"#);
    assert_eq!(max_retries(&harness.known("acme", 100).await), Some(1));
    harness.store("acme", r#"{"max_retries": 2}"#);
    for secs in [100, 115, 129] {
        assert_eq!(max_retries(&harness.known("acme", secs).await), Some(1), "{secs}");
    }
    assert_eq!(harness.reads(), [["tenant#acme"]]);
    assert_eq!(max_retries(&harness.known("acme", 130).await), Some(2));
    harness.table.state().items.clear();
    assert_eq!(max_retries(&harness.known("acme", 159).await), Some(2));
    assert_eq!(max_retries(&harness.known("acme", 160).await), None, "none is stored any more");
    assert_eq!(harness.reads().len(), 2);
}

#[tokio::test]
async fn a_max_age_of_zero_reads_each_time() {
    let harness = Harness::new(Duration::ZERO);
    for n in 1..=3 {
        harness.store("acme", &format!(r#"{{"max_retries": {n}}}"#));
        assert_eq!(max_retries(&harness.known("acme", 100).await), Some(n));
    }
}

#[tokio::test]
async fn tenants_are_read_in_one_call_even_those_without_an_item() {
    let harness = Harness::new(MAX_AGE);
    harness.store("acme", r#"{"max_retries": 1}"#);
    harness.store("bolt", r#"{"max_retries": 2}"#);
    harness.known("acme", 100).await;
    harness.reads();
    let answers = harness.of(&["acme", "bolt", "crux", "dune"], 110).await;
    let answers: Vec<_> = answers.into_iter().map(|it| max_retries(&it.expect("known"))).collect();
    assert_eq!(answers, [Some(1), Some(2), None, None]);
    assert_eq!(harness.reads(), [["tenant#bolt", "tenant#crux", "tenant#dune"]], "acme is fresh");
    harness.of(&["bolt", "crux", "dune"], 139).await;
    assert_eq!(harness.reads(), [] as [Vec<String>; 0], "the absence of an item is cached as well");
}

#[tokio::test]
async fn a_failed_read_leaves_the_cached_policies_in_effect() {
    let harness = Harness::new(MAX_AGE);
    harness.store("acme", r#"{"max_retries": 1}"#);
    harness.known("acme", 100).await;
    harness.reads();
    harness.refuse(true);

    let known = harness.known("acme", 130).await;
    assert_eq!(max_retries(&known), Some(1));
    let error = known.stale.expect("reported as stale");
    assert_eq!((error.operation, error.code.as_str()), ("BatchGetItem", "AccessDeniedException"));
    assert!(known.ignored.is_empty());
    let known = harness.known("acme", 134).await;
    assert_eq!((max_retries(&known), known.stale), (Some(1), None), "reported once for each failed read");
    assert_eq!(harness.reads().len(), 1, "tried once in a pause");
    assert!(harness.known("acme", 135).await.stale.is_some());

    // However long it lasts.
    assert_eq!(max_retries(&harness.known("acme", 90_000).await), Some(1));
    harness.refuse(false);
    harness.store("acme", r#"{"max_retries": 2}"#);
    let known = harness.known("acme", 90_005).await;
    assert_eq!((max_retries(&known), known.stale), (Some(2), None));
}

#[tokio::test]
async fn a_failed_read_is_an_error_for_a_tenant_never_read() {
    let harness = Harness::new(MAX_AGE);
    harness.store("acme", r#"{"max_retries": 1}"#);
    harness.known("acme", 100).await;
    harness.reads();
    harness.refuse(true);
    let answers = harness.of(&["acme", "bolt"], 110).await;
    assert!(matches!(answers.as_slice(), [Ok(known), Err(_)] if known.stale.is_none()), "{answers:?}");
    let answers = harness.of(&["acme", "bolt"], 130).await;
    assert!(matches!(answers.as_slice(), [Ok(known), Err(_)] if known.stale.is_some()), "{answers:?}");
    // Nothing is cached for it: it is read again at once.
    assert!(harness.of(&["bolt"], 130).await[0].is_err());
    assert_eq!(harness.reads().len(), 3);
    harness.refuse(false);
    assert!(harness.of(&["bolt"], 131).await[0].is_ok());
}

#[tokio::test]
async fn an_invalid_policy_is_reported_once_and_the_previous_one_stays() {
    let harness = Harness::new(MAX_AGE);
    harness.store("acme", r#"{"max_retries": 1}"#);
    harness.known("acme", 100).await;
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
        worker.learn(&tenant(name), tenant_s(r#"{"max_retries": 1}"#), Timestamp::from_secs(secs));
        worker.cache.lock().len()
    };
    for n in 0..MOST {
        learn(&format!("old-{n}"), 100);
    }
    assert_eq!(learn("old-0", 129), MOST, "a cached tenant needs no more room");
    // At 130 only that one is fresh.
    assert_eq!(learn("new", 130), 2);
    let now = Timestamp::from_secs(130);
    assert!(worker.fresh(&tenant("old-0"), now).is_some() && worker.fresh(&tenant("old-1"), now).is_none());
    for n in 0..3 * MOST {
        assert!(learn(&format!("at-once-{n}"), 130) <= MOST);
    }
    assert!(worker.fresh(&tenant(&format!("at-once-{}", 3 * MOST - 1)), now).is_some());
}

#[test]
fn clones_share_the_cache() {
    let worker = Harness::new(MAX_AGE).worker;
    let now = Timestamp::from_secs(100);
    worker.clone().learn(&tenant("acme"), tenant_s(r#"{"max_retries": 1}"#), now);
    assert!(worker.fresh(&tenant("acme"), now).is_some());
}

#[test]
fn attributes_are_policies_by_slot_and_other_types_are_invalid() {
    let item = Item::from([
        ("pk".to_owned(), s("tenant#acme")),
        ("sk".to_owned(), s(SORT_KEY)),
        ("policy#tenant".to_owned(), n(3)),
        ("last_good#tenant".to_owned(), s("\"otp\"")),
        ("policy#topic#order.paid".to_owned(), s("{}")),
        ("policy#topic#a#b".to_owned(), AttributeValue::M(HashMap::new())),
        ("last_good#topic#a#b".to_owned(), n(5)),
        ("policy#topic#tenant".to_owned(), s("\"none\"")),
        // None of these is a policy.
        ("last_good#topic#forgotten".to_owned(), s("{}")),
        ("policy#other".to_owned(), s("{}")),
        ("policy".to_owned(), s("{}")),
        ("updated_by".to_owned(), s("someone")),
    ]);
    let read = |slot, policy: &str, last_good: Option<&str>| Stored {
        slot,
        policy: policy.to_owned(),
        last_good: last_good.map(str::to_owned),
    };
    let topic = |name: &str| Slot::Topic(name.to_owned());
    assert_eq!(
        stored(&item),
        [
            read(Slot::Tenant, "", Some("\"otp\"")),
            read(topic("a#b"), "", None),
            read(topic("order.paid"), "{}", None),
            read(topic("tenant"), "\"none\"", None),
        ]
    );
    let (policies, ignored) = TenantPolicies::read(stored(&item), &TenantPolicies::default());
    assert_eq!(policies.of_tenant().map(|policy| policy.name.as_str()), Some("otp"));
    let ignored: Vec<Slot> = ignored.into_iter().map(|it| it.slot).collect();
    assert_eq!(ignored, [Slot::Tenant, topic("a#b")]);
}

#[tokio::test]
async fn put_and_remove_return_the_previous_policy_even_if_invalid() {
    for (stored, previous) in [
        (json!({"policy#tenant": {"S": "{}"}, "last_good#tenant": {"S": "\"otp\""}}), Some("{}")),
        (json!({"policy#tenant": {"N": "5"}}), Some("")),
        (json!({"last_good#tenant": {"S": "{}"}}), None),
        (json!({}), None),
    ] {
        let harness = Harness::new(MAX_AGE);
        let (acme, slot) = (tenant("acme"), Slot::Tenant);
        let previous = Ok(previous.map(str::to_owned));
        for put in [true, false] {
            harness.table.write("tenant#acme", SORT_KEY, &stored);
            let returned = if put {
                harness.worker.put(&acme, &slot, "{}").await
            } else {
                harness.worker.remove(&acme, &slot).await
            };
            assert_eq!(returned, previous, "{stored}");
        }
        assert_eq!(harness.table.item("tenant#acme", SORT_KEY), Some(json!({})));
    }
}

#[test]
fn a_written_policy_reads_back() {
    for slot in [Slot::Tenant, Slot::Topic("tenant".to_owned()), Slot::Topic("order#paid é".to_owned())] {
        let item = Item::from([(policy_name(&slot), s("{}")), (good_name(&slot), s("\"otp\""))]);
        let last_good = Some("\"otp\"".to_owned());
        assert_eq!(stored(&item), [Stored { slot, policy: "{}".to_owned(), last_good }]);
    }
}
