use std::io;

use aws_sdk_dynamodb::types::AttributeValue;
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::attributes::n;
use crate::receiver::{Receiver, dynamodb_at};

const MAX_AGE: Duration = Duration::from_secs(30);

/// What a table holds of policies, whether it answers, and who asked.
#[derive(Default)]
struct Table {
    /// `policy#tenant`, by tenant.
    policies: HashMap<String, String>,
    refusing: bool,
    /// The partition keys of each BatchGetItem.
    asked: Vec<Vec<String>>,
}

impl Table {
    fn answer(&mut self, request: &http::Request<Bytes>) -> http::Response<Full<Bytes>> {
        assert_eq!(request.headers()["x-amz-target"], "DynamoDB_20120810.BatchGetItem");
        let body: Value = serde_json::from_slice(request.body()).expect("JSON");
        let wanted = &body["RequestItems"]["control"];
        assert_eq!(wanted["ConsistentRead"], json!(true));
        let keys = wanted["Keys"].as_array().expect("keys");
        assert!(keys.iter().all(|key| key["sk"]["S"] == "policies"), "{keys:?}");
        let asked = keys.iter().map(|key| key["pk"]["S"].as_str().expect("a string").to_owned());
        let asked: Vec<String> = asked.collect();
        // Answers of BatchGetItem are in no order.
        let found = asked.iter().rev().filter_map(|pk| {
            let policy = self.policies.get(pk.strip_prefix("tenant#")?)?;
            Some(json!({"pk": {"S": pk}, "sk": {"S": "policies"}, "policy#tenant": {"S": policy}}))
        });
        let answer = json!({"Responses": {"control": found.collect::<Vec<_>>()}, "UnprocessedKeys": {}});
        self.asked.push(asked);
        if self.refusing {
            let refusal = json!({"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException"});
            let mut response = http::Response::new(Full::from(refusal.to_string()));
            *response.status_mut() = http::StatusCode::BAD_REQUEST;
            return response;
        }
        http::Response::new(Full::from(answer.to_string()))
    }
}

/// A table and a worker that reads it.
struct World {
    table: Arc<Mutex<Table>>,
    worker: DynamoPolicies,
    _receiver: Receiver,
}

impl World {
    async fn new(max_age: Duration) -> Self {
        let table: Arc<Mutex<Table>> = Arc::default();
        let answering = table.clone();
        let receiver = Receiver::plain_http(move |request| {
            let answer = answering.lock().expect("no panic").answer(&request);
            async move { io::Result::Ok(answer) }
        })
        .await;
        let worker = DynamoPolicies::new(dynamodb_at(receiver.port), "control".to_owned(), max_age);
        Self { table, worker, _receiver: receiver }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no panic")
    }

    fn store(&self, tenant: &str, policy: &str) {
        self.table().policies.insert(tenant.to_owned(), policy.to_owned());
    }

    /// The partition keys that were asked for since the last time.
    fn asked(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.table().asked)
    }

    async fn of(&self, tenants: &[&str], secs: i64) -> Vec<Result<KnownPolicies, PortError>> {
        let tenants = tenants.iter().map(|name| tenant(name)).collect();
        self.worker.of(tenants, Timestamp::from_secs(secs)).await
    }

    async fn known(&self, tenant: &str, secs: i64) -> KnownPolicies {
        self.of(&[tenant], secs).await.remove(0).expect("known")
    }
}

/// A worker that reads nothing.
fn idle() -> DynamoPolicies {
    DynamoPolicies::new(dynamodb_at(9), "control".to_owned(), MAX_AGE)
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
async fn a_policy_is_read_once_in_its_max_age_and_a_changed_one_is_seen_right_after() {
    let world = World::new(MAX_AGE).await;
    world.store("acme", r#"{"max_retries": 1}"#);
    assert_eq!(max_retries(&world.known("acme", 100).await), Some(1));
    world.store("acme", r#"{"max_retries": 2}"#);
    for secs in [100, 115, 129] {
        assert_eq!(max_retries(&world.known("acme", secs).await), Some(1), "{secs}");
    }
    assert_eq!(world.asked(), [["tenant#acme"]]);
    assert_eq!(max_retries(&world.known("acme", 130).await), Some(2));
    world.table().policies.clear();
    assert_eq!(max_retries(&world.known("acme", 159).await), Some(2));
    assert_eq!(max_retries(&world.known("acme", 160).await), None, "none is stored any more");
    assert_eq!(world.asked().len(), 2);
}

#[tokio::test]
async fn a_max_age_of_zero_reads_each_time() {
    let world = World::new(Duration::ZERO).await;
    for n in 1..=3 {
        world.store("acme", &format!(r#"{{"max_retries": {n}}}"#));
        assert_eq!(max_retries(&world.known("acme", 100).await), Some(n));
    }
}

#[tokio::test]
async fn tenants_are_read_in_one_call_those_without_an_item_too_and_each_has_its_own() {
    let world = World::new(MAX_AGE).await;
    world.store("acme", r#"{"max_retries": 1}"#);
    world.store("bolt", r#"{"max_retries": 2}"#);
    world.known("acme", 100).await;
    world.asked();
    let answers = world.of(&["acme", "bolt", "crux", "dune"], 110).await;
    let answers: Vec<_> = answers.into_iter().map(|it| max_retries(&it.expect("known"))).collect();
    assert_eq!(answers, [Some(1), Some(2), None, None]);
    assert_eq!(world.asked(), [["tenant#bolt", "tenant#crux", "tenant#dune"]], "acme is fresh");
    world.of(&["bolt", "crux", "dune"], 139).await;
    assert_eq!(world.asked(), [] as [Vec<String>; 0], "that there is none is known as well");
}

#[tokio::test]
async fn while_the_table_refuses_a_worker_goes_on_with_what_it_knows_and_asks_again_after_a_pause() {
    let world = World::new(MAX_AGE).await;
    world.store("acme", r#"{"max_retries": 1}"#);
    world.known("acme", 100).await;
    world.asked();
    world.table().refusing = true;

    let known = world.known("acme", 130).await;
    assert_eq!(max_retries(&known), Some(1));
    let error = known.stale.expect("that it is stale is told");
    assert_eq!((error.operation, error.code.as_str()), ("BatchGetItem", "AccessDeniedException"));
    assert!(known.ignored.is_empty());
    let known = world.known("acme", 134).await;
    assert_eq!((max_retries(&known), known.stale), (Some(1), None), "it is told once an attempt to read");
    assert_eq!(world.asked().len(), 1, "and tried once in a pause");
    assert!(world.known("acme", 135).await.stale.is_some());

    // However long it lasts.
    assert_eq!(max_retries(&world.known("acme", 90_000).await), Some(1));
    world.table().refusing = false;
    world.store("acme", r#"{"max_retries": 2}"#);
    let known = world.known("acme", 90_005).await;
    assert_eq!((max_retries(&known), known.stale), (Some(2), None));
}

#[tokio::test]
async fn of_a_tenant_that_was_never_read_a_failed_reading_is_an_error_and_of_the_others_none() {
    let world = World::new(MAX_AGE).await;
    world.store("acme", r#"{"max_retries": 1}"#);
    world.known("acme", 100).await;
    world.asked();
    world.table().refusing = true;
    let answers = world.of(&["acme", "bolt"], 110).await;
    assert!(matches!(answers.as_slice(), [Ok(known), Err(_)] if known.stale.is_none()), "{answers:?}");
    let answers = world.of(&["acme", "bolt"], 130).await;
    assert!(matches!(answers.as_slice(), [Ok(known), Err(_)] if known.stale.is_some()), "{answers:?}");
    // There is nothing to go on with: it is asked for at once again.
    assert!(world.of(&["bolt"], 130).await[0].is_err());
    assert_eq!(world.asked().len(), 3);
    world.table().refusing = false;
    assert!(world.of(&["bolt"], 131).await[0].is_ok());
}

#[tokio::test]
async fn an_invalid_text_is_told_by_the_reading_that_found_it_and_what_was_followed_stays() {
    let world = World::new(MAX_AGE).await;
    world.store("acme", r#"{"max_retries": 1}"#);
    world.known("acme", 100).await;
    world.store("acme", "broken");
    for (secs, told) in [(129, 0), (130, 1), (131, 0), (160, 1)] {
        let known = world.known("acme", secs).await;
        assert_eq!((max_retries(&known), known.ignored.len()), (Some(1), told), "{secs}");
    }
}

#[test]
fn what_is_known_is_bounded_and_what_is_fresh_outlasts_what_is_not() {
    let worker = idle();
    let learn = |name: &str, secs| {
        worker.learn(&tenant(name), tenant_s(r#"{"max_retries": 1}"#), Timestamp::from_secs(secs));
        worker.known().len()
    };
    for n in 0..MOST {
        learn(&format!("old-{n}"), 100);
    }
    assert_eq!(learn("old-0", 129), MOST, "a known one takes no more room");
    // At 130 all but that one have had their time.
    assert_eq!(learn("new", 130), 2);
    let now = Timestamp::from_secs(130);
    assert!(worker.fresh(&tenant("old-0"), now).is_some() && worker.fresh(&tenant("old-1"), now).is_none());
    for n in 0..3 * MOST {
        assert!(learn(&format!("at-once-{n}"), 130) <= MOST);
    }
    assert!(worker.fresh(&tenant(&format!("at-once-{}", 3 * MOST - 1)), now).is_some());
}

#[test]
fn clones_share_what_they_know() {
    let worker = idle();
    let now = Timestamp::from_secs(100);
    worker.clone().learn(&tenant("acme"), tenant_s(r#"{"max_retries": 1}"#), now);
    assert!(worker.fresh(&tenant("acme"), now).is_some());
}

#[test]
fn an_item_s_attributes_are_texts_by_slot_and_what_is_no_text_reads_as_an_invalid_one() {
    let item = Item::from([
        ("pk".to_owned(), s("tenant#acme")),
        ("sk".to_owned(), s(SORT_KEY)),
        ("policy#tenant".to_owned(), n(3)),
        ("last_good#tenant".to_owned(), s("\"otp\"")),
        ("policy#topic#order.paid".to_owned(), s("{}")),
        ("policy#topic#a#b".to_owned(), AttributeValue::M(HashMap::new())),
        ("last_good#topic#a#b".to_owned(), n(5)),
        ("policy#topic#tenant".to_owned(), s("\"none\"")),
        // None of these is a policy's.
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
async fn whoever_writes_or_removes_is_told_what_stood_there_even_if_it_was_no_text() {
    for (stood, told) in [
        (json!({"policy#tenant": {"S": "{}"}, "last_good#tenant": {"S": "\"otp\""}}), Some("{}")),
        (json!({"policy#tenant": {"N": "5"}}), Some("")),
        (json!({"last_good#tenant": {"S": "{}"}}), None),
        (json!({}), None),
    ] {
        let answer = json!({"Attributes": stood}).to_string();
        let receiver = Receiver::plain_http(move |request| {
            assert_eq!(request.headers()["x-amz-target"], "DynamoDB_20120810.UpdateItem");
            let answer = http::Response::new(Full::from(answer.clone()));
            async move { io::Result::Ok(answer) }
        })
        .await;
        let policies = DynamoPolicies::new(dynamodb_at(receiver.port), "control".to_owned(), MAX_AGE);
        let told = Ok(told.map(str::to_owned));
        assert_eq!(policies.put(&tenant("acme"), &Slot::Tenant, "{}").await, told, "{stood}");
        assert_eq!(policies.remove(&tenant("acme"), &Slot::Tenant).await, told, "{stood}");
    }
}

#[test]
fn what_is_written_for_a_slot_is_what_is_read_for_it() {
    for slot in [Slot::Tenant, Slot::Topic("tenant".to_owned()), Slot::Topic("order#paid é".to_owned())] {
        let item = Item::from([(policy_name(&slot), s("{}")), (good_name(&slot), s("\"otp\""))]);
        let last_good = Some("\"otp\"".to_owned());
        assert_eq!(stored(&item), [Stored { slot, policy: "{}".to_owned(), last_good }]);
    }
}
