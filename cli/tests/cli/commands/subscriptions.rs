//! `redial subscriptions put | get`.

use super::SUBSCRIPTION;
use crate::prelude::*;

#[tokio::test]
async fn a_subscription_is_stored_and_its_secrets_are_shown_on_request_only() {
    let stack = TestStack::shared_idle().await;
    let tenant = &stack.tenant;
    let put = format!("subscriptions put --tenant {tenant} --id s1");
    let stored = stack.redial_reading(&put, SUBSCRIPTION).succeeds();
    assert_eq!(stored, format!("{tenant}#s1 stored\n"));
    let again = stack.json_reading(format!("{put} --vapid-key-id k2"), SUBSCRIPTION);
    let expected = json!({"tenant": tenant, "id": "s1", "kind": "web_push", "new": false, "secret": null});
    assert_eq!(again, expected);

    let get = format!("subscriptions get --tenant {tenant} --id s1");
    let shown = stack.shown(&get);
    assert!(shown.starts_with(&format!("{tenant}#s1: active\n")), "{shown}");
    assert!(shown.contains("https://push.example\n"), "{shown}");
    assert!(!shown.contains("s3cret") && !shown.contains(AUTH), "{shown}");
    let shown = stack.json(&get);
    assert_fields(&shown, json!({"state": "active", "vapid_key_id": "k2"}));
    assert_eq!((shown.get("endpoint"), shown.get("keys")), (None, None));
    let all = stack.json(format!("{get} --show-endpoint --show-keys"));
    assert_eq!(all["endpoint"], "https://push.example/s3cret-endpoint");
    assert_eq!(all["keys"]["auth"], AUTH);

    stack.redial("subscriptions get --tenant other --id s1").ends_with(1);
}
