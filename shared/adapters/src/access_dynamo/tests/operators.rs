//! Making, listing and revoking.

use super::*;

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("valid")
}

async fn ids(harness: &Harness, of: Option<&str>) -> Vec<ApiKeyId> {
    let of = of.map(tenant);
    let listed = harness.worker.list(of.as_ref()).await.expect("the table answers");
    listed.into_iter().map(|key| key.id).collect()
}

#[tokio::test(start_paused = true)]
async fn keys_are_listed_by_tenant_in_the_order_in_which_they_were_made() {
    let harness = Harness::new();
    assert_eq!(ids(&harness, None).await, []);
    for (byte, tenant) in [(9, "bolt"), (8, "acme"), (7, "acme")] {
        assert_eq!(harness.create(&stored(byte, tenant)).await, Created::Yes);
    }
    harness.create(&grant(6, "acme", "Sender")).await;
    let id = |byte| key(byte).id().clone();
    assert_eq!(ids(&harness, None).await, [id(6), id(7), id(8), id(9)]);
    assert_eq!(ids(&harness, Some("acme")).await, [id(6), id(7), id(8)]);
    assert_eq!(ids(&harness, Some("crux")).await, []);
    assert!(harness.table.calls().iter().all(|call| call != "Scan"));
    assert_eq!(harness.worker.list(Some(&tenant("bolt"))).await, Ok(vec![stored(9, "bolt")]));
}

#[tokio::test(start_paused = true)]
async fn an_id_is_given_once() {
    let harness = Harness::new();
    assert_eq!(harness.create(&stored(7, "acme")).await, Created::Yes);
    assert_eq!(harness.create(&stored(7, "bolt")).await, Created::Taken);
    assert_eq!(ids(&harness, Some("bolt")).await, [], "nothing of it was written");
    assert_eq!(harness.worker.stored(key(7).id()).await, Ok(Some(stored(7, "acme"))));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_revoked_once_and_stays_listed() {
    let harness = Harness::new();
    let shop = stored(7, "acme");
    harness.create(&shop).await;
    let at = Timestamp::from_secs(200);
    let revoked = StoredKey { revoked_at: Some(at), ..shop.clone() };
    assert_eq!(harness.worker.revoke(&shop.id, at).await, Ok(Revoked::Now(revoked.clone())));
    let again = harness.worker.revoke(&shop.id, Timestamp::from_secs(300)).await;
    assert_eq!(again, Ok(Revoked::Before(revoked.clone())), "the first time stands");
    assert_eq!(harness.worker.list(None).await, Ok(vec![revoked]));
    assert_eq!(harness.worker.revoke(key(8).id(), at).await, Ok(Revoked::Unknown));
    assert_eq!(harness.table.state().items.len(), 3, "an unknown key leaves no row");
}

#[tokio::test(start_paused = true)]
async fn a_principal_has_one_grant_at_a_time() {
    let harness = Harness::new();
    let first = grant(7, "acme", "Sender");
    assert_eq!(harness.create(&first).await, Created::Yes);
    assert_eq!(harness.create(&grant(8, "bolt", "Sender")).await, Created::Has(first.id.clone()));
    assert_eq!(harness.create(&grant(9, "bolt", "Other")).await, Created::Yes);

    harness.worker.revoke(&first.id, harness.clock.now()).await.expect("it is there");
    let second = StoredKey { expires_at: Some(Timestamp::from_secs(500)), ..grant(8, "bolt", "Sender") };
    assert_eq!(harness.create(&second).await, Created::Yes);
    assert_eq!(harness.worker.find_iam(&arn("Sender")).await, Ok(Some(second.clone())));
    // Revoking the first again does nothing to the second.
    harness.worker.revoke(&first.id, harness.clock.now()).await.expect("it is there");
    harness.clock.set(499);
    assert_eq!(harness.worker.find_iam(&arn("Sender")).await, Ok(Some(second.clone())));
    assert_eq!(harness.create(&grant(6, "acme", "Sender")).await, Created::Has(second.id));
    harness.clock.set(500);
    assert_eq!(harness.create(&grant(6, "acme", "Sender")).await, Created::Yes, "the second is over");
    assert_eq!(ids(&harness, None).await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn of_two_concurrent_grants_one_is_refused_as_taken() {
    let harness = Harness::new();
    harness.table.state().delay = Duration::from_millis(30);
    let (one, other) = (grant(7, "acme", "Sender"), grant(8, "acme", "Sender"));
    let created = futures_util::future::join(harness.create(&one), harness.create(&other)).await;
    assert!(
        matches!(created, (Created::Yes, Created::Taken) | (Created::Taken, Created::Yes)),
        "{created:?}"
    );
    assert_eq!(ids(&harness, None).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_an_error() {
    let harness = Harness::new();
    harness.table.state().refusing = Some(("", ""));
    let shop = stored(7, "acme");
    let now = harness.clock.now();
    let operations = [
        harness.worker.create(&shop, now).await.expect_err("refused").operation,
        harness.worker.revoke(&shop.id, now).await.expect_err("refused").operation,
        harness.worker.list(None).await.expect_err("refused").operation,
    ];
    assert_eq!(operations, ["TransactWriteItems", "UpdateItem", "Query"]);
}

#[test]
fn a_new_key_is_new_each_time() {
    let (one, other) = (new_key().expect("random"), new_key().expect("random"));
    assert_ne!(one.id(), other.id());
    assert_ne!(one.expose()[17..], other.expose()[17..]);
}
