//! Waits longer than a queue can delay: many messages make one execution, and a lost execution strands none of them.

use std::collections::BTreeMap;

use aws_sdk_sfn::types::{ExecutionListItem, ExecutionStatus};
use redial_tests::prelude::*;

/// A message whose payload is its id.
fn scheduled(stack: &TestStack, id: &str, to: &Subscriber, at: Timestamp) -> Value {
    stack.message_with(id, to, &json!({"payload": id, "deliver_at": at.to_rfc3339()}))
}

async fn executions(stack: &TestStack) -> Vec<ExecutionListItem> {
    let list = stack.sfn.list_executions().state_machine_arn(&stack.description().state_machine);
    list.send().await.expect("Step Functions answers").executions
}

#[tokio::test]
async fn a_thousand_messages_of_one_bucket_make_one_execution() {
    const MANY: usize = 1000;
    let stack = TestStack::up_with_env([("WAIT_BUCKET_SECONDS", "60"), ("WAIT_SHARDS", "4")]).await;
    let browser = stack.browser_answering(Answer::created());
    // The start of a minute, far enough ahead for a busy machine to park all of them before it.
    let at = Timestamp::from_secs((System.now().as_secs() / 60 + 3) * 60);
    let ids: Vec<String> = (0..MANY).map(|n| format!("m{n}")).collect();
    stack.send_all(ids.iter().map(|id| scheduled(&stack, id, &browser, at).to_string())).await;
    stack
        .until("all are parked", async || {
            (stack.scan(&stack.tables().parked).await.len() == MANY).then_some(())
        })
        .await;
    assert_eq!(executions(&stack).await.len(), 1);

    // It is a wait of up to three minutes, and then a thousand pushes.
    let patience = at.since(System.now()) + PATIENCE;
    let received = stack.push.wait_for(&browser.endpoint, MANY, patience).await.expect("all arrive");
    let at_ms = u64::try_from(at.as_ms()).expect("after 1970");
    assert!(received.iter().all(|push| push.at_ms >= at_ms), "none before its time");
    stack.until_quiet().await;
    // On a busy machine answers may come too late: what was pushed again for that is on record as in doubt.
    let mut pushes: BTreeMap<Option<Vec<u8>>, usize> = BTreeMap::new();
    for push in stack.push.received(&browser.endpoint) {
        *pushes.entry(push.plaintext).or_default() += 1;
    }
    assert_eq!(pushes.len(), MANY);
    for (id, times) in pushes.iter().filter(|(_, times)| **times > 1) {
        let id = String::from_utf8(id.clone().expect("it was opened")).expect("the payload is the id");
        let entry = stack.entry(&id).await.expect("in the ledger");
        let in_doubt = entry.get("in_doubt").and_then(|it| it.as_bool().ok());
        assert_eq!(in_doubt, Some(&true), "{id} was pushed {times} times: {entry:?}");
    }
    assert!(stack.scan(&stack.tables().parked).await.is_empty());
}

/// Such bodies come from producers that escape all that is not ASCII: Python's `json.dumps` writes six bytes for three.
#[tokio::test]
async fn a_body_over_400_kb_waits_in_parts_and_arrives_whole() {
    let stack = TestStack::up().await;
    stack.warm().await;
    let payload = format!(r#""{}""#, "\\u3042".repeat(80_000));
    let at = System.now().plus(Duration::from_secs(45));
    let url = stack.webhooks.url("/long");
    stack.send_body(&format!(
        r#"{{"tenant":"acme","id":"long","to":{{"webhook":{{"url":"{url}"}}}},"deliver_at":"{}","payload":{payload}}}"#,
        at.to_rfc3339()
    ))
    .await;
    stack
        .until("its parts are stored", async || {
            (stack.scan(&stack.tables().parked).await.len() > 1).then_some(())
        })
        .await;
    stack.until_state("long", "sent").await;
    let received = stack.webhooks.requests("/long");
    assert_eq!(received.len(), 1);
    assert!(received[0].body == "あ".repeat(80_000), "{} bytes", received[0].body.len());
    stack.until_quiet().await;
    assert!(stack.scan(&stack.tables().parked).await.is_empty());
}

#[tokio::test]
async fn the_sweep_releases_what_a_stopped_execution_stranded() {
    let stack = TestStack::up_with_env([("WAIT_LATE_SECONDS", "1")]).await;
    stack.warm().await;
    let browser = stack.browser();
    let at = System.now().plus(Duration::from_secs(30));
    stack.send(&scheduled(&stack, "stranded", &browser, at)).await;
    let execution = stack.until("its execution is started", async || executions(&stack).await.pop()).await;
    assert_eq!(execution.status, ExecutionStatus::Running, "a busy machine took {at:?} to look");
    let stopped = stack.sfn.stop_execution().execution_arn(&execution.execution_arn).send().await;
    stopped.expect("it can be stopped");

    // Late enough for the sweep.
    tokio::time::sleep(at.since(System.now()) + Duration::from_secs(2)).await;
    // Unless the schedule's own sweep has come first.
    stack.sweep("waits").await;
    stack.until_state("stranded", "sent").await;
    assert_eq!(stack.pushes(&browser), 1);
    let statuses: Vec<_> = executions(&stack).await.into_iter().map(|it| it.status).collect();
    assert_eq!(statuses, [ExecutionStatus::Aborted], "no execution has released it");
    stack.sweep("waits").await;
    let control = stack.scan(&stack.tables().control).await;
    assert!(
        !control.iter().any(|row| text(row, "pk") == Some("waits")),
        "its bucket is forgotten: {control:?}"
    );
}
