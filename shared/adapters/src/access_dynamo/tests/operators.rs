//! Making, listing and revoking.

use super::*;

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("valid")
}

async fn ids(world: &World, of: Option<&str>) -> Vec<ApiKeyId> {
    let of = of.map(tenant);
    let listed = world.worker.list(of.as_ref()).await.expect("the table answers");
    listed.into_iter().map(|key| key.id).collect()
}

#[tokio::test]
async fn keys_are_listed_by_tenant_in_the_order_in_which_they_were_made() {
    let world = World::new().await;
    assert_eq!(ids(&world, None).await, []);
    for (byte, tenant) in [(9, "bolt"), (8, "acme"), (7, "acme")] {
        assert_eq!(world.create(&stored(byte, tenant)).await, Created::Yes);
    }
    world.create(&right(6, "acme", "Sender")).await;
    let id = |byte| key(byte).id().clone();
    assert_eq!(ids(&world, None).await, [id(6), id(7), id(8), id(9)]);
    assert_eq!(ids(&world, Some("acme")).await, [id(6), id(7), id(8)]);
    assert_eq!(ids(&world, Some("crux")).await, []);
    assert!(world.calls().iter().all(|call| !call.starts_with("Scan")));
    assert_eq!(world.worker.list(Some(&tenant("bolt"))).await, Ok(vec![stored(9, "bolt")]));
}

#[tokio::test]
async fn an_id_is_given_once() {
    let world = World::new().await;
    assert_eq!(world.create(&stored(7, "acme")).await, Created::Yes);
    assert_eq!(world.create(&stored(7, "bolt")).await, Created::Taken);
    assert_eq!(ids(&world, Some("bolt")).await, [], "nothing of it was written");
    assert_eq!(world.worker.stored(key(7).id()).await, Ok(Some(stored(7, "acme"))));
}

#[tokio::test]
async fn a_key_is_revoked_once_and_stays_listed() {
    let world = World::new().await;
    let it = stored(7, "acme");
    world.create(&it).await;
    let at = Timestamp::from_secs(200);
    let revoked = StoredKey { revoked_at: Some(at), ..it.clone() };
    assert_eq!(world.worker.revoke(&it.id, at).await, Ok(Revoked::Now(revoked.clone())));
    let again = world.worker.revoke(&it.id, Timestamp::from_secs(300)).await;
    assert_eq!(again, Ok(Revoked::Before(revoked.clone())), "the first time stands");
    assert_eq!(world.worker.list(None).await, Ok(vec![revoked]));
    assert_eq!(world.worker.revoke(key(8).id(), at).await, Ok(Revoked::Unknown));
    assert_eq!(world.table().items.len(), 3, "what is unknown leaves no row");
}

#[tokio::test]
async fn a_principal_has_one_right_at_a_time() {
    let world = World::new().await;
    let first = right(7, "acme", "Sender");
    assert_eq!(world.create(&first).await, Created::Yes);
    assert_eq!(world.create(&right(8, "bolt", "Sender")).await, Created::Has(first.id.clone()));
    assert_eq!(world.create(&right(9, "bolt", "Other")).await, Created::Yes);

    world.worker.revoke(&first.id, world.clock.now()).await.expect("it is there");
    let second = StoredKey { expires_at: Some(Timestamp::from_secs(500)), ..right(8, "bolt", "Sender") };
    assert_eq!(world.create(&second).await, Created::Yes);
    assert_eq!(world.worker.find_iam(&arn("Sender")).await, Ok(Some(second.clone())));
    // Revoking the first again does nothing to the second.
    world.worker.revoke(&first.id, world.clock.now()).await.expect("it is there");
    world.clock.set(499);
    assert_eq!(world.worker.find_iam(&arn("Sender")).await, Ok(Some(second.clone())));
    assert_eq!(world.create(&right(6, "acme", "Sender")).await, Created::Has(second.id));
    world.clock.set(500);
    assert_eq!(world.create(&right(6, "acme", "Sender")).await, Created::Yes, "the second is over");
    assert_eq!(ids(&world, None).await.len(), 4);
}

#[tokio::test]
async fn of_two_operators_at_once_one_is_told_that_it_was_taken() {
    let world = World::new().await;
    world.table().slow = Duration::from_millis(30);
    let (one, other) = (right(7, "acme", "Sender"), right(8, "acme", "Sender"));
    let created = futures_util::future::join(world.create(&one), world.create(&other)).await;
    assert!(
        matches!(created, (Created::Yes, Created::Taken) | (Created::Taken, Created::Yes)),
        "{created:?}"
    );
    assert_eq!(ids(&world, None).await.len(), 1);
}

#[tokio::test]
async fn a_refusal_is_told() {
    let world = World::new().await;
    world.table().refusing = true;
    let it = stored(7, "acme");
    let now = world.clock.now();
    let operations = [
        world.worker.create(&it, now).await.expect_err("refused").operation,
        world.worker.revoke(&it.id, now).await.expect_err("refused").operation,
        world.worker.list(None).await.expect_err("refused").operation,
    ];
    assert_eq!(operations, ["TransactWriteItems", "UpdateItem", "Query"]);
}

#[test]
fn a_new_key_is_new_each_time() {
    let (one, other) = (new_key().expect("random"), new_key().expect("random"));
    assert_ne!(one.id(), other.id());
    assert_ne!(one.expose()[17..], other.expose()[17..]);
}
