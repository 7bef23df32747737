//! The adapter on a fake table, through the SDK.

use super::*;
use crate::fake_table::FakeTable;
use crate::vapid::key::tests::scalar;

fn published_in(table: &FakeTable) -> DynamoPublicKeys {
    DynamoPublicKeys::new(table.client(), "control".to_owned())
}

#[tokio::test]
async fn published_keys_are_public_halves_and_are_read_back_in_order() {
    let table = FakeTable::default();
    let public = published_in(&table);
    assert_eq!(public.published().await, Ok(None));
    let absent = public.load().await.expect_err("nothing is published");
    assert_eq!((absent.operation, absent.code.as_str()), ("GetItem", "VapidKeysNotPublished"));

    let set =
        format!(r#"{{"default":"a","current":"b","keys":{{"b":"{}","a":"{}"}}}}"#, scalar(2), scalar(1));
    let keys = VapidKeys::parse(&set).expect("a set");
    assert_eq!(public.publish(&keys).await, Ok(()));
    let expected: Vec<PublicKey> = keys
        .published()
        .map(|key| PublicKey {
            id: key.id.clone(),
            public_base64url: key.public_base64url.to_owned(),
            is_current: key.is_current,
        })
        .collect();
    assert_eq!(public.load().await, Ok(expected));
    let stored = format!("{:?}", table.item("vapid", "public"));
    assert!(!stored.contains(&scalar(1)) && !stored.contains(&scalar(2)), "a private key was written");
}

#[tokio::test]
async fn a_retired_key_is_no_longer_published() {
    let table = FakeTable::default();
    let public = published_in(&table);
    let set =
        format!(r#"{{"default":"a","current":"b","keys":{{"b":"{}","a":"{}"}}}}"#, scalar(2), scalar(1));
    for text in [set, format!(r#"{{"default":"b","keys":{{"b":"{}"}}}}"#, scalar(2))] {
        public.publish(&VapidKeys::parse(&text).expect("keys")).await.expect("published");
    }
    let ids: Vec<_> = public.load().await.expect("published").into_iter().map(|key| key.id).collect();
    assert_eq!(ids, [VapidKeyId::parse("b").expect("an id")]);
}
