//! Where something may have been written: logs, executions, tables, the dead-letter queue.

use aws_sdk_dynamodb::types::AttributeValue;
use redial_tests::prelude::*;

use super::Place;

/// Everything that the stack has written by now.
pub(super) async fn written(stack: &TestStack) -> Vec<Place> {
    let mut places = vec![("the emulator's log".to_owned(), stack.stack().log())];
    let mut logs = String::new();
    for group in log_groups(stack).await {
        for line in redial_tests::cloud_logs::lines(&stack.description().endpoint, &group).await {
            logs.push_str(&line.text);
            logs.push('\n');
            places.push((format!("the log group {group}"), line.text));
        }
    }
    // The search looks at something.
    for expected in [r#""event":"attempt""#, r#""event":"dead_letter""#, r#""_aws""#, r#""verdict":"sent""#] {
        assert!(logs.contains(expected), "no {expected} in the logs");
    }

    let machine = &stack.description().state_machine;
    let executions = stack.sfn.list_executions().state_machine_arn(machine).send().await;
    let executions = executions.expect("Step Functions answers").executions;
    assert!(!executions.is_empty(), "no message has waited");
    for execution in executions {
        let mut text = stack.history(&execution.execution_arn).await;
        text.push_str(&execution.name);
        places.push(("an execution".to_owned(), text));
    }
    let tables = &stack.description().tables;
    for (table, without) in [(&tables.deliveries, ""), (&tables.control, ""), (&tables.dead_letters, "body")]
    {
        let items = stack.scan(table).await;
        assert!(!items.is_empty(), "{table} is empty");
        places.extend(items.iter().map(|item| (table.clone(), as_text(item, without))));
    }
    places
}

/// An item as text, without one of its attributes.
pub(super) fn as_text(item: &Item, without: &str) -> String {
    let mut whole = String::new();
    for (name, value) in item.iter().filter(|(name, _)| *name != without) {
        let value = if let AttributeValue::S(text) | AttributeValue::N(text) = value {
            text.clone()
        } else if let AttributeValue::B(bytes) = value {
            String::from_utf8_lossy(bytes.as_ref()).into_owned()
        } else {
            format!("{value:?}")
        };
        whole.push_str(&format!("{name}={value}\n"));
    }
    whole
}

/// All functions' groups, dispatch's first.
pub(super) async fn log_groups(stack: &TestStack) -> Vec<String> {
    let functions = &stack.description().functions;
    let mut groups = Vec::new();
    for function in [&functions.dispatch, &functions.cleanup, &functions.ingest] {
        groups.push(stack.log_group(function).await);
    }
    groups
}

/// The references in the dead-letter queue. They stay in it, hidden for a time.
pub(super) async fn references(stack: &TestStack) -> Vec<Place> {
    let queues = &stack.description().queues;
    stack
        .until("dispatch has nothing to do", async || {
            (stack.depth(&queues.ingest).await + stack.depth(&queues.retry).await == 0).then_some(())
        })
        .await;
    let all = stack.depth(&queues.dead_letter).await;
    let received = stack.receive_hiding(&queues.dead_letter, all, 30).await;
    received.into_iter().map(|it| ("a reference".to_owned(), it.body)).collect()
}
