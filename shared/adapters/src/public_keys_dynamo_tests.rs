//! The adapter on a fake table, through the SDK.

use super::*;
use crate::fake_table::FakeTable;
use crate::vapid::key::tests::scalar;

#[tokio::test]
async fn the_public_halves_of_the_latest_keys_are_published_in_order() {
    let table = FakeTable::default();
    let public = DynamoPublicKeys::new(table.client(), "control".to_owned());
    assert_eq!(public.published().await, Ok(None));
    let absent = public.load().await.expect_err("nothing is published");
    assert_eq!((absent.operation, absent.code.as_str()), ("GetItem", "VapidKeysNotPublished"));

    let (a, b) = (scalar(1), scalar(2));
    let both = format!(r#"{{"default":"a","current":"b","keys":{{"b":"{b}","a":"{a}"}}}}"#);
    let a_is_retired = format!(r#"{{"default":"b","keys":{{"b":"{b}"}}}}"#);
    for (set, ids) in [(both, &["a", "b"][..]), (a_is_retired, &["b"])] {
        let keys = VapidKeys::parse(&set).expect("a set");
        assert_eq!(public.publish(&keys).await, Ok(()));
        let expected = keys.published().map(|key| PublicKey {
            id: key.id.clone(),
            public_base64url: key.public_base64url.to_owned(),
            is_current: key.is_current,
        });
        let found = public.load().await.expect("published");
        assert_eq!(found, expected.collect::<Vec<_>>());
        assert_eq!(found.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ids);
        let stored = format!("{:?}", table.item("vapid", "public"));
        assert!(!stored.contains(&a) && !stored.contains(&b), "a private key was written");
    }
}
