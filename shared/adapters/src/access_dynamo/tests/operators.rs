//! Making, listing and revoking.

use super::*;

async fn ids(harness: &Harness, of: Option<&str>) -> Vec<ApiKeyId> {
    let of = of.map(tenant);
    let listed = harness.worker.list(of.as_ref()).await.expect("the table answers");
    listed.into_iter().map(|key| key.id).collect()
}

#[tokio::test(start_paused = true)]
async fn keys_are_listed_by_tenant_in_the_order_in_which_they_were_made() {
    assert_eq!(ids(&Harness::with(&[]).await, None).await, []);
    let [bolt, acme, first] = [stored(9, "bolt"), stored(8, "acme"), stored(7, "acme")];
    let harness = Harness::with(&[&bolt, &acme, &first, &grant(6, "acme", "Sender")]).await;
    assert_eq!(ids(&harness, None).await, [6, 7, 8, 9].map(id));
    assert_eq!(ids(&harness, Some("acme")).await, [6, 7, 8].map(id));
    assert_eq!(ids(&harness, Some("crux")).await, []);
    assert!(harness.table.calls().iter().all(|call| call != "Scan"));
    assert_eq!(harness.worker.list(Some(&tenant("bolt"))).await, Ok(vec![bolt]));
}

#[tokio::test(start_paused = true)]
async fn an_id_is_given_once() {
    let harness = Harness::with(&[&stored(7, "acme")]).await;
    assert_eq!(harness.create(&stored(7, "bolt")).await, Created::Taken);
    assert_eq!(ids(&harness, Some("bolt")).await, [], "nothing of it was written");
    assert_eq!(harness.worker.stored(&id(7)).await, Ok(Some(stored(7, "acme"))));
    let (one, other) = (new_key().expect("random"), new_key().expect("random"));
    assert_ne!(one.id(), other.id());
    assert_ne!(one.expose()[17..], other.expose()[17..]);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_revoked_once_and_stays_listed() {
    let shop = stored(7, "acme");
    let harness = Harness::with(&[&shop]).await;
    let revoked = StoredKey { revoked_at: Some(secs(200)), ..shop };
    for (of, now, expected) in [
        (7, 200, Revoked::Now(revoked.clone())),
        (7, 300, Revoked::Before(revoked.clone())),
        (8, 200, Revoked::Unknown),
    ] {
        assert_eq!(harness.worker.revoke(&id(of), secs(now)).await, Ok(expected));
    }
    assert_eq!(harness.worker.list(None).await, Ok(vec![revoked]));
    assert_eq!(harness.table.state().items.len(), 3, "an unknown key leaves no row");
}

#[tokio::test(start_paused = true)]
async fn a_principal_has_one_grant_at_a_time() {
    let first = grant(7, "acme", "Sender");
    let harness = Harness::with(&[&first, &grant(9, "bolt", "Other")]).await;
    assert_eq!(harness.create(&grant(8, "bolt", "Sender")).await, Created::Has(first.id.clone()));

    harness.worker.revoke(&first.id, harness.clock.now()).await.expect("it is there");
    let second = StoredKey { expires_at: Some(secs(500)), ..grant(8, "bolt", "Sender") };
    assert_eq!(harness.create(&second).await, Created::Yes);
    assert_eq!(harness.worker.find_iam(&arn("Sender")).await, Ok(Some(second.clone())));
    // Revoking the first again does nothing to the second.
    harness.worker.revoke(&first.id, harness.clock.now()).await.expect("it is there");
    harness.set(499);
    assert_eq!(harness.worker.find_iam(&arn("Sender")).await, Ok(Some(second.clone())));
    assert_eq!(harness.create(&grant(6, "acme", "Sender")).await, Created::Has(second.id));
    harness.set(500);
    assert_eq!(harness.create(&grant(6, "acme", "Sender")).await, Created::Yes, "the second is over");
    assert_eq!(ids(&harness, None).await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn of_two_concurrent_grants_one_is_refused_as_taken() {
    let harness = Harness::with(&[]).await;
    harness.table.state().delay = Duration::from_millis(30);
    let (one, other) = (grant(7, "acme", "Sender"), grant(8, "acme", "Sender"));
    let (one, other) = futures_util::future::join(harness.create(&one), harness.create(&other)).await;
    assert!([&one, &other].contains(&&Created::Yes) && [&one, &other].contains(&&Created::Taken));
    assert_eq!(ids(&harness, None).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_an_error() {
    let Harness { table, worker, .. } = Harness::with(&[]).await;
    table.state().refusing = Some(("", ""));
    let created = worker.create(&stored(7, "acme"), secs(100)).await;
    assert_eq!(created.expect_err("refused").operation, "TransactWriteItems");
    assert_eq!(worker.revoke(&id(7), secs(100)).await.expect_err("refused").operation, "UpdateItem");
    assert_eq!(worker.list(None).await.expect_err("refused").operation, "Query");
}
