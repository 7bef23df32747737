//! A subscription that another one with its endpoint replaces is announced: by the HTTP API, an import and `put`.

use redial_tests::test_stack::document;
use reqwest::Method;

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn what_the_api_an_import_and_put_replace_is_announced() {
    let stack = TestStack::up_with(|options| options.events = true).await;
    let key = stack.api_key("acme").await;
    let browser = document(&stack.browser());
    let put = async |id: &str| {
        let path = format!("/v1/subscriptions/{id}");
        stack.call(Method::PUT, &path, &key, &browser.to_string()).await.0
    };
    assert_eq!((put("s1").await, put("s2").await), (201, 201));
    let line = with_fields(browser.clone(), &json!({"id": "s3"})).to_string();
    stack.redial_reading("subscriptions import - --tenant acme", &line).succeeds();
    let keys = json!({"endpoint": browser["endpoint"], "keys": browser["keys"]}).to_string();
    stack.redial_reading("subscriptions put --tenant acme --id s4", &keys).succeeds();
    assert_eq!(put("s4").await, 200, "its own endpoint replaces no one");

    let swept = stack.sweep("prune").await;
    assert_eq!(swept["announced"], 3, "{swept}");
    let mut events = stack.take_events().await;
    events.sort_by_key(|event| event["subscription"].to_string());
    let of: Vec<_> = events.iter().map(|event| event["subscription"].as_str().unwrap_or_default()).collect();
    assert_eq!(of, ["s1", "s2", "s3"], "{events:?}");
    for event in &events {
        let expected = json!({
            "v": 1, "tenant": "acme", "id": null, "ref": null, "subscription": event["subscription"], "state": "pruned", "tags": [],
            "traceparent": null, "reason": "endpoint_replaced", "status": null, "at": event["at"],
        });
        assert_eq!(*event, expected);
    }
    assert_eq!(stack.sweep("prune").await["announced"], 0);
    assert_eq!(stack.take_events().await, Vec::<Value>::new());
}
