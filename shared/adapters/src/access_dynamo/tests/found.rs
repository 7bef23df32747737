//! Lookups by workers, and how often they read.

use futures_util::future::join_all;
use serde_json::json;

use super::super::lookups::Lookups;
use super::*;

#[tokio::test(start_paused = true)]
async fn a_key_is_found_and_its_secret_is_not_stored() {
    let shop = stored(7, "acme");
    let harness = Harness::with(&[&shop]).await;
    assert_eq!(harness.worker.find(&shop.id).await, Ok(Some(shop.clone())));
    assert!(shop.grant_to(&key(7), harness.clock.now()).is_some());
    assert_eq!(harness.worker.find(&id(8)).await, Ok(None));
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
    let shop = grant(7, "acme", "Sender");
    let harness = Harness::with(&[&shop]).await;
    let session = IamArn::parse("arn:aws:sts::111122223333:assumed-role/Sender/i-0abc").expect("a session");
    assert_eq!(harness.worker.find_iam(&session).await, Ok(Some(shop.clone())));
    assert_eq!(harness.worker.find_iam(&arn("Other")).await, Ok(None));
    let by_id = harness.worker.find(&shop.id).await.expect("it answers").expect("it has an id");
    assert!(!by_id.admits(&key(7), harness.clock.now()), "no key opens it");
}

#[tokio::test(start_paused = true)]
async fn a_key_is_read_once_in_half_a_minute_even_if_unknown() {
    let shop = stored(7, "acme");
    let harness = Harness::with(&[&shop]).await;
    for now in [100, 115, 129] {
        harness.set(now);
        assert_eq!(harness.worker.find(&shop.id).await, Ok(Some(shop.clone())));
        assert_eq!(harness.worker.find(&id(8)).await, Ok(None));
    }
    let of = |id: &ApiKeyId| ("GetItem".to_owned(), vec![format!("access#{id}")]);
    assert_eq!(harness.table.calls_with_partitions(), [of(&shop.id), of(&id(8))]);
    harness.worker.revoke(&shop.id, secs(129)).await.expect("it is there");
    harness.create(&stored(8, "acme")).await;
    assert_eq!(harness.worker.find(&shop.id).await, Ok(Some(shop.clone())), "remembered");
    harness.set(130);
    let revoked = StoredKey { revoked_at: Some(secs(129)), ..shop.clone() };
    assert_eq!(harness.worker.find(&shop.id).await, Ok(Some(revoked)));
    assert_eq!(harness.worker.find(&id(8)).await, Ok(Some(stored(8, "acme"))));
    harness.set(50);
    harness.table.calls();
    harness.worker.find(&shop.id).await.expect("it answers");
    assert_eq!(harness.table.calls().len(), 1, "a clock that was set back");
}

#[tokio::test(start_paused = true)]
async fn concurrent_lookups_share_one_read() {
    let (shop, granted) = (stored(7, "acme"), grant(8, "acme", "Sender"));
    let Harness { table, worker, .. } = Harness::with(&[&shop, &granted]).await;
    table.state().delay = Duration::from_millis(50);
    let cancelled = tokio::time::timeout(Duration::from_millis(5), worker.find(&shop.id)).await;
    assert!(cancelled.is_err(), "its read is left to the others");
    let found = join_all((0..64).map(|_| worker.find(&shop.id))).await;
    assert!(found.into_iter().all(|found| found == Ok(Some(shop.clone()))));
    assert_eq!(table.calls().len(), 1);
    let role = arn("Sender");
    let found = join_all((0..64).map(|_| worker.find_iam(&role))).await;
    assert!(found.into_iter().all(|found| found == Ok(Some(granted.clone()))));
    assert_eq!(table.calls().len(), 2, "the principal's row and its key's");
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_is_not_remembered_and_extends_no_key() {
    let shop = stored(7, "acme");
    let harness = Harness::with(&[&shop]).await;
    assert!(harness.worker.find(&shop.id).await.is_ok());
    harness.table.state().refusing = Some(("", ""));
    harness.set(129);
    assert!(harness.worker.find(&shop.id).await.is_ok(), "remembered");
    harness.set(130);
    let error = harness.worker.find(&shop.id).await.expect_err("it is refused");
    assert_eq!((error.operation, error.code.as_str()), ("GetItem", "AccessDeniedException"));
    assert!(harness.worker.find_iam(&arn("Sender")).await.is_err());
    harness.table.state().refusing = None;
    assert_eq!(harness.worker.find(&shop.id).await, Ok(Some(shop)));
}

#[tokio::test(start_paused = true)]
async fn a_row_with_an_invalid_attribute_grants_nothing() {
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
        let harness = Harness::with(&[&stored(7, "acme")]).await;
        let row = (format!("access#{}", id(7)), "key".to_owned());
        let invalid = value.clone();
        harness.table.state().items.get_mut(&row).expect("a row").insert(name.to_owned(), invalid);
        assert_eq!(harness.worker.find(&id(7)).await, Ok(None), "{name}: {value}");
    }
}

#[tokio::test(start_paused = true)]
async fn invented_keys_displace_no_key() {
    let (lookups, shop, now) = (Lookups::<u32>::default(), stored(7, "acme"), secs(100));
    let found = lookups.get(&0, now, || std::future::ready(Ok(Some(shop.clone())))).await;
    assert_eq!(found, Ok(Some(shop.clone())));
    for n in 1..=u32::try_from(crate::cache::MOST * 3).expect("small") {
        assert_eq!(lookups.get(&n, now, || std::future::ready(Ok(None))).await, Ok(None));
    }
    let found = lookups.get(&0, now, || std::future::ready(Ok(None))).await;
    assert_eq!(found, Ok(Some(shop)), "still remembered");
}
