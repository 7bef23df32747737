//! What workers find, and how often they ask.

use futures_util::future::join_all;
use serde_json::json;

use super::super::remembered::MOST;
use super::*;

#[tokio::test]
async fn a_key_is_found_as_it_was_stored_and_its_secret_is_not_in_the_table() {
    let world = World::new().await;
    let it = stored(7, "acme");
    assert_eq!(world.create(&it).await, Created::Yes);
    assert_eq!(world.worker.find(&it.id).await, Ok(Some(it.clone())));
    assert!(it.grant_to(&key(7), world.clock.now()).is_some());
    assert_eq!(world.worker.find(key(8).id()).await, Ok(None));
    let text = key(7).expose();
    let secret = &text[text.len() - 43..];
    let table = world.table();
    assert!(table.items.values().all(|item| !serde_json::to_string(item).expect("JSON").contains(secret)));
    let keys: Vec<_> = table.items.keys().map(|(pk, sk)| format!("{pk} {sk}")).collect();
    let id = it.id.as_str();
    assert_eq!(
        keys,
        [format!("access#{id} key"), format!("access-of#acme {id}"), "access-tenants acme".to_owned()]
    );
    let item = &table.items[&(format!("access#{id}"), "key".to_owned())];
    assert_eq!((item.get("expires_at"), &item["ends_at"]), (None, &json!({"N": "1000000"})));
}

#[tokio::test]
async fn a_principal_is_found_by_any_of_its_sessions() {
    let world = World::new().await;
    let it = right(7, "acme", "Sender");
    assert_eq!(world.create(&it).await, Created::Yes);
    let session = IamArn::parse("arn:aws:sts::111122223333:assumed-role/Sender/i-0abc").expect("a session");
    assert_eq!(world.worker.find_iam(&session).await, Ok(Some(it.clone())));
    assert_eq!(world.worker.find_iam(&arn("Other")).await, Ok(None));
    let by_id = world.worker.find(&it.id).await.expect("it answers").expect("it has an id");
    assert!(!by_id.admits(&key(7), world.clock.now()), "no key opens it");
}

#[tokio::test]
async fn a_key_is_read_once_in_half_a_minute_and_so_is_one_that_does_not_exist() {
    let world = World::new().await;
    let it = stored(7, "acme");
    world.create(&it).await;
    let unknown = key(8);
    world.calls();
    for secs in [100, 115, 129] {
        world.clock.set(secs);
        assert_eq!(world.worker.find(&it.id).await, Ok(Some(it.clone())));
        assert_eq!(world.worker.find(unknown.id()).await, Ok(None));
    }
    assert_eq!(
        world.calls(),
        [format!("GetItem access#{}", it.id), format!("GetItem access#{}", unknown.id())]
    );
    world.worker.revoke(&it.id, Timestamp::from_secs(129)).await.expect("it is there");
    world.create(&stored(8, "acme")).await;
    let admits =
        async || world.worker.find(&it.id).await.expect("it answers").expect("it is there").revoked_at;
    assert_eq!(admits().await, None, "it is remembered");
    world.clock.set(130);
    assert_eq!(admits().await, Some(Timestamp::from_secs(129)));
    assert_eq!(world.worker.find(unknown.id()).await, Ok(Some(stored(8, "acme"))));
    world.clock.set(50);
    world.calls();
    admits().await;
    assert_eq!(world.calls().len(), 1, "a clock that was set back");
}

#[tokio::test]
async fn many_who_ask_at_once_are_answered_by_one_read() {
    let world = World::new().await;
    let (it, his) = (stored(7, "acme"), right(8, "acme", "Sender"));
    world.create(&it).await;
    world.create(&his).await;
    world.calls();
    world.table().slow = Duration::from_millis(30);
    let worker = world.worker.clone();
    let found = join_all((0..64).map(|_| worker.find(&it.id))).await;
    assert!(found.into_iter().all(|found| found == Ok(Some(it.clone()))));
    assert_eq!(world.calls().len(), 1);
    let role = arn("Sender");
    let found = join_all((0..64).map(|_| worker.find_iam(&role))).await;
    assert!(found.into_iter().all(|found| found == Ok(Some(his.clone()))));
    assert_eq!(world.calls().len(), 2, "the principal's row, and what it names");
}

#[tokio::test]
async fn one_who_stops_waiting_leaves_the_read_to_the_others() {
    let world = World::new().await;
    let it = stored(7, "acme");
    world.create(&it).await;
    world.calls();
    world.table().slow = Duration::from_millis(50);
    let left = tokio::time::timeout(Duration::from_millis(5), world.worker.find(&it.id)).await;
    assert!(left.is_err());
    assert_eq!(world.worker.find(&it.id).await, Ok(Some(it)));
    assert_eq!(world.calls().len(), 1);
}

#[tokio::test]
async fn a_table_that_cannot_be_read_is_an_error_that_is_not_remembered_and_keeps_no_key_alive() {
    let world = World::new().await;
    let it = stored(7, "acme");
    world.create(&it).await;
    assert!(world.worker.find(&it.id).await.is_ok());
    world.table().refusing = true;
    world.clock.set(129);
    assert!(world.worker.find(&it.id).await.is_ok(), "it is remembered");
    world.clock.set(130);
    let error = world.worker.find(&it.id).await.expect_err("it is refused");
    assert_eq!((error.operation, error.code.as_str()), ("GetItem", "AccessDeniedException"));
    assert!(world.worker.find_iam(&arn("Sender")).await.is_err());
    world.table().refusing = false;
    assert_eq!(world.worker.find(&it.id).await, Ok(Some(it)));
}

#[tokio::test]
async fn a_row_that_someone_spoilt_admits_nobody() {
    let world = World::new().await;
    let it = stored(7, "acme");
    world.create(&it).await;
    let row = (format!("access#{}", it.id), "key".to_owned());
    let whole = world.table().items[&row].clone();
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
        world.table().items.insert(row.clone(), item);
        secs += 30;
        world.clock.set(secs);
        assert_eq!(world.worker.find(&it.id).await, Ok(None), "{name}: {value}");
    }
}

#[tokio::test]
async fn made_up_keys_drive_out_nobody_s() {
    let world = World::new().await;
    let it = stored(7, "acme");
    world.create(&it).await;
    world.worker.find(&it.id).await.expect("it answers");
    let remembered = Remembered::<u32>::default();
    let now = world.clock.now();
    let known = it.clone();
    let answer = remembered.get(&0, now, || async move { Ok(Some(known)) }).await;
    assert_eq!(answer, Ok(Some(it.clone())));
    for n in 1..=u32::try_from(MOST * 3).expect("small") {
        assert_eq!(remembered.get(&n, now, || async { Ok(None) }).await, Ok(None));
    }
    let answer = remembered.get(&0, now, || async { Ok(None) }).await;
    assert_eq!(answer, Ok(Some(it)), "it is still remembered");
}
