//! `redial hash-key rotate | status | retire`.

use std::io::Read as _;

use super::Harness;
use crate::prelude::*;

const SECRET: &str = "EndpointHashSecretArn";

fn keys(shown: &Value) -> Vec<String> {
    let keys = shown["keys"].as_array().expect("keys").iter();
    keys.map(|key| format!("{} {}", key["id"], key["role"]).replace('"', "")).collect()
}

fn key_texts(secret: &Value, found: &mut Vec<String>) {
    match secret {
        Value::Object(fields) => {
            found.extend(fields.get("key").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| key_texts(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| key_texts(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub(super) async fn a_hash_from_before_is_recognised_after(harness: &Harness) {
    let public_key = harness.stack.description().vapid_public_key.clone();
    let stays = harness.subscribed("stays", &public_key, None);
    let goes = harness.subscribed("goes", &public_key, None);
    harness.send("m1", "stays", "hello").await;
    harness.stack.received(&stays, 1).await;
    a_reference_waits(harness, &goes).await;

    assert_eq!(keys(&harness.json("hash-key status")), ["k1 current"]);
    let before = harness.stack.secret(SECRET).await;
    assert_eq!(keys(&harness.json("hash-key rotate --dry-run")), ["k1 current"]);
    assert!(harness.refusal(2, "hash-key rotate --id k1").contains("a key with that id exists"));
    assert_eq!(harness.stack.secret(SECRET).await, before);

    a_rotation_is_interrupted(harness);
    let status = harness.redial("hash-key status --json");
    let shown = status.json();
    assert_eq!((status.status, &shown["settled"]), (Some(1), &json!(false)));
    assert_eq!(keys(&shown), ["k2 next", "k1 current"]);
    assert!(harness.refusal(2, "hash-key rotate --id k3").contains("a rotation to k2 is in progress"));
    assert!(harness.refusal(1, "hash-key retire k2 --yes").contains("a rotation is in progress"));

    let rotated = harness.json("hash-key rotate");
    assert_eq!(keys(&rotated), ["k2 current", "k1 former"]);
    assert_eq!(harness.labels(SECRET).await, ["AWSCURRENT", "AWSPREVIOUS"], "no label of ours is left");
    assert_eq!(harness.json("hash-key status")["settled"], true);

    a_reference_from_before_is_acted_on(harness).await;
    the_same_message_from_before_is_dropped(harness, &stays).await;
    a_former_key_is_kept_until_it_is_forced(harness);
    let mut secrets = Vec::new();
    for text in [before, harness.stack.secret(SECRET).await] {
        key_texts(&parsed(&text), &mut secrets);
    }
    harness.assert_unprinted(&secrets).await;
    assert_eq!(harness.stack.stack().poller_failure(), None);
}

/// An endpoint is gone, and its hash for cleanup is made with the key from before.
async fn a_reference_waits(harness: &Harness, goes: &Subscriber) {
    let stack = &harness.stack;
    drain_references(stack, false).await;
    stack.push.unsubscribe(&goes.endpoint);
    harness.send("m2", "goes", "hello").await;
    stack.received(goes, 1).await;
    let entry = stack.until_state("m2", "gone").await;
    until_ingest_is_quiet(stack).await;
    assert!(hash(&entry).starts_with("hmac:k1:"));
    assert!(harness.subscription("goes").await.is_some());
}

/// Starts or stops handing references of dead letters to cleanup.
async fn drain_references(stack: &TestStack, is_on: bool) {
    let queues = stack.queues();
    stack.set_mappings(Some(&queues.dead_letter), is_on).await;
    stack.set_mappings(Some(&queues.quarantine), is_on).await;
}

async fn until_ingest_is_quiet(stack: &TestStack) {
    let queue = &stack.queues().ingest;
    stack.until("the ingest queue is empty", async || (stack.depth(queue).await == 0).then_some(())).await;
}

fn hash(entry: &Item) -> &str {
    text(entry, "endpoint_hash").expect("a hash")
}

fn a_rotation_is_interrupted(harness: &Harness) {
    let (mut child, mut stderr) = run_until(&mut harness.stack.command("hash-key rotate --id k2"), "waiting");
    child.kill().expect("it is running");
    child.wait().expect("it ends");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("text");
    assert!(!rest.contains("3 of 3"), "{rest}");
}

async fn a_reference_from_before_is_acted_on(harness: &Harness) {
    drain_references(&harness.stack, true).await;
    harness
        .stack
        .until("the subscription is removed", async || {
            harness.stack.sweep("prune").await;
            harness.subscription("goes").await.is_none().then_some(())
        })
        .await;
}

async fn the_same_message_from_before_is_dropped(harness: &Harness, stays: &Subscriber) {
    let stack = &harness.stack;
    let before = stack.entry("m1").await.expect("it is in the ledger");
    harness.send("m1", "stays", "hello").await;
    // Fingerprints made with different keys cannot be compared: then it is a duplicate, too.
    harness.send("m1", "stays", "something else").await;
    until_ingest_is_quiet(stack).await;
    harness.send("m3", "stays", "hello").await;
    assert_eq!(stack.received(stays, 2).await.len(), 2, "m1 once, and m3");
    assert_eq!(stack.entry("m1").await.as_ref(), Some(&before), "the ledger is as it was");
    let after = stack.entry("m3").await.expect("it is in the ledger");
    assert!(hash(&before).starts_with("hmac:k1:") && hash(&after).starts_with("hmac:k2:"));
    // Those made with the same key can.
    harness.send("m3", "stays", "something else").await;
    stack
        .until("the conflict is a dead letter", async || {
            let mut listed = harness.redial("dead-letters list --json").json_lines();
            listed.retain(|it| it["reason"] == "id_conflict");
            assert!(listed.iter().all(|it| it["id"] == "m3"), "{listed:?}");
            (!listed.is_empty()).then_some(())
        })
        .await;
}

fn a_former_key_is_kept_until_it_is_forced(harness: &Harness) {
    assert!(harness.refusal(1, "hash-key retire k1 --yes").contains("may be needed until 20"));
    assert!(harness.refusal(1, "hash-key retire k2 --force --yes").contains("it is the current key"));
    let unknown = harness.refusal(1, "hash-key retire k9 --yes");
    assert!(unknown.contains("k9: no key has that id; there are k2, k1"), "{unknown}");
    assert!(harness.refusal(2, "hash-key retire k1 --force").contains("pass --yes to remove the key"));
    let retired = harness.json("hash-key retire k1 --force --yes");
    assert_eq!(keys(&retired), ["k2 current"]);
}
