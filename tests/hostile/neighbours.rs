//! One tenant's messages and receivers against the other tenants of a stack.

use redial_tests::prelude::*;

/// Enough of them to open a breaker or to pause an origin.
const MESSAGES: usize = 40;

/// Sends forty messages of a hostile tenant, and waits until each was attempted.
async fn attack(stack: &TestStack, to: &Value) {
    let message =
        |n| json!({"tenant": "mallory", "id": format!("bad{n}"), "to": to, "payload": "x"}).to_string();
    stack.send_all((0..MESSAGES).map(message)).await;
    stack
        .until("the attack has been seen", async || {
            let entries = stack.scan(&stack.tables().deliveries).await;
            let attempted =
                entries.iter().filter(|entry| text(entry, "pk").is_some_and(|pk| pk.starts_with("mallory#")));
            // The breaker or the pause may have come before the last of them.
            (attempted.count() >= MESSAGES / 2).then_some(())
        })
        .await;
    // A worker believes what it read of an origin for a second and a half.
    System.sleep(Duration::from_secs(3)).await;
}

#[tokio::test]
async fn a_device_that_asks_for_a_long_pause_pauses_its_own_tenant_alone() {
    let stack = TestStack::up_with_env([("BREAKER", "on")]).await;
    let device = stack.browser_answering(Answer::status(429).with_header("retry-after", "900"));
    attack(&stack, &json!({"web_push": device.json()})).await;
    println!("tried: {MESSAGES} messages to a device that asks for a pause of 15 minutes");
    let browser = stack.browser();
    stack.send(&stack.message("otp", &browser, "123456")).await;
    stack.until_state("otp", "sent").await;
}

#[tokio::test]
async fn a_path_that_fails_opens_a_shared_webhook_host_for_its_own_tenant_alone() {
    let stack = TestStack::up_with_env([("BREAKER", "on")]).await;
    stack.webhooks.script("/failing", vec![Answer::status(500); MESSAGES * 10]);
    attack(&stack, &json!({"webhook": {"url": stack.webhooks.url("/failing")}})).await;
    println!("tried: {MESSAGES} messages to a failing path of a shared webhook host");
    let message = json!({
        "tenant": "acme", "id": "order", "to": {"webhook": {"url": stack.webhooks.url("/orders")}}, "payload": "x",
    });
    stack.send(&message).await;
    stack.until_state("order", "sent").await;
}
