//! Faults that are planted on a stack that was well.

use std::{io::Read as _, process::Stdio, time::Duration};

use aws_sdk_lambda::types::{Environment, LastUpdateStatus, State};
use aws_sdk_sqs::types::QueueAttributeName;
use redial_core::{endpoint::Origin, rate::Rate};
use redial_engine::ports::Limited;

use super::world::{World, found, json, stderr, stdout};

/// What stands in the VAPID secret then: no key, and not to be shown.
const RUBBISH: &str = "rubbish-that-nobody-may-see";

/// How long an update of a function may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The words by which the five are known, in the order of the checks.
const PLANTED: [&str; 5] = [
    "the visibility time-out of the ingest queue is 20 s, and dispatch may run for 30 s",
    "the retry queue has no redrive policy",
    "the mapping from the bulk queue to dispatch is disabled",
    "dispatch may run for 30 s, and an attempt may take 43 s",
    "the VAPID key cannot be used",
];

const CHECKS: [&str; 17] = [
    "configuration",
    "template",
    "queues",
    "mappings",
    "concurrency",
    "functions",
    "recursion",
    "architecture",
    "keys",
    "encryption",
    "clock",
    "tables",
    "throttling",
    "waits",
    "alarms",
    "breakers",
    "limits",
];

pub(crate) fn nothing_is_found_on_a_healthy_stack(world: &World) {
    let told = world.redial(&["doctor"]);
    let lines = stdout(&told);
    assert_eq!(told.status.code(), Some(0), "{lines}{}", stderr(&told));
    for (line, check) in lines.lines().zip(CHECKS) {
        assert!(line.starts_with(&format!("ok       {check} ")), "{line}");
    }
    assert_eq!(lines.lines().count(), CHECKS.len(), "{lines}");
    assert!(stderr(&told).contains("has no fault"), "{}", stderr(&told));
    let shown = json(&world.redial(&["doctor", "--json"]));
    for (count, of) in [(0, "faults"), (0, "warnings"), (0, "unchecked")] {
        assert_eq!(shown[of], count, "{shown}");
    }
    let checks: Vec<&str> =
        shown["checks"].as_array().expect("checks").iter().filter_map(|it| it["check"].as_str()).collect();
    assert_eq!(checks, CHECKS);
}

pub(crate) async fn five_faults_are_named_and_nothing_else(world: &World) {
    plant(world).await;
    let told = world.redial(&["doctor"]);
    assert_eq!(told.status.code(), Some(1));
    let lines = stdout(&told);
    let faults: Vec<&str> = lines.lines().filter(|line| line.starts_with("fault ")).collect();
    assert_eq!(faults.len(), PLANTED.len(), "{lines}");
    for (fault, planted) in faults.iter().zip(PLANTED) {
        assert!(fault.contains(planted), "{planted}: {fault}");
    }
    assert!(!lines.contains("warning ") && !lines.contains("not told"), "{lines}");
    assert_eq!(lines.lines().filter(|line| line.trim_start().starts_with("do: ")).count(), 5, "{lines}");
    assert!(stderr(&told).contains("has 5 faults"), "{}", stderr(&told));

    let told = world.redial(&["doctor", "--json"]);
    assert_eq!(told.status.code(), Some(1));
    let shown = json(&told);
    assert_eq!((&shown["faults"], &shown["warnings"]), (&5.into(), &0.into()), "{shown}");
    let faults = found(&shown, "fault");
    for (fault, planted) in faults.iter().zip(PLANTED) {
        assert!(fault.contains(planted), "{planted}: {fault}");
    }
    assert!(!format!("{lines}{shown}").contains(RUBBISH));
}

async fn plant(world: &World) {
    let (sdk, queues) = (world.stack.sdk_config(), &world.stack.description().queues);
    let sqs = aws_sdk_sqs::Client::new(&sdk);
    let lower = sqs.set_queue_attributes().queue_url(&queues.ingest);
    lower.attributes(QueueAttributeName::VisibilityTimeout, "20").send().await.expect("it takes it");
    let remove = sqs.set_queue_attributes().queue_url(&queues.retry);
    remove.attributes(QueueAttributeName::RedrivePolicy, "").send().await.expect("it takes it");
    enable_bulk(world, false).await;
    set_vapid_secret(world, RUBBISH).await;
    set_send_timeout(world, Some("20")).await;
}

async fn enable_bulk(world: &World, enabled: bool) {
    let lambda = aws_sdk_lambda::Client::new(&world.stack.sdk_config());
    let mappings = lambda.list_event_source_mappings().send().await.expect("deployed");
    let queue = world.stack.description().queues.bulk.rsplit('/').next().expect("a name").to_owned();
    let of_bulk = mappings
        .event_source_mappings()
        .iter()
        .find(|it| it.event_source_arn().is_some_and(|arn| arn.ends_with(&format!(":{queue}"))))
        .expect("it is deployed");
    let update = lambda.update_event_source_mapping().uuid(of_bulk.uuid().expect("an id")).enabled(enabled);
    update.send().await.expect("it is there");
}

/// Answers what stood there before.
async fn set_vapid_secret(world: &World, text: &str) -> String {
    let secrets = aws_sdk_secretsmanager::Client::new(&world.stack.sdk_config());
    let id = world.stack.output("VapidSecretArn").expect("an output");
    let before = secrets.get_secret_value().secret_id(id).send().await.expect("it is there").secret_string;
    secrets.put_secret_value().secret_id(id).secret_string(text).send().await.expect("it takes it");
    before.expect("a text")
}

async fn set_send_timeout(world: &World, seconds: Option<&str>) {
    let lambda = aws_sdk_lambda::Client::new(&world.stack.sdk_config());
    let dispatch = &world.stack.description().functions.dispatch;
    let read = lambda.get_function_configuration().function_name(dispatch).send().await.expect("deployed");
    let mut variables = read.environment.and_then(|it| it.variables).expect("an environment");
    match seconds {
        Some(seconds) => variables.insert("SEND_TIMEOUT_SECONDS".to_owned(), seconds.to_owned()),
        None => variables.remove("SEND_TIMEOUT_SECONDS"),
    };
    let environment = Environment::builder().set_variables(Some(variables)).build();
    let update = lambda.update_function_configuration().function_name(dispatch).environment(environment);
    update.send().await.expect("it takes it");
    // It takes a moment, in which that is what there is to tell.
    let is_updated = async {
        loop {
            let read = lambda.get_function_configuration().function_name(dispatch).send().await;
            let read = read.expect("deployed");
            let is_active = read.state() == Some(&State::Active);
            if is_active && read.last_update_status() == Some(&LastUpdateStatus::Successful) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, is_updated).await.expect("the function is updated");
}

pub(crate) fn a_reader_who_leaves_is_no_reason_to_panic(world: &World) {
    for arguments in [&["doctor"][..], &["doctor", "--json"]] {
        let mut command = world.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built");
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        let status = child.wait().expect("it ends");
        assert!(!said.contains("panicked"), "{said}");
        assert_eq!(status.code(), Some(1), "{said}");
    }
}

/// The faults are mended as it says, all but the redrive; a subscription's key, a limit and a breaker come instead.
pub(crate) async fn what_is_mended_is_well_again_and_a_warning_is_no_fault(world: &World) {
    let (sdk, queues) = (world.stack.sdk_config(), &world.stack.description().queues);
    let sqs = aws_sdk_sqs::Client::new(&sdk);
    let raise = sqs.set_queue_attributes().queue_url(&queues.ingest);
    raise.attributes(QueueAttributeName::VisibilityTimeout, "180").send().await.expect("it takes it");
    let of_bulk = sqs.get_queue_attributes().queue_url(&queues.bulk);
    let of_bulk =
        of_bulk.attribute_names(QueueAttributeName::RedrivePolicy).send().await.expect("it is there");
    let policy = &of_bulk.attributes.expect("attributes")[&QueueAttributeName::RedrivePolicy];
    let back = sqs.set_queue_attributes().queue_url(&queues.retry);
    back.attributes(QueueAttributeName::RedrivePolicy, policy).send().await.expect("it takes it");
    enable_bulk(world, true).await;
    // The least scalar that is a key.
    set_vapid_secret(world, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE").await;
    set_send_timeout(world, None).await;

    let origin = "https://out.example";
    let opened = world.redial(&["breakers", "open", origin, "--for", "10m"]);
    assert!(opened.status.success(), "{}", stderr(&opened));
    let table = world.stack.description().tables.control.clone();
    let dynamodb = aws_sdk_dynamodb::Client::new(&sdk);
    let protection = redial_adapters::protection_dynamo::DynamoProtection::new(dynamodb.clone(), table);
    let limited = Limited::Origin(Origin::parse(origin).expect("an origin"));
    protection.set_limit(&limited, Rate::parse("5/s").expect("a rate")).await.expect("it takes it");

    let told = world.redial(&["doctor", "--json"]);
    let shown = json(&told);
    assert_eq!(told.status.code(), Some(0), "{shown}");
    assert_eq!(found(&shown, "fault"), [""; 0]);
    let warnings = found(&shown, "warning");
    // Nobody published the public half of the key that was put there by hand.
    let expected = ["lists other VAPID keys than those in the secret", "https://out.example is open until"];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    assert!(warnings.iter().zip(expected).all(|(told, of)| told.contains(of)), "{warnings:?}");

    // Stored subscriptions of a key that is not there.
    let subscriptions = &world.stack.description().tables.subscriptions;
    for (id, key) in [("s1", "2024"), ("s2", "default")] {
        let text = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
        let item = dynamodb.put_item().table_name(subscriptions).item("pk", text(&format!("acme#{id}")));
        let item = item.item("kind", text("web_push")).item("vapid_key_id", text(key));
        item.send().await.expect("the table takes it");
    }
    let told = world.redial(&["doctor", "--json"]);
    assert_eq!(told.status.code(), Some(1));
    let faults = found(&json(&told), "fault");
    assert!(
        faults.len() == 1 && faults[0].contains("sample of 2") && faults[0].ends_with("2024 (1)"),
        "{faults:?}"
    );
}
