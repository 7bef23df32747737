//! `redial vapid rotate | status | retire`.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial_testkit::push_service::Answered;

use super::Harness;
use crate::prelude::*;

const SECRET: &str = "VapidSecretArn";

/// The push service took it, and it was signed with that key.
fn assert_signed(received: &Received, public_key: &str) {
    assert_eq!((received.problems.len(), received.answered), (0, Answered::Status(201)), "{received:?}");
    let key = received.vapid_key.as_deref().map(|key| URL_SAFE_NO_PAD.encode(key));
    assert_eq!(key.as_deref(), Some(public_key));
}

fn row(report: &Value, id: &str) -> Value {
    let keys = report["keys"].as_array().unwrap_or_else(|| panic!("a report: {report}"));
    keys.iter().find(|it| it["id"] == id).unwrap_or_else(|| panic!("{id} in {report}")).clone()
}

pub(super) async fn each_key_signs_for_its_own_subscriptions_until_it_is_retired(harness: &Harness) {
    let old = harness.stack.description().vapid_public_key.clone();
    let before = harness.stack.secret(SECRET).await;
    let early = harness.subscribed("early", &old, None);
    harness.send("m1", "early", "before").await;
    assert_signed(&harness.stack.received(&early, 1).await[0], &old);

    // A dry run changes nothing.
    let plan = harness.json("vapid rotate --dry-run --id k2");
    assert_fields(&plan, json!({"public_key": null, "dry_run": true}));
    assert_eq!(row(&plan, "default")["active"], 1);
    assert_eq!(harness.stack.secret(SECRET).await, before);

    let rotated = harness.json("vapid rotate --id k2");
    let new = rotated["public_key"].as_str().expect("a key").to_owned();
    assert_fields(&rotated, json!({"default": "default", "current": "k2"}));
    assert_eq!(row(&rotated, "default")["active"], 1);
    assert_fields(&row(&rotated, "k2"), json!({"active": 0, "public_key": new}));
    assert_eq!(harness.labels(SECRET).await, ["AWSCURRENT", "AWSPREVIOUS"], "no label of ours is left");
    let listed = harness.listed_keys().await;
    assert_eq!((&listed["current"], &listed["keys"][1]["public_key"]), (&json!("k2"), &json!(new)));

    // The workers are warm, and have read the secret before.
    let late = harness.subscribed("late", &new, Some("k2"));
    harness.send("m2", "late", "after").await;
    harness.send("m3", "early", "after").await;
    assert_signed(&harness.stack.received(&late, 1).await[0], &new);
    assert_signed(&harness.stack.received(&early, 2).await[1], &old);

    let status = harness.json("vapid status");
    for id in ["default", "k2"] {
        assert_fields(&row(&status, id), json!({"active": 1, "flagged": 0, "off": 0}));
    }
    let table = harness.redial("vapid status").succeeds();
    assert!(table.contains(&old) && table.contains(&new), "{table}");
    doctor_finds_no_fault_of_the_keys(harness);

    concurrent_rotations_lose_no_key(harness).await;
    a_used_key_is_not_retired(harness).await;
    let mut keys = private_keys(&before);
    keys.extend(private_keys(&harness.stack.secret(SECRET).await));
    an_unused_key_is_retired(harness).await;
    harness.send("m4", "late", "at last").await;
    assert_signed(&harness.stack.received(&late, 2).await[1], &new);
    a_key_outside_the_secret_is_not_rotated(harness).await;
    harness.assert_unprinted(&keys).await;
    assert_eq!(harness.stack.stack().poller_failure(), None);
}

fn private_keys(secret: &str) -> Vec<String> {
    match serde_json::from_str::<Value>(secret) {
        Ok(set) => {
            let keys = set["keys"].as_object().expect("keys").values();
            keys.map(|key| key.as_str().expect("text").to_owned()).collect()
        }
        Err(_) => vec![secret.trim().to_owned()],
    }
}

fn doctor_finds_no_fault_of_the_keys(harness: &Harness) {
    let doctor = harness.redial("doctor --json").json();
    let checks = doctor["checks"].as_array().expect("checks");
    let keys = checks.iter().find(|check| check["check"] == "keys").expect("it looks at them");
    assert_fields(keys, json!({"ok": true, "unchecked": []}));
}

async fn concurrent_rotations_lose_no_key(harness: &Harness) {
    let ids = ["k3", "k4", "k5"];
    let rotate = |id| format!("vapid rotate --no-report --id {id}");
    let children = ids.map(|id| started(&mut harness.stack.command(rotate(id))));
    for child in children {
        harness.record(child.wait_with_output().expect("it ends").into()).succeeds();
    }
    let status = harness.json("vapid status");
    for id in ids {
        assert!(row(&status, id)["public_key"].is_string(), "{status}");
    }
    let keys = status["keys"].as_array().expect("keys");
    assert_eq!(keys.iter().filter(|key| key["current"] == true).count(), 1);
    assert_eq!(row(&status, "default")["default"], true);
    assert!(harness.refusal(2, "vapid rotate --id k3").contains("already a key with this id"));
}

async fn a_used_key_is_not_retired(harness: &Harness) {
    let before = harness.stack.secret(SECRET).await;
    let status = harness.json("vapid status");
    let mut keys = status["keys"].as_array().expect("keys").iter();
    let current = keys.find(|key| key["current"] == true).expect("there is one");
    let current = current["id"].as_str().expect("text").to_owned();
    let retire = |id: &str, status| harness.refusal(status, &format!("vapid retire {id} --yes"));
    assert!(retire("k2", 1).contains("k2 stays: 1 active"), "{}", retire("k2", 1));
    assert!(retire("default", 1).contains("1 active subscriptions that name no key"));
    assert!(retire(&current, 1).contains("it is the current key"));
    assert!(
        retire("k9", 1).contains("there is no key with this id; there are default, "),
        "{}",
        retire("k9", 1)
    );
    assert_eq!(harness.stack.secret(SECRET).await, before);
}

async fn an_unused_key_is_retired(harness: &Harness) {
    harness.stack.delete(&harness.stack.tables().subscriptions, &[("pk", "acme#early")]).await;
    let retired = harness.json("vapid retire default --yes");
    assert_eq!(retired["default"], retired["current"], "it takes the place of the default");
    // A worker of the HTTP API caches its list for half a minute.
    let listed = harness.published_ids().await;
    assert!(!listed.contains(&"default".to_owned()) && listed.contains(&"k2".to_owned()), "{listed:?}");
    let left = retired["keys"].as_array().expect("ids");
    assert!(!left.contains(&json!("default")) && left.contains(&json!("k2")), "{retired}");
    // A subscription whose key is not there is reported.
    harness.subscribed("stranded", &harness.stack.description().vapid_public_key, Some("default"));
    let said = harness.refusal(1, "vapid status");
    assert!(said.contains("1 active subscriptions name a key that the stack does not have"), "{said}");
}

async fn a_key_outside_the_secret_is_not_rotated(harness: &Harness) {
    let elsewhere = ("VAPID_PRIVATE_KEY".to_owned(), "something".to_owned());
    harness.stack.change_dispatch(|variables| variables.extend([elsewhere])).await;
    let said = harness.refusal(1, "vapid rotate");
    assert!(said.contains("VAPID_PRIVATE_KEY") && said.contains("redial vapid generate"), "{said}");
}
