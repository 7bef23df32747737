//! A tenant's retry policy is changed with the command while the functions run, and what they send next follows it.
//!
//! The functions are the real ones here, on one stack for all of it; each part has a tenant of its own. A push service answers
//! 500 to everything, so that nothing but the policy decides how often a message is posted.

mod world;

use std::{collections::HashMap, fs, process::Output};

use aws_sdk_dynamodb::types::AttributeValue;
use redial_testkit::push_service::Answer;
use serde_json::{Value, json};

use world::{CACHED, World};

/// After which a message is sent again that is to wait while something is changed.
const RETRY_AFTER: &str = "10";

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn a_tenant_s_policy_is_changed_while_the_functions_run() {
    let world = World::up().await;
    tokio::join!(
        a_changed_policy_holds_from_the_next_attempt_on(&world),
        an_invalid_file_is_refused_with_all_its_errors_and_nothing_is_stored(&world),
        what_is_no_policy_is_ignored_and_the_last_good_one_stays(&world),
    );
    assert_eq!(world.stack.poller_failure(), None);
}

async fn a_changed_policy_holds_from_the_next_attempt_on(world: &World) {
    let waiting = world.answering(Answer::status(500).with_header("retry-after", RETRY_AFTER));
    world.send("acme", "waiting", &waiting, json!({})).await;
    world.until_retrying("acme", "waiting").await;

    let file = world.folder.path().join("none-for-acme.json");
    fs::write(&file, "{\n  \"max_retries\": 0\n}\n").expect("the folder is writable");
    let file = file.to_str().expect("a plain path");
    let set = world.policy(&format!("set --tenant acme {file}"), "").await;
    assert_eq!(stdout(&set), "acme: policy stored\n");
    tokio::time::sleep(CACHED).await;

    // A new message is a dead letter at once, and so is the old one after its next attempt.
    let new = world.refusing();
    world.send("acme", "new", &new, json!({})).await;
    assert_eq!(world.until_exhausted("acme", "new").await, "0");
    let attempts = world.until_exhausted("acme", "waiting").await.parse::<usize>().expect("a number") + 1;
    assert_eq!((world.posts(&new), world.posts(&waiting)), (1, attempts));
    // Where this machine is so slow that it was retried before the command was done, its first retries are its class's.
    let mut sources = world.sources("acme", "waiting", attempts).await;
    assert_eq!(sources.pop().as_deref(), Some("tenant"));
    assert!(!sources.is_empty() && sources.iter().all(|it| it == "class"), "{sources:?}");

    // An event type's policy comes before the tenant's.
    let one_retry = r#"{"retry_delays": [0.2], "jitter": "none"}"#;
    let set = world.policy("set --tenant acme --topic order.created - --json", one_retry).await;
    let told: Value = serde_json::from_str(&stdout(&set)).expect("JSON");
    let policy = json!({"retry_delays": [0.2], "jitter": "none"});
    assert_eq!(told, json!({"tenant": "acme", "topic": "order.created", "policy": policy, "before": null}));
    tokio::time::sleep(CACHED).await;
    let (created, paid) = (world.refusing(), world.refusing());
    world.send("acme", "created", &created, json!({"event_type": "order.created"})).await;
    world.send("acme", "paid", &paid, json!({"event_type": "order.paid"})).await;
    let own = world.refusing();
    let retry = json!({"max_retries": 2, "base_delay_ms": 50});
    world.send("acme", "own", &own, json!({"event_type": "order.created", "retry": retry})).await;
    assert_eq!(world.until_exhausted("acme", "created").await, "1");
    assert_eq!(world.until_exhausted("acme", "paid").await, "0");
    assert_eq!(world.until_exhausted("acme", "own").await, "2");
    assert_eq!((world.posts(&created), world.posts(&paid), world.posts(&own)), (2, 1, 3));

    // Without any of them the class's holds again.
    let unset = world.policy("unset --tenant acme --topic order.created", "").await;
    assert_eq!(stdout(&unset), "acme, topic order.created: policy removed\n");
    assert_eq!(stdout(&world.policy("unset --tenant acme", "").await), "acme: policy removed\n");
    assert_eq!(world.stored("acme").await, HashMap::new());
    let again = world.policy("unset --tenant acme", "").await;
    assert_eq!((again.status.code(), stderr(&again)), (Some(1), "no policy is stored for acme\n".to_owned()));
    tokio::time::sleep(CACHED).await;
    let after = world.refusing();
    world.send("acme", "after", &after, json!({"event_type": "order.created"})).await;
    world.until("it is posted a third time", async || (world.posts(&after) >= 3).then_some(())).await;

    for (id, expected) in [
        ("new", &["tenant"][..]),
        ("created", &["topic", "topic"]),
        ("paid", &["tenant"]),
        ("own", &["message", "message", "message"]),
    ] {
        assert_eq!(world.sources("acme", id, expected.len()).await, expected, "{id}");
    }
    let sources = world.sources("acme", "after", 2).await;
    assert!(sources.iter().all(|source| source == "class"), "{sources:?}");
}

async fn an_invalid_file_is_refused_with_all_its_errors_and_nothing_is_stored(world: &World) {
    let invalid =
        r#"{"max_retries": 101, "multiplier": 0.5, "jitter": "some", "retryable": [410], "colour": 1}"#;
    let named = ["max_retries", "multiplier", "jitter", "retryable[0]", "colour"];
    let refused = async |arguments: &str, stdin: &str, named: &[&str]| {
        let output = world.policy(arguments, stdin).await;
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(output.stdout.is_empty(), "{arguments}");
        assert_eq!(said.lines().count(), named.len(), "one line for each error: {said}");
        for (line, name) in said.lines().zip(named) {
            assert!(line.starts_with("error: ") && line.contains(name), "{name}: {line}");
        }
    };
    let file = world.folder.path().join("invalid.json");
    fs::write(&file, invalid).expect("the folder is writable");
    let file = file.to_str().expect("a plain path");
    refused(&format!("set --tenant bolt {file}"), "", &named).await;
    refused("set --tenant bolt --topic order.created -", invalid, &named).await;
    for no_policy in ["", "no JSON", "[]", "3"] {
        refused("set --tenant bolt -", no_policy, &["standard input"]).await;
    }
    refused("set --tenant bolt no-such-policy", "", &["no-such-policy"]).await;
    assert_eq!(world.stored("bolt").await, HashMap::new());

    // Nor does it change what is stored.
    assert_eq!(stdout(&world.policy("set --tenant bolt otp", "").await), "bolt: policy stored\n");
    let stored = world.stored("bolt").await;
    let otp = AttributeValue::S("\"otp\"".to_owned());
    assert_eq!(
        stored,
        HashMap::from(["policy#tenant", "last_good#tenant"].map(|it| (it.to_owned(), otp.clone())))
    );
    refused("set --tenant bolt -", invalid, &named).await;
    assert_eq!(world.stored("bolt").await, stored);
}

async fn what_is_no_policy_is_ignored_and_the_last_good_one_stays(world: &World) {
    assert_eq!(
        stdout(&world.policy("set --tenant crux -", r#"{"max_retries": 0}"#).await),
        "crux: policy stored\n"
    );
    let (before, after) = (world.refusing(), world.refusing());
    world.send("crux", "before", &before, json!({})).await;
    assert_eq!(world.until_exhausted("crux", "before").await, "0");

    world.scribble("crux", r#"{"max_retries": "s3cret", "multiplier": -1}"#).await;
    // And for a tenant of which no function has followed anything: the last good one was stored with it.
    stdout(&world.policy("set --tenant dune -", r#"{"max_retries": 0}"#).await);
    world.scribble("dune", "s3cret").await;
    // What never had a good one has its class's.
    world.scribble("eden", "s3cret").await;
    tokio::time::sleep(CACHED).await;
    world.send("crux", "after", &after, json!({})).await;
    assert_eq!(world.until_exhausted("crux", "after").await, "0");
    let (dune_s, eden_s) = (world.refusing(), world.refusing());
    world.send("dune", "m", &dune_s, json!({})).await;
    world.send("eden", "m", &eden_s, json!({})).await;
    assert_eq!(world.until_exhausted("dune", "m").await, "0");
    world.until("eden's is posted again", async || (world.posts(&eden_s) >= 2).then_some(())).await;
    assert_eq!((world.posts(&before), world.posts(&after), world.posts(&dune_s)), (1, 1, 1));

    assert_eq!(world.sources("crux", "after", 1).await, ["tenant"]);
    assert_eq!(world.sources("dune", "m", 1).await, ["tenant"]);
    assert_eq!(world.sources("eden", "m", 1).await[0], "class");
    for (tenant, errors) in [
        ("crux", &["max_retries: expected", "multiplier: expected"][..]),
        ("dune", &["(the whole text): expected"]),
        ("eden", &["(the whole text): expected"]),
    ] {
        let ignored = world
            .until(&format!("{tenant}'s ignored policy is logged"), async || {
                let log = world.log().await;
                log.into_iter().find(|it| it["event"] == "policy_ignored" && it["tenant"] == tenant)
            })
            .await;
        assert_eq!((&ignored["level"], &ignored["policy"]), (&json!("ERROR"), &json!("tenant")));
        let told = ignored["errors"].as_str().expect("a text");
        assert!(errors.iter().all(|error| told.contains(error)), "{told}");
    }
    let counted = world
        .until("they are counted", async || {
            let log = world.log().await;
            let counted = log.iter().filter_map(|it| it["PoliciesIgnored"].as_u64()).sum::<u64>();
            (counted >= 3).then_some(log)
        })
        .await;
    let counted = counted.iter().find(|it| it["PoliciesIgnored"].is_u64()).expect("found before");
    let metrics = counted["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().expect("definitions");
    assert!(metrics.contains(&json!({"Name": "PoliciesIgnored", "Unit": "Count"})), "{metrics:?}");
    let log = world.log().await;
    assert!(!log.iter().any(|line| line.to_string().contains("s3cret")), "what was scribbled is in the log");

    // Setting it anew is all that is needed.
    let shown = world.policy("show --tenant crux", "").await;
    assert_eq!((shown.status.code(), shown.stdout.is_empty()), (Some(1), true));
    assert!(stderr(&shown).contains("not followed"), "{}", stderr(&shown));
    let set = world.policy("set --tenant crux -", r#"{"retry_delays": [0.1], "jitter": "none"}"#).await;
    assert_eq!(stdout(&set), "crux: policy replaced\n");
    tokio::time::sleep(CACHED).await;
    let mended = world.refusing();
    world.send("crux", "mended", &mended, json!({})).await;
    assert_eq!(world.until_exhausted("crux", "mended").await, "1");
}
