//! `redial hash-key rotate | status | retire`.

use std::io::{BufRead as _, BufReader, Read as _};

use redial_testkit::push_service::Subscriber;
use serde_json::{Value, json};

use super::world::World;

const SECRET: &str = "EndpointHashSecretArn";

/// The ids of the keys by what they are there for.
fn keys(shown: &Value) -> Vec<(String, String)> {
    let keys = shown["keys"].as_array().expect("keys").iter();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    keys.map(|key| (text(&key["id"]), text(&key["role"]))).collect()
}

fn pair(id: &str, role: &str) -> (String, String) {
    (id.to_owned(), role.to_owned())
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

pub(crate) async fn what_was_hashed_before_is_recognised_after(world: &World) {
    let public_key = world.stack.description().vapid_public_key.clone();
    let stays = world.subscribed("stays", &public_key, None);
    let goes = world.subscribed("goes", &public_key, None);
    world.send("m1", "stays", "hello").await;
    world.received(&stays, 1).await;
    a_reference_waits(world, &goes).await;

    assert_eq!(keys(&world.answer(&["hash-key", "status"])), [pair("k1", "current")]);
    let before = world.secret(SECRET).await;
    assert_eq!(keys(&world.answer(&["hash-key", "rotate", "--dry-run"])), [pair("k1", "current")]);
    assert!(world.refusal(2, &["hash-key", "rotate", "--id", "k1"]).contains("a key with that id exists"));
    assert_eq!(world.secret(SECRET).await, before);

    a_rotation_is_interrupted(world);
    let told = world.redial(&["hash-key", "status", "--json"]);
    let shown: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!((told.status.code(), &shown["settled"]), (Some(1), &json!(false)));
    assert_eq!(keys(&shown), [pair("k2", "next"), pair("k1", "current")]);
    assert!(world.refusal(2, &["hash-key", "rotate", "--id", "k3"]).contains("a rotation to k2 was begun"));
    assert!(world.refusal(1, &["hash-key", "retire", "k2"]).contains("a rotation is in progress"));

    let rotated = world.answer(&["hash-key", "rotate"]);
    assert_eq!(keys(&rotated), [pair("k2", "current"), pair("k1", "former")]);
    assert_eq!(world.labels(SECRET).await, ["AWSCURRENT", "AWSPREVIOUS"], "no label of ours is left");
    assert_eq!(world.answer(&["hash-key", "status"])["settled"], true);

    a_reference_from_before_is_acted_on(world).await;
    the_same_message_from_before_is_dropped(world, &stays).await;
    a_former_key_is_kept_until_it_is_forced(world);
    let mut secrets = Vec::new();
    for text in [before, world.secret(SECRET).await] {
        key_texts(&serde_json::from_str(&text).expect("JSON"), &mut secrets);
    }
    world.nobody_has_printed(&secrets).await;
    assert_eq!(world.stack.poller_failure(), None);
}

/// An endpoint turns gone, and what cleanup is to know of it is hashed under the key from before.
async fn a_reference_waits(world: &World, goes: &Subscriber) {
    world.drain_references(false).await;
    world.push.unsubscribe(&goes.endpoint);
    world.send("m2", "goes", "hello").await;
    world.received(goes, 1).await;
    world
        .until("the ledger knows that it is gone", async || {
            world.delivery("m2").await.is_some_and(|it| it["state"] == "gone")
        })
        .await;
    world.until_quiet().await;
    assert!(hash(&world.delivery("m2").await).starts_with("hmac:k1:"));
    assert!(world.subscription("goes").await.is_some());
}

fn hash(delivery: &Option<Value>) -> String {
    let delivery = delivery.as_ref().expect("it is in the ledger");
    delivery["endpoint_hash"].as_str().expect("text").to_owned()
}

fn a_rotation_is_interrupted(world: &World) {
    let mut child = world.command(&["hash-key", "rotate", "--id", "k2"]).spawn().expect("it was built");
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("waiting") {
        line.clear();
        assert_ne!(said.read_line(&mut line).expect("text"), 0, "it ended before it could be interrupted");
    }
    child.kill().expect("it is running");
    child.wait().expect("it ends");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    assert!(!rest.contains("3 of 3"), "{rest}");
}

async fn a_reference_from_before_is_acted_on(world: &World) {
    world.drain_references(true).await;
    world
        .until("the subscription is removed", async || {
            world.prune().await;
            world.subscription("goes").await.is_none()
        })
        .await;
}

async fn the_same_message_from_before_is_dropped(world: &World, stays: &Subscriber) {
    let before = world.delivery("m1").await;
    world.send("m1", "stays", "hello").await;
    // Fingerprints under different keys cannot be compared: then it is a duplicate, too.
    world.send("m1", "stays", "something else").await;
    world.until_quiet().await;
    world.send("m3", "stays", "hello").await;
    let received = world.received(stays, 2).await;
    assert_eq!(received.len(), 2, "m1 once, and m3");
    assert_eq!(world.delivery("m1").await, before, "the ledger is as it was");
    let after = world.delivery("m3").await;
    assert!(hash(&before).starts_with("hmac:k1:") && hash(&after).starts_with("hmac:k2:"));
    // Under one key they can.
    world.send("m3", "stays", "something else").await;
    world
        .until("the conflict is a dead letter", async || {
            let letters = world.redial(&["dead-letters", "list", "--json"]);
            let letters = String::from_utf8_lossy(&letters.stdout).into_owned();
            let conflicts: Vec<Value> =
                letters.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            let conflicts = conflicts.iter().filter(|it| it["reason"] == "id_conflict");
            let ids: Vec<&Value> = conflicts.map(|it| &it["id"]).collect();
            assert!(ids.iter().all(|id| **id == "m3"), "{letters}");
            !ids.is_empty()
        })
        .await;
}

fn a_former_key_is_kept_until_it_is_forced(world: &World) {
    assert!(world.refusal(1, &["hash-key", "retire", "k1"]).contains("may be needed until 20"));
    assert!(world.refusal(1, &["hash-key", "retire", "k2", "--force"]).contains("it is the current key"));
    assert!(world.refusal(2, &["hash-key", "retire", "k9"]).contains("no key has that id"));
    let retired = world.answer(&["hash-key", "retire", "k1", "--force"]);
    assert_eq!(keys(&retired), [pair("k2", "current")]);
}
