//! Where something may have been written: logs, executions, tables, the dead-letter queue.

use aws_sdk_dynamodb::types::AttributeValue;
use redial_tests::cloud_logs;
use redial_tests::deployment::{Deployment, Item};

use super::Place;

/// Everything that the stack has written by now.
pub(super) async fn written(it: &Deployment) -> Vec<Place> {
    let mut places = vec![("the emulator's log".to_owned(), it.stack().log())];
    let mut logs = String::new();
    for group in log_groups(it).await {
        for line in cloud_logs::lines(&it.description().endpoint, &group).await {
            logs.push_str(&line.text);
            logs.push('\n');
            places.push((format!("the log group {group}"), line.text));
        }
    }
    // So that nothing is found because nothing was looked at.
    for expected in [r#""event":"attempt""#, r#""event":"dead_letter""#, r#""_aws""#, r#""verdict":"sent""#] {
        assert!(logs.contains(expected), "no {expected} in the logs");
    }

    let machine = &it.description().state_machine;
    let executions = it.sfn.list_executions().state_machine_arn(machine).send().await;
    let executions = executions.expect("Step Functions answers").executions;
    assert!(!executions.is_empty(), "nothing has waited");
    for execution in executions {
        let mut told = it.history(&execution.execution_arn).await;
        told.push_str(&execution.name);
        places.push(("an execution".to_owned(), told));
    }
    let tables = &it.description().tables;
    for (table, without) in [(&tables.deliveries, ""), (&tables.control, ""), (&tables.dead_letters, "body")]
    {
        let items = it.scan(table).await;
        assert!(!items.is_empty(), "{table} is empty");
        places.extend(items.iter().map(|item| (table.clone(), told(item, without))));
    }
    places
}

/// An item as text, without one of its attributes.
pub(super) fn told(item: &Item, without: &str) -> String {
    let mut told = String::new();
    for (name, value) in item.iter().filter(|(name, _)| *name != without) {
        let value = if let AttributeValue::S(text) | AttributeValue::N(text) = value {
            text.clone()
        } else if let AttributeValue::B(bytes) = value {
            String::from_utf8_lossy(bytes.as_ref()).into_owned()
        } else {
            format!("{value:?}")
        };
        told.push_str(&format!("{name}={value}\n"));
    }
    told
}

/// All functions' groups, dispatch's first.
pub(super) async fn log_groups(it: &Deployment) -> Vec<String> {
    let functions = &it.description().functions;
    let mut groups = Vec::new();
    for function in [&functions.dispatch, &functions.cleanup, &functions.ingest] {
        let answer = it.lambda.get_function_configuration().function_name(function).send().await;
        let group = answer.expect("the function is there").logging_config.and_then(|it| it.log_group);
        groups.push(group.unwrap_or_else(|| format!("/aws/lambda/{function}")));
    }
    groups
}

/// The mapping that hands references to cleanup.
pub(super) async fn mapping_of_references(it: &Deployment) -> String {
    let queue = it.description().queues.dead_letter.rsplit('/').next().expect("a URL has a path").to_owned();
    let mappings = it.lambda.list_event_source_mappings().function_name(&it.description().functions.cleanup);
    let mappings = mappings.send().await.expect("Lambda answers").event_source_mappings.unwrap_or_default();
    let of_queue =
        mappings.into_iter().find(|it| it.event_source_arn.as_ref().is_some_and(|arn| arn.ends_with(&queue)));
    of_queue.and_then(|it| it.uuid).expect("cleanup drains the dead-letter queue")
}

pub(super) async fn switch(it: &Deployment, mapping: &str, on: bool) {
    it.lambda.update_event_source_mapping().uuid(mapping).enabled(on).send().await.expect("Lambda answers");
}

/// The references in the dead-letter queue, which stay in it.
pub(super) async fn letters(it: &Deployment) -> Vec<Place> {
    let queues = &it.description().queues;
    it.until("dispatch has nothing to do", async || {
        (it.depth(&queues.ingest).await + it.depth(&queues.retry).await == 0).then_some(())
    })
    .await;
    let all = it.depth(&queues.dead_letter).await;
    let mut places: Vec<Place> = Vec::new();
    while places.len() < all {
        let receive = it.sqs.receive_message().queue_url(&queues.dead_letter).max_number_of_messages(10);
        // Long enough for all of them to be read once.
        let received = receive.visibility_timeout(20).send().await.expect("the queue answers");
        let messages = received.messages.unwrap_or_default();
        assert!(!messages.is_empty(), "{} of {all} references can be read", places.len());
        places.extend(messages.into_iter().map(|it| ("a reference".to_owned(), it.body.unwrap_or_default())));
    }
    places
}
