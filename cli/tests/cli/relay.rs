//! A stack that relays its events: what `doctor`, `verify` and the summary find where one of its targets does not take them.

use aws_sdk_lambda::types::ScalingConfig;
use redial_adapters::callbacks_dynamo::DynamoCallbacks;
use redial_core::identity::{SubscriptionId, Tenant};
use redial_testkit::proxy::{Call, Fault, FaultProxy};
use redial_tests::test_stack::localstack;

use crate::{prelude::*, verify::deployed_as};

const BUS: &str = "arn:aws:events:us-east-1:000000000000:event-bus/app";

const NO_CALLBACK: &str = "warning: Callbacks is on, and no tenant has a callback";

#[tokio::test]
async fn a_target_that_takes_no_events_is_found() {
    let stack = TestStack::as_deployed_with(|options| {
        options.parameters.insert("EventBusArn".to_owned(), BUS.to_owned());
        options.parameters.insert("Callbacks".to_owned(), "on".to_owned());
    })
    .await;
    let proxy = FaultProxy::start(&stack.description().endpoint).expect("a free port");
    stack.register_at(proxy.url());
    steps! {
        a_bus_that_does_not_exist_and_no_callback(&stack).await;
        callbacks_of_a_stack_without_the_parameter(&stack).await;
        a_role_that_may_not_put_events(&stack).await;
        a_mapping_that_was_changed(&stack).await;
    }
    if localstack().is_none() {
        steps! {
            an_event_that_waits_for_long(&stack, &proxy);
        }
    }
    more_events_than_usual(&stack, &proxy);
}

/// What a command finds, with its severity; but for what the emulator cannot show.
fn found(stack: &TestStack, command: &str) -> Vec<String> {
    let report = stack.redial(format!("{command} --json")).json();
    let checks = report["checks"].as_array().expect("checks").iter();
    let findings = checks.flat_map(|check| check["findings"].as_array().expect("findings"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    findings.map(|it| format!("{}: {}", text(&it["severity"]), text(&it["found"]))).collect()
}

/// Each of these commands finds this in the same place, and nothing else.
#[track_caller]
fn find(stack: &TestStack, commands: &[&str], words: &[&str]) {
    for command in commands {
        let found = found(stack, command);
        assert_eq!(found.len(), words.len(), "{command}: {found:#?}");
        for (found, words) in found.iter().zip(words) {
            assert!(found.contains(words), "{command}: {words}: {found}");
        }
    }
}

const BOTH: [&str; 2] = ["doctor", "verify"];

async fn a_bus_that_does_not_exist_and_no_callback(stack: &TestStack) {
    let missing = "fault: the bus app of EventBusArn does not exist: events wait for it";
    find(stack, &BOTH, &[missing, NO_CALLBACK]);
    let events = aws_sdk_eventbridge::Client::new(&stack.stack().sdk_config());
    events.create_event_bus().name("app").send().await.expect("EventBridge makes it");
    find(stack, &["doctor"], &[NO_CALLBACK]);
    let callbacks =
        DynamoCallbacks::new(stack.dynamodb.clone(), stack.tables().control.clone(), Duration::ZERO);
    let (tenant, hooks) =
        (Tenant::parse("acme").expect("valid"), SubscriptionId::parse("hooks").expect("valid"));
    callbacks.set(&tenant, &hooks).await.expect("the table takes it");
    a_callback_whose_webhook_takes_no_events(stack).await;
    find(stack, &BOTH, &[]);
    let lines = stack.shown("doctor");
    assert!(
        lines.contains(
            "relay          the bus is there, cleanup's role may put events to it, it refuses none, and callbacks are set"
        ),
        "{lines}"
    );
}

/// It is not stored at first, and is switched on in the end.
async fn a_callback_whose_webhook_takes_no_events(stack: &TestStack) {
    find(stack, &BOTH, &["fault: the callback of acme (hooks) is not stored"]);
    let webhook = json!({"url": "https://partner.example/hook"}).to_string();
    stack.json_reading("subscriptions put --tenant acme --id hooks", &webhook);
    find(stack, &["doctor"], &[]);
    stack.overwrite(&stack.tables().subscriptions, &[("pk", "acme#hooks")], "state", "disabled").await;
    let disabled = "fault: the webhook of the callback of acme (hooks) is disabled";
    find(stack, &["doctor"], &[disabled]);
    stack.redial("subscriptions enable hooks --tenant acme").succeeds();
}

async fn callbacks_of_a_stack_without_the_parameter(stack: &TestStack) {
    let cleanup = &stack.description().functions.cleanup;
    let variables = stack.variables(cleanup).await;
    let set = async |value: &str| {
        let mut variables = variables.clone();
        variables.insert("CALLBACKS".to_owned(), value.to_owned());
        let environment =
            aws_sdk_lambda::types::Environment::builder().set_variables(Some(variables)).build();
        let update = stack.lambda.update_function_configuration().function_name(cleanup);
        update.environment(environment).send().await.expect("Lambda takes it");
        stack
            .until("it is updated", async || {
                let read = stack.lambda.get_function_configuration().function_name(cleanup).send().await;
                let status = read.expect("Lambda answers").last_update_status;
                (status.as_ref().is_none_or(|it| it.as_str() == "Successful")).then_some(())
            })
            .await;
    };
    set("off").await;
    find(stack, &["doctor"], &["warning: 1 of the tenants have a callback, and Callbacks is off"]);
    set("on").await;
}

/// `verify` compares the role with the template, so that its check of the bus leaves it out.
async fn a_role_that_may_not_put_events(stack: &TestStack) {
    let iam = aws_sdk_iam::Client::new(&stack.stack().sdk_config());
    let role = deployed_as(stack, "CleanupRole").await;
    let deny = json!({"Version": "2012-10-17", "Statement": [
        {"Effect": "Deny", "Action": "events:PutEvents", "Resource": "*"},
    ]});
    let put = iam.put_role_policy().role_name(&role).policy_name("more").policy_document(deny.to_string());
    put.send().await.expect("IAM takes it");
    // LocalStack's SimulatePrincipalPolicy leaves denials out of account.
    let fault = ["fault: cleanup's role may not events:PutEvents on the bus of EventBusArn"];
    find(stack, &["doctor"], if localstack().is_some() { &[] } else { &fault });
    find(stack, &["verify"], &["fault: CleanupRole is denied events:PutEvents on *"]);
    iam.delete_role_policy().role_name(&role).policy_name("more").send().await.expect("IAM takes it");
}

async fn a_mapping_that_was_changed(stack: &TestStack) {
    let relay = stack.queues().relay.clone().expect("it has a queue of its own");
    stack.set_mappings(Some(&relay), false).await;
    find(stack, &BOTH, &["fault: the mapping from the events relay queue to cleanup is disabled"]);
    stack.set_mappings(Some(&relay), true).await;
    if localstack().is_some() {
        return;
    }
    let all = stack.lambda.list_event_source_mappings().send().await.expect("Lambda answers");
    let name = relay.rsplit('/').next().expect("a name");
    let is_relay_s = |arn: &str| arn.ends_with(&format!(":{name}"));
    let mapping = all.event_source_mappings().iter().find(|it| it.event_source_arn().is_some_and(is_relay_s));
    let uuid = mapping.and_then(|it| it.uuid()).expect("its mapping");
    let scale = async |maximum| {
        let scaled = ScalingConfig::builder().maximum_concurrency(maximum).build();
        let update = stack.lambda.update_event_source_mapping().uuid(uuid).scaling_config(scaled);
        update.send().await.expect("Lambda takes it");
    };
    scale(2).await;
    let words = "fault: MaximumConcurrency of the mapping EventsRelayMapping of CleanupFunction is 2; the template has 10";
    find(stack, &["verify"], &[words]);
    scale(10).await;
}

/// The emulator lists an event as if it had been sent twenty minutes ago.
fn an_event_that_waits_for_long(stack: &TestStack, proxy: &FaultProxy) {
    assert!(!stack.shown("status --summary").contains("events relay"), "nothing stands out");
    let relay = stack.queues().relay.clone().expect("it has a queue of its own");
    let message = json!({
        "SentTimestamp": System.now().as_secs() - 1_200, "IsVisible": true, "ReceiveCount": 2, "Body": "s3cret",
    });
    let listed = json!({"messages": {"000000000000": {"us-east-1": {relay: [message]}}}});
    let is_list = |call: &Call| call.operation.contains("/_ministack/sqs/messages");
    proxy.when(is_list, Fault::Status(200, listed.to_string()));
    find(stack, &["doctor"], &["fault: the oldest message of the events relay queue is 20m "]);
    let lines = stack.shown("status --summary");
    let words = lines.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("look: the oldest message of the events relay queue is 20m "), "{lines}");
    assert!(words.contains(" - events relay 0 0 0 20m "), "{lines}");
    assert!(lines.lines().all(|line| line.chars().count() <= 80), "{lines}");
    proxy.reset();
}

fn more_events_than_usual(stack: &TestStack, proxy: &FaultProxy) {
    let relay = stack.queues().relay.clone().expect("it has a queue of its own");
    let is_read = move |call: &Call| {
        call.operation == "GetQueueAttributes" && String::from_utf8_lossy(&call.body).contains(&relay)
    };
    let attributes = json!({"Attributes": {
        "ApproximateNumberOfMessages": "10001", "VisibilityTimeout": "180", "MessageRetentionPeriod": "1209600",
    }});
    proxy.when(is_read, Fault::Status(200, attributes.to_string()));
    find(stack, &["doctor"], &["warning: 10001 messages wait on the events relay queue"]);
    let document = stack.json("status --summary");
    assert_eq!(document["queues"][6]["waiting"], 10_001, "{document:#}");
    assert_eq!(document["findings"], json!(["10001 messages wait on the events relay queue"]));
    proxy.reset();
}
