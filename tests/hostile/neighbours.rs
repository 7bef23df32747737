//! One tenant's messages and receivers against the other tenants of a stack.

use redial_adapters::protection_dynamo::DynamoProtection;
use redial_core::protection::{Phase, Place};
use redial_core::{endpoint::Endpoint, endpoint::Origin, identity::Tenant};
use redial_tests::prelude::*;

/// Enough of them to open a breaker or to pause an origin.
const MESSAGES: usize = 40;

/// A stack whose breakers stay open for longer than a test waits.
async fn stack() -> TestStack {
    TestStack::up_with_env([("BREAKER", "on"), ("BREAKER_COOLDOWN_SECONDS", "900")]).await
}

/// A hostile tenant that does not share the place of the stack's own: where the places coincide, it is held back with that one.
fn mallory(stack: &TestStack, origin: &Origin) -> Tenant {
    let tenant = |name: &str| Tenant::parse(name).expect("a tenant");
    let own = Place::of(origin, &tenant(&stack.tenant));
    let mut others = (0..).map(|n| tenant(&format!("mallory{n}")));
    others.find(|other| Place::of(origin, other) != own).expect("there are many places")
}

/// Sends messages of a hostile tenant until they have opened or paused their origin.
async fn attack(stack: &TestStack, to: &Value, url: &str) {
    let protection = DynamoProtection::new(stack.dynamodb.clone(), stack.tables().control.clone());
    let origin = Endpoint::parse(url).expect("an endpoint").origin();
    let mallory = mallory(stack, &origin);
    let message =
        |id: String| json!({"tenant": mallory.as_str(), "id": id, "to": to, "payload": "x"}).to_string();
    stack.send_all((0..MESSAGES).map(|n| message(format!("bad{n}")))).await;
    let sent = std::cell::Cell::new(0);
    stack
        .until("the origin is held back", async || {
            let stored = protection.stored(&origin.clone().into()).await.expect("the table answers");
            // A worker shares what it saw with its next attempt, a second later.
            sent.set(sent.get() + 1);
            stack.send_body(&message(format!("more{}", sent.get()))).await;
            let phase = stored.state.breaker().phase(System.now());
            matches!(phase, Phase::Open { .. } | Phase::Paused { .. }).then_some(())
        })
        .await;
    // A worker believes what it read of an origin for a second and a half.
    System.sleep(Duration::from_secs(3)).await;
}

#[tokio::test]
async fn a_device_that_asks_for_a_long_pause_pauses_its_own_tenant_alone() {
    let stack = stack().await;
    let device = stack.browser_answering(Answer::status(429).with_header("retry-after", "900"));
    attack(&stack, &json!({"web_push": device.json()}), &device.endpoint).await;
    println!("tried: {MESSAGES} messages and more to a device that asks for a pause of 15 minutes");
    let browser = stack.browser();
    stack.send(&stack.message("otp", &browser, "123456")).await;
    stack.until_state("otp", "sent").await;
}

#[tokio::test]
async fn a_path_that_fails_opens_a_shared_webhook_host_for_its_own_tenant_alone() {
    let stack = stack().await;
    let failing = stack.webhooks.url("/failing");
    stack.webhooks.script("/failing", vec![Answer::status(500); MESSAGES * 10]);
    attack(&stack, &json!({"webhook": {"url": failing}}), &failing).await;
    println!("tried: {MESSAGES} messages and more to a failing path of a shared webhook host");
    let message = json!({
        "tenant": "acme", "id": "order", "to": {"webhook": {"url": stack.webhooks.url("/orders")}}, "payload": "x",
    });
    stack.send(&message).await;
    stack.until_state("order", "sent").await;
}
