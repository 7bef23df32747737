//! `redial callbacks`: a tenant's callback is set to a stored webhook, listed and removed.

use super::SUBSCRIPTION;
use crate::prelude::*;

#[tokio::test]
async fn a_callback_is_set_to_a_stored_webhook_listed_and_removed() {
    let stack = TestStack::shared_idle().await;
    let tenant = stack.tenant.as_str();
    let callbacks = |arguments: &str| stack.redial(format!("callbacks {arguments}"));
    let set = |to: &str| callbacks(&format!("set --tenant {tenant} --to {to} --json"));
    let put = |id: &str, document: &Value| {
        stack.json_reading(format!("subscriptions put --tenant {tenant} --id {id}"), &document.to_string())
    };
    set("hooks").ends_with(1);
    for id in ["hooks", "others"] {
        put(id, &json!({"url": "https://partner.example/s3cret-hook"}));
    }
    put("s1", &parsed(SUBSCRIPTION));
    assert_eq!(set("hooks").json(), json!({"tenant": tenant, "to": "hooks", "before": null}));
    let replaced = set("others");
    assert!(replaced.stderr.contains("the template's parameter Callbacks is off"), "{}", replaced.stderr);
    assert_eq!(replaced.json(), json!({"tenant": tenant, "to": "others", "before": "hooks"}));
    set("s1").ends_with(1);

    let listed = callbacks("list --json").json();
    let of_tenant = listed["callbacks"].as_array().expect("a list").iter().find(|it| it["tenant"] == tenant);
    assert_eq!(of_tenant, Some(&json!({"tenant": tenant, "to": "others"})));
    let clear = || callbacks(&format!("clear --tenant {tenant}"));
    assert_eq!(clear().succeeds(), format!("{tenant}: callback none; was others\n"));
    clear().ends_with(1);
}
