//! A tenant's retry policy is changed with the command while the functions run, and what they send next follows it.
//!
//! The functions are the real ones, on one stack for all steps; each step has a tenant of its own. A push service answers 500 to
//! everything, so that only the policy decides how often a message is posted.

use std::{collections::HashMap, fs};

use aws_sdk_dynamodb::types::AttributeValue;
use redial_tests::steps::Steps;
use redial_tests::test_stack::set_env;

use crate::prelude::*;

/// How long a function may follow a policy that is no longer stored: `POLICY_CACHE_SECONDS` of this stack, and a bit.
const CACHED: Duration = Duration::from_millis(1_300);

/// Seconds after which a message is sent again that waits while its policy is changed.
const RETRY_AFTER: &str = "10";

struct Policies {
    stack: TestStack,
}

impl Policies {
    fn run(&self, arguments: &str, stdin: &str) -> Done {
        self.stack.redial_reading(format!("policy {arguments}"), stdin)
    }

    fn shown(&self, arguments: &str, stdin: &str) -> String {
        self.run(arguments, stdin).succeeds()
    }

    async fn send(&self, tenant: &str, id: &str, to: &Subscriber, fields: &Value) {
        let message = with_fields(self.stack.message_with(id, to, fields), &json!({ "tenant": tenant }));
        self.stack.send(&message).await;
    }

    /// A browser to which nothing can be sent.
    fn refusing(&self) -> Subscriber {
        self.stack.browser_answering(Answer::status(500))
    }

    /// Sends a message, waits until its retries are exhausted, and compares the number of the last attempt and of posts.
    async fn assert_exhausted_after(&self, retries: usize, tenant: &str, id: &str, fields: &Value) {
        let browser = self.refusing();
        self.send(tenant, id, &browser, fields).await;
        assert_eq!(self.until_exhausted(tenant, id).await, retries, "{tenant}#{id}");
        assert_eq!(self.stack.pushes(&browser), retries + 1, "{tenant}#{id}");
    }

    /// Waits until a delivery has exhausted its retries; the number of its last attempt, from 0.
    async fn until_exhausted(&self, tenant: &str, id: &str) -> usize {
        let entry = self.stack.until_state_of(tenant, id, "failed").await;
        assert_eq!(text(&entry, "reason"), Some("retries_exhausted"), "{tenant}#{id}");
        number(&entry, "attempt").and_then(|it| usize::try_from(it).ok()).expect("a number")
    }

    async fn stored(&self, tenant: &str) -> HashMap<String, AttributeValue> {
        let key = [("pk", &*format!("tenant#{tenant}")), ("sk", "policies")];
        let mut item = self.stack.item(&self.stack.tables().control, &key).await.unwrap_or_default();
        item.retain(|name, _| name != "pk" && name != "sk");
        item
    }

    async fn overwrite(&self, tenant: &str, policy: &str) {
        let key = [("pk", &*format!("tenant#{tenant}")), ("sk", "policies")];
        self.stack.overwrite(&self.stack.tables().control, &key, "policy#tenant", policy).await;
    }

    /// The sources of the policies that a delivery's attempts followed, once this many attempts are logged.
    async fn sources(&self, tenant: &str, id: &str, attempts: usize) -> Vec<String> {
        let is_of_it =
            |it: &Value| it["event"] == "attempt" && it["correlation_id"] == id && it["tenant"] == tenant;
        let source = |it: Value| it["policy_source"].as_str().map(str::to_owned);
        let sources = async || {
            let log = self.stack.dispatch_log().await;
            let sources: Vec<String> = log.into_iter().filter(is_of_it).filter_map(source).collect();
            (sources.len() >= attempts).then_some(sources)
        };
        self.stack.until(&format!("{attempts} attempts of {tenant}#{id} are logged"), sources).await
    }
}

#[tokio::test]
async fn a_tenant_s_policy_is_changed_while_the_functions_run() {
    let stack = TestStack::as_deployed_with(|options| {
        // Enough attempts fail here for a breaker to open.
        set_env(options, [("POLICY_CACHE_SECONDS", "1"), ("BREAKER", "off")]);
    })
    .await;
    let policies = Policies { stack };
    // At the same time, because they mostly wait.
    let steps = Steps::default();
    tokio::join!(
        steps.run("changed", a_changed_policy_holds_from_the_next_attempt_on(&policies)),
        steps.run("invalid", an_invalid_policy_is_refused_with_all_its_errors(&policies)),
        steps.run("stored", an_invalid_stored_policy_is_ignored_for_the_last_good_one(&policies)),
    );
    steps.finish();
    assert_eq!(policies.stack.stack().poller_failure(), None);
}

async fn a_changed_policy_holds_from_the_next_attempt_on(policies: &Policies) {
    let stack = &policies.stack;
    let waiting = stack.browser_answering(Answer::status(500).with_header("retry-after", RETRY_AFTER));
    policies.send("acme", "waiting", &waiting, &json!({})).await;
    stack.until_state("waiting", "retrying").await;

    let file = stack.folder().join("none-for-acme.json");
    fs::write(&file, "{\n  \"max_retries\": 0\n}\n").expect("the folder is writable");
    let set = policies.shown(&format!("set --tenant acme {}", file.display()), "");
    assert_eq!(set, "acme: policy stored\n");
    tokio::time::sleep(CACHED).await;

    // A new message is a dead letter at once, and so is the old one after its next attempt.
    policies.assert_exhausted_after(0, "acme", "new", &json!({})).await;
    let attempts = policies.until_exhausted("acme", "waiting").await + 1;
    assert_eq!(stack.pushes(&waiting), attempts);
    // On a slow machine it was retried before the command was done: then its first retries are its class's.
    let mut sources = policies.sources("acme", "waiting", attempts).await;
    assert_eq!(sources.pop().as_deref(), Some("tenant"));
    assert!(!sources.is_empty() && sources.iter().all(|it| it == "class"), "{sources:?}");

    // An event type's policy comes before the tenant's, and a message's own before both.
    let one_retry = r#"{"retry_delays": [0.2], "jitter": "none"}"#;
    let set = policies.shown("set --tenant acme --topic order.created - --json", one_retry);
    let expected =
        json!({"tenant": "acme", "topic": "order.created", "policy": parsed(one_retry), "before": null});
    assert_eq!(parsed(&set), expected);
    tokio::time::sleep(CACHED).await;
    let (created, paid) = (json!({"event_type": "order.created"}), json!({"event_type": "order.paid"}));
    policies.assert_exhausted_after(1, "acme", "created", &created).await;
    policies.assert_exhausted_after(0, "acme", "paid", &paid).await;
    let own = with_fields(created.clone(), &json!({"retry": {"max_retries": 2, "base_delay_ms": 50}}));
    policies.assert_exhausted_after(2, "acme", "own", &own).await;

    // Without any of them the class's holds again.
    let unset = policies.shown("unset --tenant acme --topic order.created", "");
    assert_eq!(unset, "acme, topic order.created: policy removed\n");
    assert_eq!(policies.shown("unset --tenant acme", ""), "acme: policy removed\n");
    assert_eq!(policies.stored("acme").await, HashMap::new());
    assert_eq!(policies.run("unset --tenant acme", "").ends_with(1), "no policy is stored for acme\n");
    tokio::time::sleep(CACHED).await;
    let after = policies.refusing();
    policies.send("acme", "after", &after, &created).await;
    stack.received(&after, 3).await;

    for (id, expected) in [
        ("new", &["tenant"][..]),
        ("created", &["topic", "topic"]),
        ("paid", &["tenant"]),
        ("own", &["message", "message", "message"]),
    ] {
        assert_eq!(policies.sources("acme", id, expected.len()).await, expected, "{id}");
    }
    let sources = policies.sources("acme", "after", 2).await;
    assert!(sources.iter().all(|source| source == "class"), "{sources:?}");
}

async fn an_invalid_policy_is_refused_with_all_its_errors(policies: &Policies) {
    let invalid =
        r#"{"max_retries": 101, "multiplier": 0.5, "jitter": "some", "retryable": [410], "colour": 1}"#;
    let fields = ["max_retries", "multiplier", "jitter", "retryable[0]", "colour"];
    let refused = |arguments: &str, stdin: &str, fields: &[&str]| {
        let said = policies.run(arguments, stdin).refused_with(2);
        assert_eq!(said.lines().count(), fields.len(), "one line for each error: {said}");
        for (line, field) in said.lines().zip(fields) {
            assert!(line.starts_with("error: ") && line.contains(field), "{field}: {line}");
        }
    };
    let file = policies.stack.folder().join("invalid.json");
    fs::write(&file, invalid).expect("the folder is writable");
    refused(&format!("set --tenant bolt {}", file.display()), "", &fields);
    refused("set --tenant bolt --topic order.created -", invalid, &fields);
    for text in ["", "no JSON", "[]", "3"] {
        refused("set --tenant bolt -", text, &["standard input"]);
    }
    refused("set --tenant bolt no-such-policy", "", &["no-such-policy"]);
    assert_eq!(policies.stored("bolt").await, HashMap::new());

    // Nor does it change what is stored.
    assert_eq!(policies.shown("set --tenant bolt otp", ""), "bolt: policy stored\n");
    let otp = AttributeValue::S("\"otp\"".to_owned());
    let expected = ["policy#tenant", "last_good#tenant"].map(|name| (name.to_owned(), otp.clone())).into();
    assert_eq!(policies.stored("bolt").await, expected);
    refused("set --tenant bolt -", invalid, &fields);
    assert_eq!(policies.stored("bolt").await, expected);
}

async fn an_invalid_stored_policy_is_ignored_for_the_last_good_one(policies: &Policies) {
    let (stack, none) = (&policies.stack, r#"{"max_retries": 0}"#);
    assert_eq!(policies.shown("set --tenant crux -", none), "crux: policy stored\n");
    policies.assert_exhausted_after(0, "crux", "before", &json!({})).await;

    policies.overwrite("crux", r#"{"max_retries": "s3cret", "multiplier": -1}"#).await;
    // No function has followed a policy of this tenant: the last good one was stored with it.
    policies.shown("set --tenant dune -", none);
    policies.overwrite("dune", "s3cret").await;
    // A tenant that never had a good one has its class's.
    policies.overwrite("eden", "s3cret").await;
    tokio::time::sleep(CACHED).await;
    policies.assert_exhausted_after(0, "crux", "after", &json!({})).await;
    policies.assert_exhausted_after(0, "dune", "m", &json!({})).await;
    let browser = policies.refusing();
    policies.send("eden", "m", &browser, &json!({})).await;
    stack.received(&browser, 2).await;
    for (tenant, id, source) in [("crux", "after", "tenant"), ("dune", "m", "tenant"), ("eden", "m", "class")]
    {
        assert_eq!(policies.sources(tenant, id, 1).await[0], source, "{tenant}");
    }
    for (tenant, errors) in [
        ("crux", &["max_retries: expected", "multiplier: expected"][..]),
        ("dune", &["(the whole text): expected"]),
        ("eden", &["(the whole text): expected"]),
    ] {
        let ignored = stack.until_logged(&json!({"event": "policy_ignored", "tenant": tenant})).await;
        assert_fields(&ignored, json!({"level": "ERROR", "policy": "tenant"}));
        let said = ignored["errors"].as_str().expect("a text");
        assert!(errors.iter().all(|error| said.contains(error)), "{said}");
    }
    let log = stack
        .until("three ignored policies are counted", async || {
            let log = stack.dispatch_log().await;
            let counted: u64 = log.iter().filter_map(|it| it["PoliciesIgnored"].as_u64()).sum();
            (counted >= 3).then_some(log)
        })
        .await;
    let counted = log.iter().find(|it| it["PoliciesIgnored"].is_u64()).expect("found before");
    let metrics = counted["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().expect("definitions");
    assert!(metrics.contains(&json!({"Name": "PoliciesIgnored", "Unit": "Count"})), "{metrics:?}");
    assert!(!log.iter().any(|line| line.to_string().contains("s3cret")), "the stored text is in the log");

    // To set it again is all that is needed.
    let said = policies.run("show --tenant crux", "").refused_with(1);
    assert!(said.contains("invalid, and ignored"), "{said}");
    let set = policies.shown("set --tenant crux -", r#"{"retry_delays": [0.1], "jitter": "none"}"#);
    assert_eq!(set, "crux: policy replaced\n");
    tokio::time::sleep(CACHED).await;
    policies.assert_exhausted_after(1, "crux", "mended", &json!({})).await;
}
