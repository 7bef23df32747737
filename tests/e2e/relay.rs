//! Events by the stack's own queue: to the producers' queue, to a bus of EventBridge, and to a webhook of the tenant.

use std::{cell::RefCell, collections::BTreeMap};

use aws_sdk_eventbridge::types::Target;
use aws_sdk_sqs::types::MessageAttributeValue;
use redial_adapters::{callbacks_dynamo::DynamoCallbacks, policies_dynamo::DynamoPolicies};
use redial_core::{
    identity::{SubscriptionId, Tenant},
    policy::stored::Slot,
    recipient::Recipient,
    webhook::SigningSecrets,
};
use redial_tests::{prelude::*, test_stack::set_env};

use crate::webhooks::{problems, secret, subscribe};

/// Each account has this one.
const BUS: &str = "arn:aws:events:us-east-1:000000000000:event-bus/default";

/// A queue that a rule of that bus sends everything from Redial to.
async fn queue_of_a_rule(stack: &TestStack) -> String {
    let made = stack.sqs.create_queue().queue_name("of-a-rule").send().await.expect("a queue");
    let url = made.queue_url.expect("a URL");
    let events = aws_sdk_eventbridge::Client::new(&stack.stack().sdk_config());
    let pattern = json!({"source": ["redial"], "detail": {"tenant": ["acme"]}}).to_string();
    events.put_rule().name("all").event_pattern(pattern).send().await.expect("a rule");
    let target = Target::builder().id("queue").arn("arn:aws:sqs:us-east-1:000000000000:of-a-rule").build();
    let put = events.put_targets().rule("all").targets(target.expect("id and ARN")).send().await;
    assert_eq!(put.expect("EventBridge answers").failed_entry_count, 0);
    url
}

/// Two browsers, of which one is gone, and a message to each.
async fn two_ends(stack: &TestStack) {
    for (n, answer) in (1..).zip([Answer::created(), Answer::fixture(Fixture::MozillaGone)]) {
        let target = push_target(&stack.browser_answering(answer));
        stack.subscribe(&format!("s{n}"), Recipient::WebPush(target)).await;
        let message = json!({
            "tenant": "acme", "id": format!("m{n}"), "ref": format!("order {n}"), "payload": "hello",
            "to": {"subscription": format!("s{n}")},
        });
        stack.send(&message).await;
    }
}

/// Takes from a queue until it has given something for each of these keys: the bodies, by key.
async fn taken(
    stack: &TestStack,
    url: &str,
    keys: &[&str],
    key: impl Fn(&Value) -> &Value,
) -> BTreeMap<String, Value> {
    let all = RefCell::new(BTreeMap::new());
    stack
        .until("each event has arrived", async || {
            for body in stack.take(url).await {
                all.borrow_mut().insert(key(&body).as_str().expect("a key").to_owned(), body);
            }
            keys.iter().all(|key| all.borrow().contains_key(*key)).then_some(())
        })
        .await;
    all.into_inner()
}

#[tokio::test]
async fn each_event_reaches_the_queue_a_rule_of_the_bus_and_the_callback() {
    let stack = TestStack::up_with(|options| {
        options.events = true;
        options.parameters.insert("EventBusArn".to_owned(), BUS.to_owned());
        options.parameters.insert("Callbacks".to_owned(), "on".to_owned());
        set_env(options, [("SPIKE_WINDOW_SECONDS", "600")]);
    })
    .await;
    let secrets = SigningSecrets::new(vec![(secret(1), None)]).expect("one");
    subscribe(&stack, "hooks", &stack.webhooks.url("/events"), secrets).await;
    let callbacks =
        DynamoCallbacks::new(stack.dynamodb.clone(), stack.tables().control.clone(), Duration::ZERO);
    let [tenant, hooks] = ["acme", "hooks"];
    let (tenant, hooks) =
        (Tenant::parse(tenant).expect("valid"), SubscriptionId::parse(hooks).expect("valid"));
    assert_eq!(callbacks.set(&tenant, &hooks).await, Ok(None));
    let policies =
        DynamoPolicies::new(stack.dynamodb.clone(), stack.tables().control.clone(), Duration::ZERO);
    let policy = r#"{"retry_delays":[1],"jitter":"none"}"#;
    assert_eq!(policies.put(&tenant, &Slot::Tenant, policy).await, Ok(None));
    // It fails at first, as any webhook may.
    stack.webhooks.script("/events", [Answer::status(503)]);
    let of_the_rule = queue_of_a_rule(&stack).await;
    two_ends(&stack).await;

    let own = stack.queues().events.clone().expect("it has a queue of events");
    let events = taken(&stack, &own, &["m1", "m2"], |event| &event["id"]).await;
    let states = ["m1", "m2"].map(|id| (&events[id]["state"], &events[id]["ref"]));
    assert_eq!(states, [(&json!("sent"), &json!("order 1")), (&json!("gone"), &json!("order 2"))]);
    let on_the_bus = taken(&stack, &of_the_rule, &["m1", "m2"], |event| &event["detail"]["id"]).await;
    for (id, kind) in [("m1", "delivery.sent"), ("m2", "delivery.gone")] {
        let on_the_bus = &on_the_bus[id];
        assert_fields(on_the_bus, json!({"source": "redial", "detail-type": kind, "detail": events[id]}));
    }
    the_callback_got_them_signed_and_made_no_event(&stack, &own, &events).await;
    what_only_the_bus_lacks_goes_nowhere_else(&stack, &own, &of_the_rule, &events["m1"]).await;
}

async fn relay_queue(stack: &TestStack) -> String {
    let listed = stack.sqs.list_queues().send().await.expect("SQS answers").queue_urls.unwrap_or_default();
    listed.into_iter().find(|url| url.contains("EventsRelayQueue")).expect("it has a queue of its own")
}

/// An event that the bus refused alone, as it comes back for it.
async fn what_only_the_bus_lacks_goes_nowhere_else(
    stack: &TestStack,
    own: &str,
    of_the_rule: &str,
    event: &Value,
) {
    let bus = MessageAttributeValue::builder().data_type("String").string_value("bus").build();
    let again = stack.sqs.send_message().queue_url(relay_queue(stack).await).message_body(event.to_string());
    again.message_attributes("targets", bus.expect("it has a type")).send().await.expect("sent");
    let on_the_bus = taken(stack, of_the_rule, &["m1"], |event| &event["detail"]["id"]).await;
    assert_eq!(on_the_bus["m1"]["detail"], *event);
    assert_eq!(stack.take(own).await, Vec::<Value>::new(), "the queue has it");
}

async fn the_callback_got_them_signed_and_made_no_event(
    stack: &TestStack,
    own: &str,
    events: &BTreeMap<String, Value>,
) {
    let requests = stack
        .until("both are posted, one of them twice", async || {
            Some(stack.webhooks.requests("/events")).filter(|requests| requests.len() >= 3)
        })
        .await;
    assert!(problems(&secret(1), &requests).await.iter().all(Option::is_none));
    let mut posted = BTreeMap::new();
    for request in &requests {
        let event: Value = serde_json::from_slice(&request.body).expect("JSON");
        let id = request.header("webhook-id").expect("an id").to_owned();
        assert_eq!(event, events[event["id"].as_str().expect("an id")]);
        let before = posted.insert(event["id"].to_string(), id.clone());
        assert!(before.is_none_or(|before| before == id), "a retry has the id of its delivery");
    }
    assert_eq!((posted.len(), requests.len()), (2, 3));
    for id in posted.values() {
        stack.until_state(id, "sent").await;
    }
    stack.until_quiet().await;
    let relay = relay_queue(stack).await;
    stack.until("every event is relayed", async || (stack.depth(&relay).await == 0).then_some(())).await;
    assert_eq!(stack.take(own).await, Vec::<Value>::new(), "its own end is no event");
}
