//! Lookups by workers, and how often they read.

use futures_util::future::join_all;
use serde_json::json;

use super::super::lookups::Lookups;
use super::*;

#[tokio::test(start_paused = true)]
async fn a_key_is_found_and_its_secret_is_not_stored() {
    let harness = Harness::new();
    let shop = stored(7, "acme");
    assert_eq!(harness.create(&shop).await, Created::Yes);
    assert_eq!(harness.worker.find(&shop.id).await, Ok(Some(shop.clone())));
    assert!(shop.grant_to(&key(7), harness.clock.now()).is_some());
    assert_eq!(harness.worker.find(key(8).id()).await, Ok(None));
    let text = key(7).expose();
    let secret = &text[text.len() - 43..];
    let table = harness.table.state();
    assert!(table.items.values().all(|item| !serde_json::to_string(item).expect("JSON").contains(secret)));
    let keys: Vec<_> = table.items.keys().map(|(pk, sk)| format!("{pk} {sk}")).collect();
    let id = shop.id.as_str();
    assert_eq!(
        keys,
        [format!("access#{id} key"), format!("access-of#acme {id}"), "access-tenants acme".to_owned()]
    );
    let item = &table.items[&(format!("access#{id}"), "key".to_owned())];
    assert_eq!((item.get("expires_at"), &item["ends_at"]), (None, &json!({"N": "1000000"})));
}

#[tokio::test(start_paused = true)]
async fn a_principal_is_found_by_any_of_its_sessions() {
    let harness = Harness::new();
    let shop = grant(7, "acme", "Sender");
    assert_eq!(harness.create(&shop).await, Created::Yes);
    let session = IamArn::parse("arn:aws:sts::111122223333:assumed-role/Sender/i-0abc").expect("a session");
    assert_eq!(harness.worker.find_iam(&session).await, Ok(Some(shop.clone())));
    assert_eq!(harness.worker.find_iam(&arn("Other")).await, Ok(None));
    let by_id = harness.worker.find(&shop.id).await.expect("it answers").expect("it has an id");
    assert!(!by_id.admits(&key(7), harness.clock.now()), "no key opens it");
}

#[tokio::test(start_paused = true)]
async fn a_key_is_read_once_in_half_a_minute_even_if_unknown() {
    let harness = Harness::new();
    let shop = stored(7, "acme");
    harness.create(&shop).await;
    let unknown = key(8);
    harness.table.calls();
    for secs in [100, 115, 129] {
        harness.clock.set(secs);
        assert_eq!(harness.worker.find(&shop.id).await, Ok(Some(shop.clone())));
        assert_eq!(harness.worker.find(unknown.id()).await, Ok(None));
    }
    let of = |id: &ApiKeyId| ("GetItem".to_owned(), vec![format!("access#{id}")]);
    assert_eq!(harness.table.calls_with_partitions(), [of(&shop.id), of(unknown.id())]);
    harness.worker.revoke(&shop.id, Timestamp::from_secs(129)).await.expect("it is there");
    harness.create(&stored(8, "acme")).await;
    let admits =
        async || harness.worker.find(&shop.id).await.expect("it answers").expect("it is there").revoked_at;
    assert_eq!(admits().await, None, "remembered");
    harness.clock.set(130);
    assert_eq!(admits().await, Some(Timestamp::from_secs(129)));
    assert_eq!(harness.worker.find(unknown.id()).await, Ok(Some(stored(8, "acme"))));
    harness.clock.set(50);
    harness.table.calls();
    admits().await;
    assert_eq!(harness.table.calls().len(), 1, "a clock that was set back");
}

#[tokio::test(start_paused = true)]
async fn concurrent_lookups_share_one_read() {
    let harness = Harness::new();
    let (shop, granted) = (stored(7, "acme"), grant(8, "acme", "Sender"));
    harness.create(&shop).await;
    harness.create(&granted).await;
    harness.table.calls();
    harness.table.state().delay = Duration::from_millis(30);
    let worker = harness.worker.clone();
    let found = join_all((0..64).map(|_| worker.find(&shop.id))).await;
    assert!(found.into_iter().all(|found| found == Ok(Some(shop.clone()))));
    assert_eq!(harness.table.calls().len(), 1);
    let role = arn("Sender");
    let found = join_all((0..64).map(|_| worker.find_iam(&role))).await;
    assert!(found.into_iter().all(|found| found == Ok(Some(granted.clone()))));
    assert_eq!(harness.table.calls().len(), 2, "the principal's row and its key's");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_lookup_leaves_its_read_to_the_others() {
    let harness = Harness::new();
    let shop = stored(7, "acme");
    harness.create(&shop).await;
    harness.table.calls();
    harness.table.state().delay = Duration::from_millis(50);
    let left = tokio::time::timeout(Duration::from_millis(5), harness.worker.find(&shop.id)).await;
    assert!(left.is_err());
    assert_eq!(harness.worker.find(&shop.id).await, Ok(Some(shop)));
    assert_eq!(harness.table.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_is_not_remembered_and_extends_no_key() {
    let harness = Harness::new();
    let shop = stored(7, "acme");
    harness.create(&shop).await;
    assert!(harness.worker.find(&shop.id).await.is_ok());
    harness.table.state().refusing = Some(("", ""));
    harness.clock.set(129);
    assert!(harness.worker.find(&shop.id).await.is_ok(), "remembered");
    harness.clock.set(130);
    let error = harness.worker.find(&shop.id).await.expect_err("it is refused");
    assert_eq!((error.operation, error.code.as_str()), ("GetItem", "AccessDeniedException"));
    assert!(harness.worker.find_iam(&arn("Sender")).await.is_err());
    harness.table.state().refusing = None;
    assert_eq!(harness.worker.find(&shop.id).await, Ok(Some(shop)));
}

#[tokio::test(start_paused = true)]
async fn a_row_with_an_invalid_attribute_grants_nothing() {
    let harness = Harness::new();
    let shop = stored(7, "acme");
    harness.create(&shop).await;
    let row = (format!("access#{}", shop.id), "key".to_owned());
    let whole = harness.table.state().items[&row].clone();
    let mut secs = 100;
    for (name, value) in [
        ("ends_at", json!({"S": "never"})),
        ("ends_at", json!({"NULL": true})),
        ("revoked_at", json!({"S": "yesterday"})),
        ("scopes", json!({"S": "send,everything"})),
        ("scopes", json!({"S": ""})),
        ("digest", json!({"S": ""})),
        ("arn", json!({"S": "arn:aws:iam::111122223333:role/Sender"})),
        ("tenant", json!({"S": "Acme"})),
        ("id", json!({"S": "short"})),
    ] {
        let mut item = whole.clone();
        item.insert(name.to_owned(), value.clone());
        harness.table.state().items.insert(row.clone(), item);
        secs += 30;
        harness.clock.set(secs);
        assert_eq!(harness.worker.find(&shop.id).await, Ok(None), "{name}: {value}");
    }
}

#[tokio::test(start_paused = true)]
async fn invented_keys_displace_no_key() {
    let harness = Harness::new();
    let shop = stored(7, "acme");
    harness.create(&shop).await;
    harness.worker.find(&shop.id).await.expect("it answers");
    let lookups = Lookups::<u32>::default();
    let now = harness.clock.now();
    let stored = shop.clone();
    let answer = lookups.get(&0, now, || async move { Ok(Some(stored)) }).await;
    assert_eq!(answer, Ok(Some(shop.clone())));
    for n in 1..=u32::try_from(crate::cache::MOST * 3).expect("small") {
        assert_eq!(lookups.get(&n, now, || async { Ok(None) }).await, Ok(None));
    }
    let answer = lookups.get(&0, now, || async { Ok(None) }).await;
    assert_eq!(answer, Ok(Some(shop)), "still remembered");
}
