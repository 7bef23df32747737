//! Subscriptions on a stack: stored and shown, and webhooks' given new secrets, listed while they fail, and sent to again.

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::{
    endpoint::Endpoint,
    identity::Tenant,
    subscription::{Doubts, State, suspicion},
};
use redial_engine::ports::{SubscriptionHealth as _, SubscriptionUpdate, Subscriptions as _};

use super::SUBSCRIPTION;
use crate::prelude::*;

const URL: &str = "https://partner.example/s3cret-hook";

fn of(command: &str, id: &str) -> String {
    format!("{command} --tenant acme --id {id}")
}

fn put(stack: &TestStack, id: &str, subscription: &Value) -> Value {
    stack.json_reading(of("subscriptions put", id), &subscription.to_string())
}

fn all_of(stack: &TestStack, id: &str) -> Value {
    stack.json(of("subscriptions get --show-keys --show-endpoint", id))
}

fn failing(stack: &TestStack) -> Vec<Value> {
    let list = stack.json("subscriptions list --failing --tenant acme");
    list["subscriptions"].as_array().expect("a list").clone()
}

/// Everything that the table of subscriptions holds of the test's tenant, as text. Other tests share the table.
async fn stored(stack: &TestStack) -> String {
    let of_tenant = format!("{}#", stack.tenant);
    let is_own = |value: &AttributeValue| {
        value.as_s().is_ok_and(|text| *text == stack.tenant || text.starts_with(&of_tenant))
    };
    let items = stack.scan(&stack.tables().subscriptions).await;
    let values = items.iter().filter(|item| item.values().any(is_own)).flat_map(|item| item.values());
    let texts = values.map(|value| value.as_s().cloned().unwrap_or_else(|_| format!("{value:?}")));
    texts.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn assert_lines(shown: &str, lines: &[&str]) {
    for line in lines {
        assert!(shown.lines().any(|it| it == *line), "{line}: {shown}");
    }
}

fn secret_of(answer: &Value) -> String {
    let secret = answer["secret"].as_str().unwrap_or_else(|| panic!("a secret: {answer}"));
    assert!(secret.starts_with("whsec_"), "{secret}");
    secret.to_owned()
}

#[tokio::test]
async fn a_webhook_is_stored_shown_rotated_listed_and_enabled() {
    let stack = TestStack::idle().await;
    a_webhook_is_stored_and_shown(&stack).await;
    secrets_stay_when_it_is_stored_again(&stack);
    a_new_secret_signs_beside_the_old_one(&stack);
    a_failing_webhook_is_listed_until_it_is_enabled(&stack).await;
    its_policy_is_explained(&stack);
    a_bare_url_is_signed_with_the_tenant_s_secret(&stack).await;
    without_the_stack_s_key_nothing_is_read(&stack).await;
}

async fn a_webhook_is_stored_and_shown(stack: &TestStack) {
    let wrong = json!({"url": URL, "headers": {"host": "s3cret"}, "policy": "s3cret"}).to_string();
    let said = stack.redial_reading(of("subscriptions put", "hooks"), &wrong).refused_with(2);
    assert_eq!((said.lines().count(), said.contains("s3cret")), (2, false), "{said}");
    assert_eq!(stored(stack).await, "", "nothing is stored where something is wrong");

    let plain = r#"{"url":"https://a.example"}"#;
    let shown = stack.redial_reading(of("subscriptions put", "plain"), plain).succeeds();
    assert!(shown.starts_with("acme#plain stored\n  secret        whsec_"), "{shown}");

    let hooks = json!({
        "url": URL,
        "topic": "order.created",
        "headers": {"Authorization": "Bearer s3cret"},
        "permit_headers": ["Idempotency-Key"],
        "policy": {"retry_delays": [5, 30]},
        "rate": "50/s",
    });
    let answer = put(stack, "hooks", &hooks);
    let secret = secret_of(&answer);
    let expected = json!({"tenant": "acme", "id": "hooks", "kind": "webhook", "new": true, "secret": secret});
    assert_eq!(answer, expected);
    let stored = stored(stack).await;
    assert!(!stored.contains("Bearer") && !stored.contains(&secret[6..]), "{stored}");

    let shown = stack.shown(of("subscriptions get", "hooks"));
    assert_lines(
        &shown,
        &[
            "acme#hooks: active",
            "  headers         authorization",
            "  kind            webhook",
            "  origin          https://partner.example",
            "  permit headers  idempotency-key",
            "  rate            50/s",
            "  topic           order.created",
            "  valid secrets   1",
        ],
    );
    for absent in ["s3cret", "whsec_", "failures"] {
        assert!(!shown.contains(absent), "{shown}");
    }
    let json = stack.json(of("subscriptions get --show-endpoint", "hooks"));
    assert_eq!(
        (&json["url"], json.get("secrets"), &json["failing_since"]),
        (&json!(URL), None, &Value::Null)
    );
    assert!(!json.to_string().contains("Bearer"), "{json}");
    let shown = stack.shown(of("subscriptions get --show-keys", "hooks"));
    let secret_line = format!("  secret          {secret}");
    assert_lines(&shown, &["  headers         authorization: Bearer s3cret", &secret_line]);
    let all = all_of(stack, "hooks");
    assert_fields(&all, json!({"url": URL, "topic": "order.created", "failures": 0}));
    let headers = json!({"authorization": "Bearer s3cret"});
    assert_fields(&all, json!({"headers": headers, "permit_headers": ["idempotency-key"]}));
    assert_eq!(all["secrets"], json!([{"secret": secret, "ends_at": null}]));
    assert!(all["policy"].is_string(), "{all}");
}

fn secrets_stay_when_it_is_stored_again(stack: &TestStack) {
    let before = all_of(stack, "hooks");
    let again = put(stack, "hooks", &json!({"url": URL}));
    assert_fields(&again, json!({"new": false, "secret": null}));
    let kept = json!({"secrets": before["secrets"], "policy": null, "headers": {}});
    assert_fields(&all_of(stack, "hooks"), kept);

    // Another address is another receiver, which must not learn them.
    let moved = put(stack, "hooks", &json!({"url": "https://other.example"}));
    assert_ne!(json!(secret_of(&moved)), before["secrets"][0]["secret"]);

    let given = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
    let answer = put(stack, "hooks", &json!({"url": URL, "secrets": given}));
    assert_eq!(answer["secret"], Value::Null, "a secret that was given is not printed");
    assert_eq!(all_of(stack, "hooks")["secrets"][0]["secret"], given[0]);
}

fn a_new_secret_signs_beside_the_old_one(stack: &TestStack) {
    let rotate = of("webhooks rotate-secret", "hooks");
    let before = all_of(stack, "hooks")["secrets"][0]["secret"].clone();
    let answer = stack.json(format!("{rotate} --grace 2h"));
    let newer = secret_of(&answer);
    let older_until = answer["older_until"].clone();
    assert!(older_until.is_string(), "{answer}");
    let both = json!([{"secret": newer, "ends_at": null}, {"secret": before, "ends_at": older_until}]);
    assert_eq!(all_of(stack, "hooks")["secrets"], both);
    let shown = stack.shown(of("subscriptions get --show-keys", "hooks"));
    let [before, until] = [&before, &older_until].map(|value| value.as_str().expect("a text"));
    assert_lines(&shown, &[&format!("  secret          {before}, until {until}")]);

    let last = stack.json(format!("{rotate} --grace 0s"));
    assert_eq!(last["older_until"], Value::Null);
    assert_eq!(all_of(stack, "hooks")["secrets"], json!([{"secret": secret_of(&last), "ends_at": null}]));

    let rotated = stack.redial(&rotate);
    let said = rotated.stderr.clone();
    let shown = rotated.succeeds();
    assert!(shown.starts_with("whsec_") && shown.lines().count() == 1, "{shown}");
    assert!(said.contains("also signs until 20") && !said.contains("whsec_"), "{said}");

    stack.redial_reading(of("subscriptions put", "browser"), SUBSCRIPTION).succeeds();
    for id in ["browser", "unknown"] {
        let said = stack.redial(of("webhooks rotate-secret", id)).refused_with(1);
        assert_eq!(said, format!("no webhook acme#{id}\n"));
    }
}

async fn a_failing_webhook_is_listed_until_it_is_enabled(stack: &TestStack) {
    assert_eq!(failing(stack), Vec::<Value>::new());
    let store = stack.subscriptions().await;
    let now = System.now();
    let update = |id: &str, url: &str| SubscriptionUpdate {
        key: stack.subscription_key(id),
        endpoint: Endpoint::parse(url).expect("valid"),
        at: now,
    };
    for failed in store.failed(vec![(update("hooks", URL), 3)]).await {
        failed.expect("it is counted");
    }
    let off = vec![(update("plain", "https://a.example"), State::Disabled)];
    for switched in store.switch_off(off).await {
        switched.expect("it is switched off");
    }
    let mut failing = failing(stack);
    failing.sort_by_key(|it| it["id"].to_string());
    let [hooks, plain] = failing.as_slice() else { panic!("{failing:?}") };
    let since = now.to_rfc3339();
    assert_fields(hooks, json!({"id": "hooks", "state": "active", "failures": 3, "failing_since": since}));
    assert_fields(plain, json!({"id": "plain", "state": "disabled", "failures": 0, "failing_since": since}));
    let list = "subscriptions list --failing --tenant acme";
    let rows = stack.shown(list);
    let headings: Vec<&str> = rows.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(headings, ["ID", "STATE", "FAILURES", "SINCE", "RECEIVER"]);
    assert!(rows.contains("s ago"), "{rows}");
    assert!(
        rows.lines().count() == 3 && !format!("{rows}{failing:?}").contains("s3cret"),
        "{rows}{failing:?}"
    );
    assert_eq!(all_of(stack, "hooks")["failures"], 3);
    let since = format!("  failing since   {since}");
    assert_lines(&stack.shown(of("subscriptions get", "hooks")), &["  failures        3", &since]);

    let enable = |id: &str| format!("subscriptions enable {id} --tenant acme");
    assert_eq!(stack.shown(enable("plain")), "acme#plain: active\n");
    let answer = stack.json(enable("hooks"));
    assert_eq!(answer, json!({"tenant": "acme", "id": "hooks", "state": "active"}));
    assert_eq!(all_of(stack, "plain")["state"], "active");
    assert_eq!(all_of(stack, "hooks")["failures"], 0);
    assert_eq!(stack.shown(list), "");
    assert_eq!(stack.redial(enable("unknown")).refused_with(1), "no subscription acme#unknown\n");
}

fn its_policy_is_explained(stack: &TestStack) {
    let message = json!({"tenant": "acme", "to": {"subscription": "hooks"}, "class": "otp"}).to_string();
    let explained = |source: &str, name: &str| {
        let answer = stack.json_reading("policy explain -", &message);
        assert_fields(&answer, json!({"channel": "webhook", "source": source, "name": name}));
    };
    explained("channel", "schedule-standard");
    put(stack, "hooks", &json!({"url": URL, "topic": "order.created", "policy": "wait-factor"}));
    explained("subscription", "wait-factor");
    put(stack, "hooks", &json!({"url": URL, "topic": "order.created"}));
    stack.shown("policy set --tenant acme --topic order.created schedule-patient");
    explained("topic", "schedule-patient");

    let words = |message: &str| stack.redial_reading("policy explain -", message).succeeds();
    let known = words(&message);
    assert!(known.contains("applies -> stored for acme, topic order.created"), "{known}");
    assert_eq!(known.lines().take_while(|line| !line.is_empty()).count(), 6, "six sources: {known}");
    let unknown = words(&message.replace("hooks", "unknown"));
    assert!(
        unknown.contains("unknown is not stored") && unknown.contains("applies -> class otp"),
        "{unknown}"
    );
}

async fn a_bare_url_is_signed_with_the_tenant_s_secret(stack: &TestStack) {
    let secrets = |tenant: &str| stack.json(format!("webhooks secret --tenant {tenant}"));
    let expected = stack.webhook_keys().await.secrets_of(&Tenant::parse("acme").expect("valid"));
    let expected: Vec<String> = expected.iter().map(|secret| secret.expose()).collect();
    assert_eq!(secrets("acme"), json!({"tenant": "acme", "secrets": expected}));
    assert_ne!(secrets("bolt")["secrets"], secrets("acme")["secrets"]);
    assert_eq!(stack.shown("webhooks secret --tenant acme"), format!("{}\n", expected[0]));
}

async fn without_the_stack_s_key_nothing_is_read(stack: &TestStack) {
    for (key, error, secret) in
        [("k2:0123456789abcdef", "UnknownKey", "0123456789abcdef"), ("s3cret", "cannot be used", "s3cret")]
    {
        stack.put_secret("WebhookKeySecretId", key).await;
        let said = stack.redial(of("subscriptions get", "hooks")).refused_with(1);
        assert!(said.contains(error) && !said.contains(secret), "{said}");
    }
    let delete = stack.secrets.delete_secret().secret_id(&stack.description().webhook_key_secret);
    delete.force_delete_without_recovery(true).send().await.expect("it exists");
    let hooks = json!({"url": URL}).to_string();
    let said = stack.redial_reading(of("subscriptions put", "hooks"), &hooks).refused_with(1);
    assert!(said.contains("cannot read") && said.contains("ResourceNotFoundException"), "{said}");
}

#[tokio::test]
async fn a_subscription_is_stored_and_its_secrets_are_shown_on_request_only() {
    let stack = TestStack::shared_idle().await;
    let tenant = &stack.tenant;
    let put = format!("subscriptions put --tenant {tenant} --id s1");
    let stored = stack.redial_reading(&put, SUBSCRIPTION).succeeds();
    assert_eq!(stored, format!("{tenant}#s1 stored\n"));
    let again = stack.json_reading(format!("{put} --vapid-key-id k2"), SUBSCRIPTION);
    let expected = json!({"tenant": tenant, "id": "s1", "kind": "web_push", "new": false, "secret": null});
    assert_eq!(again, expected);

    let get = format!("subscriptions get --tenant {tenant} --id s1");
    let shown = stack.shown(&get);
    assert!(shown.starts_with(&format!("{tenant}#s1: active\n")), "{shown}");
    assert!(shown.contains("https://push.example\n"), "{shown}");
    assert!(!shown.contains("s3cret") && !shown.contains(AUTH), "{shown}");
    let shown = stack.json(&get);
    assert_fields(&shown, json!({"state": "active", "vapid_key_id": "k2"}));
    assert_eq!((shown.get("endpoint"), shown.get("keys")), (None, None));
    let all = stack.json(format!("{get} --show-endpoint --show-keys"));
    assert_eq!(all["endpoint"], "https://push.example/s3cret-endpoint");
    assert_eq!(all["keys"]["auth"], AUTH);

    stack.redial("subscriptions get --tenant other --id s1").ends_with(1);
}

#[tokio::test]
async fn a_receiver_is_not_replaced_by_a_browser_by_mistake() {
    let stack = TestStack::shared_idle().await;
    let put = format!("subscriptions put --tenant {} --id twice", stack.tenant);
    let receiver = r#"{"url":"https://partner.example/hooks"}"#;
    stack.redial_reading(&put, receiver).succeeds();
    let said = stack.redial_reading(&put, SUBSCRIPTION).refused_with(2);
    assert!(
        said.contains("twice is a webhook's receiver, and FILE has a browser") && said.contains("--replace"),
        "{said}"
    );
    stack.redial_reading(&put, receiver).succeeds();
    let replaced = stack.redial_reading(format!("{put} --replace"), SUBSCRIPTION).succeeds();
    assert!(replaced.contains("replaced"), "{replaced}");
    let said = stack.redial_reading(&put, receiver).refused_with(2);
    assert!(said.contains("twice is a browser, and FILE has a webhook's receiver"), "{said}");
}

/// The ids of a listing's lines of JSON, sorted, and what it said besides.
fn listed(stack: &TestStack, options: &str) -> (Vec<String>, String) {
    let listed = stack.redial(format!("subscriptions list --json {options}"));
    let said = listed.stderr.clone();
    let lines = listed.succeeds();
    let mut ids: Vec<String> =
        lines.lines().map(|line| parsed(line)["id"].as_str().expect("an id").to_owned()).collect();
    ids.sort();
    (ids, said)
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_are_listed_by_tenant_tag_and_state_and_deleted_once() {
    let stack = TestStack::shared_idle().await;
    let tenant = &stack.tenant;
    for (id, tags) in [("s1", json!(["news"])), ("s2", json!(["news", "vip"])), ("s3", json!([]))] {
        let mut subscription = parsed(SUBSCRIPTION);
        subscription["tags"] = tags;
        subscription["consent"] = json!({
            "at": "2026-01-01T00:00:00Z", "prompt_version": "v3", "action": "granted", "origin": "https://shop.example",
        });
        subscription["id"] = json!(id);
        subscription["endpoint"] = json!(format!("https://fcm.googleapis.com/fcm/send/s3cret-{id}"));
        let import = format!("subscriptions import - --tenant {tenant}");
        stack.redial_reading(&import, &subscription.to_string()).succeeds();
    }
    let put = format!("subscriptions put --tenant {tenant} --id hooks");
    stack.redial_reading(&put, &json!({"url": URL}).to_string()).succeeds();

    let of = |options: &str| listed(&stack, &format!("--tenant {tenant} {options}"));
    assert_eq!(of("").0, ["hooks", "s1", "s2", "s3"]);
    assert_eq!(of("--tag news").0, ["s1", "s2"]);
    assert_eq!(of("--tag news --channel webhook").0, [""; 0]);
    assert_eq!(of("--channel webhook --state active").0, ["hooks"]);
    let (none, said) = of("--state quarantined");
    assert_eq!((none, said.as_str()), (vec![], "no subscriptions match\n"));
    assert!(listed(&stack, "--all").0.len() >= 4, "all tenants share the table");

    // Page by page, each is listed once.
    for options in ["", "--tag news"] {
        let (mut pages, mut after) = (Vec::new(), String::new());
        loop {
            let (ids, said) = of(&format!("{options} --limit 1 {after}"));
            pages.extend(ids);
            let Some((_, rest)) = said.split_once("--after ") else { break };
            after = format!("--after {}", rest.split(',').next().expect("a position"));
        }
        pages.sort();
        assert_eq!(pages, of(options).0, "{options}");
    }

    let shown = stack.shown(format!("subscriptions list --tenant {tenant} --all"));
    assert_eq!(
        (shown.lines().count(), shown.contains("s3cret") || shown.contains(AUTH)),
        (5, false),
        "{shown}"
    );
    assert!(shown.starts_with("TENANT") && shown.contains("news,vip"), "{shown}");

    let delete = |id: &str| format!("subscriptions delete {id} --tenant {tenant}");
    assert!(stack.redial(delete("s2")).refused_with(2).contains("pass --yes to delete the subscription"));
    let answer = stack.json(format!("{} --yes", delete("s2")));
    let expected =
        json!({"tenant": tenant, "id": "s2", "deleted": true, "kind": "web_push", "deleted_before_at": null});
    assert_eq!(answer, expected);
    let again = stack.shown(format!("{} --yes", delete("s2")));
    assert!(again.starts_with(&format!("{tenant}#s2: already deleted, 20")), "{again}");
    assert_eq!(
        stack.shown(format!("{} --yes", delete("hooks"))),
        format!("{tenant}#hooks: deleted, a webhook's\n")
    );
    let unknown = stack.redial(format!("{} --yes", delete("unknown"))).refused_with(1);
    assert_eq!(unknown, format!("no subscription {tenant}#unknown\n"));
    assert_eq!(of("").0, ["s1", "s3"]);
    assert_eq!(of("--tag vip").0, [""; 0], "its tags went with it");
    let stored = stored(&stack).await;
    assert!(!stored.contains("s3cret-s2") && !stored.contains(URL), "{stored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn suspects_are_listed_and_what_is_in_quarantine_is_confirmed_once() {
    let stack = TestStack::shared_idle().await;
    let (tenant, store) = (&stack.tenant, stack.subscriptions().await);
    let update = |id: &str| {
        let endpoint = format!("https://fcm.googleapis.com/fcm/send/suspect-{id}");
        let endpoint = Endpoint::parse(&endpoint).expect("valid");
        SubscriptionUpdate { key: subscription_key(tenant, id), endpoint, at: System.now() }
    };
    for id in ["s1", "s2", "s3", "s4"] {
        let mut subscription = parsed(SUBSCRIPTION);
        subscription["endpoint"] = json!(format!("https://fcm.googleapis.com/fcm/send/suspect-{id}"));
        let put = format!("subscriptions put --tenant {tenant} --id {id}");
        stack.redial_reading(&put, &subscription.to_string()).succeeds();
    }
    let mut doubts = Doubts::default();
    for hours in 1..=3 {
        let at = System.now().plus(Duration::from_secs(3_600 * hours));
        let after = doubts.with(at, suspicion::APART).expect("it counts");
        assert_eq!(store.doubt(update("s1"), &doubts, &after).await, Ok(true));
        assert_eq!(store.doubt(update("s1"), &doubts, &after).await, Ok(false), "it has changed");
        doubts = after;
    }
    let of = |options: &str| listed(&stack, &format!("--tenant {tenant} {options}")).0;
    assert_eq!(
        (of("--state suspect"), of("--state active")),
        (vec!["s1".to_owned()], ids(&["s2", "s3", "s4"]))
    );
    let get = stack.json(format!("subscriptions get --tenant {tenant} --id s1"));
    assert_fields(&get, json!({"state": "suspect", "dead_letters": 3}));
    stack.shown(format!("subscriptions enable s1 --tenant {tenant}"));
    assert_eq!(of("--state suspect"), ids(&[]));

    let prune = |options: &str| format!("subscriptions prune --tenant {tenant} {options}");
    assert!(stack.redial(prune("")).refused_with(2).contains("pass --yes to confirm them as gone"));
    let none = json!({"tenant": tenant, "quarantined": 0, "confirmed": 0, "dry_run": false});
    assert_eq!(stack.json(prune("--yes")), none);
    for id in ["s2", "s3"] {
        let off = store.switch_off(vec![(update(id), State::Gone)]).await;
        assert_eq!((off, store.quarantine(update(id)).await), (vec![Ok(true)], Ok(true)));
    }
    assert_eq!(
        stack.json(prune("--dry-run")),
        with_fields(none.clone(), &json!({"quarantined": 2, "dry_run": true}))
    );
    assert_eq!(of("--state quarantined"), ids(&["s2", "s3"]));
    assert_eq!(
        stack.json(prune("--yes")),
        with_fields(none.clone(), &json!({"quarantined": 2, "confirmed": 2}))
    );
    assert_eq!((of("--state gone"), stack.json(prune("--yes"))), (ids(&["s2", "s3"]), none));
    let walked = store.get(&subscription_key(tenant, "s2")).await.expect("it is read").expect("it is there");
    assert!(walked.gone_confirmed_at.is_some());
    stack.shown(format!("subscriptions enable s3 --tenant {tenant}"));
    let enabled = store.get(&subscription_key(tenant, "s3")).await.expect("it is read").expect("it is there");
    assert_eq!((enabled.state, enabled.gone_confirmed_at), (State::Active, None));
    assert!(enabled.enabled_at.is_some());
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}
