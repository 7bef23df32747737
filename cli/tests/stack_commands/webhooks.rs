//! Webhooks' receivers on a stack: stored, shown, given new secrets, listed while they fail, and sent to again.

use aws_sdk_dynamodb::types::AttributeValue;
use redial_adapters::{
    control_dynamo::DynamoControl, subscriptions_dynamo::DynamoSubscriptions, system::System,
    webhook_keys::WebhookKeys,
};
use redial_core::{
    endpoint::Endpoint,
    identity::{SubscriptionId, SubscriptionKey, Tenant},
    subscription::State,
};
use redial_engine::ports::{Clock as _, SubscriptionUpdate, Subscriptions as _};
use serde_json::{Value, json};

use super::{SUBSCRIPTION, World, json as parsed, stdout};

const URL: &str = "https://partner.example/s3cret-hook";

fn of(command: &[&'static str], id: &'static str) -> Vec<&'static str> {
    [command, &["--tenant", "acme", "--id", id, "--json"]].concat()
}

impl World {
    /// What a command prints as JSON.
    fn answer(&self, arguments: &[&str], stdin: &str) -> Value {
        parsed(&stdout(&self.redial(arguments, stdin)))
    }

    fn put(&self, id: &'static str, subscription: &Value) -> Value {
        self.answer(&of(&["subscriptions", "put"], id), &subscription.to_string())
    }

    /// All that is stored of a webhook, secrets and all.
    fn all_of(&self, id: &'static str) -> Value {
        self.answer(&of(&["subscriptions", "get", "--show-keys", "--show-endpoint"], id), "")
    }

    fn failing(&self) -> Vec<Value> {
        let list = ["subscriptions", "list", "--failing", "--tenant", "acme", "--json"];
        self.answer(&list, "")["subscriptions"].as_array().expect("a list").clone()
    }

    /// Fails with this exit status; what it said.
    fn refused(&self, arguments: &[&str], stdin: &str, status: i32) -> String {
        let done = self.redial(arguments, stdin);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!((done.status.code(), done.stdout.is_empty()), (Some(status), true), "{said}");
        said
    }

    async fn keys(&self) -> WebhookKeys {
        let secrets = aws_sdk_secretsmanager::Client::new(&self.stack.sdk_config());
        let id = &self.stack.description().webhook_key_secret;
        let secret = secrets.get_secret_value().secret_id(id).send().await.expect("the template makes it");
        WebhookKeys::parse(secret.secret_string().expect("text")).expect("as the template makes it")
    }

    /// As the functions have it.
    async fn store(&self) -> DynamoSubscriptions {
        let tables = &self.stack.description().tables;
        let control = DynamoControl::new(self.dynamo(), tables.control.clone());
        let (table, audiences) = (tables.subscriptions.clone(), tables.audiences.clone());
        DynamoSubscriptions::new(self.dynamo(), table, audiences, control, self.keys().await)
    }

    /// Everything that the table of subscriptions holds, as text.
    async fn stored(&self) -> String {
        let table = &self.stack.description().tables.subscriptions;
        let items = self.dynamo().scan().table_name(table).send().await.expect("the table is there");
        let text = |value: &AttributeValue| value.as_s().cloned().unwrap_or_else(|_| format!("{value:?}"));
        items.items().iter().flat_map(|item| item.values().map(text)).collect::<Vec<_>>().join("\n")
    }
}

fn secret_of(answer: &Value) -> String {
    let secret = answer["secret"].as_str().unwrap_or_else(|| panic!("a secret: {answer}"));
    assert!(secret.starts_with("whsec_"), "{secret}");
    secret.to_owned()
}

#[tokio::test]
async fn a_webhook_is_stored_shown_given_a_new_secret_listed_and_sent_to_again() {
    let world = World::up().await;
    stored_and_shown(&world).await;
    kept_when_it_is_stored_again(&world);
    given_a_new_secret(&world);
    listed_while_it_fails_and_enabled(&world).await;
    explained(&world);
    what_a_bare_url_is_signed_with(&world).await;
    without_the_stack_s_key(&world).await;
}

async fn stored_and_shown(world: &World) {
    let wrong = json!({"url": URL, "headers": {"host": "s3cret"}, "policy": "s3cret"}).to_string();
    let said = world.refused(&of(&["subscriptions", "put"], "hooks"), &wrong, 2);
    assert_eq!((said.lines().count(), said.contains("s3cret")), (2, false), "{said}");
    assert_eq!(world.stored().await, "", "nothing is stored where something is wrong");

    let put = world.redial(
        &["subscriptions", "put", "--tenant", "acme", "--id", "plain"],
        r#"{"url":"https://a.example"}"#,
    );
    let shown = stdout(&put);
    assert!(shown.starts_with("acme#plain stored\n  secret        whsec_"), "{shown}");

    let hooks = json!({
        "url": URL,
        "topic": "order.created",
        "headers": {"Authorization": "Bearer s3cret"},
        "permit_headers": ["Idempotency-Key"],
        "policy": {"retry_delays": [5, 30]},
    });
    let answer = world.put("hooks", &hooks);
    let secret = secret_of(&answer);
    let expected = json!({"tenant": "acme", "id": "hooks", "kind": "webhook", "new": true, "secret": secret});
    assert_eq!(answer, expected);
    let stored = world.stored().await;
    assert!(!stored.contains("Bearer") && !stored.contains(&secret[6..]), "{stored}");

    let get = world.redial(&["subscriptions", "get", "--tenant", "acme", "--id", "hooks"], "");
    let shown = stdout(&get);
    assert!(
        shown.starts_with("acme#hooks: active\n") && shown.contains("https://partner.example\n"),
        "{shown}"
    );
    assert!(!shown.contains("s3cret") && !shown.contains("whsec_"), "{shown}");
    let all = world.all_of("hooks");
    assert_eq!(
        (&all["url"], &all["topic"], &all["failures"]),
        (&json!(URL), &json!("order.created"), &json!(0))
    );
    assert_eq!(all["headers"], json!({"authorization": "Bearer s3cret"}));
    assert_eq!(all["permit_headers"], json!(["idempotency-key"]));
    assert_eq!(all["secrets"], json!([{"secret": secret, "ends_at": null}]));
    assert!(all["policy"].is_string(), "{all}");
}

fn kept_when_it_is_stored_again(world: &World) {
    let before = world.all_of("hooks");
    let again = world.put("hooks", &json!({"url": URL}));
    assert_eq!((&again["new"], &again["secret"]), (&json!(false), &Value::Null));
    let after = world.all_of("hooks");
    assert_eq!(after["secrets"], before["secrets"]);
    assert_eq!((&after["policy"], &after["headers"]), (&Value::Null, &json!({})));

    // Elsewhere is someone else, who does not get to know them.
    let moved = world.put("hooks", &json!({"url": "https://other.example"}));
    assert_ne!(json!(secret_of(&moved)), before["secrets"][0]["secret"]);

    let given = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
    let answer = world.put("hooks", &json!({"url": URL, "secrets": given}));
    assert_eq!(answer["secret"], Value::Null, "whoever gave it knows it");
    assert_eq!(world.all_of("hooks")["secrets"][0]["secret"], given[0]);
}

fn given_a_new_secret(world: &World) {
    let rotate = of(&["webhooks", "rotate-secret"], "hooks");
    let before = world.all_of("hooks")["secrets"][0]["secret"].clone();
    let answer = world.answer(&[&rotate[..], &["--grace", "2h"]].concat(), "");
    let newer = secret_of(&answer);
    let older_until = answer["older_until"].clone();
    assert!(older_until.is_string(), "{answer}");
    let both = json!([
        {"secret": newer, "ends_at": null},
        {"secret": before, "ends_at": older_until},
    ]);
    assert_eq!(world.all_of("hooks")["secrets"], both);

    let last = world.answer(&[&rotate[..], &["--grace", "0s"]].concat(), "");
    assert_eq!(last["older_until"], Value::Null);
    assert_eq!(world.all_of("hooks")["secrets"], json!([{"secret": secret_of(&last), "ends_at": null}]));

    let shown = world.redial(&["webhooks", "rotate-secret", "--tenant", "acme", "--id", "hooks"], "");
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    let shown = stdout(&shown);
    assert!(shown.starts_with("whsec_") && shown.lines().count() == 1, "{shown}");
    assert!(said.contains("also signs until 20") && !said.contains("whsec_"), "{said}");

    stdout(&world.redial(&["subscriptions", "put", "--tenant", "acme", "--id", "browser"], SUBSCRIPTION));
    for id in ["browser", "nobody"] {
        let said = world.refused(&of(&["webhooks", "rotate-secret"], id), "", 1);
        assert_eq!(said, format!("no webhook acme#{id}\n"));
    }
}

async fn listed_while_it_fails_and_enabled(world: &World) {
    assert_eq!(world.failing(), Vec::<Value>::new());
    let store = world.store().await;
    let now = System.now();
    let update = |id: &str, url: &str| SubscriptionUpdate {
        key: SubscriptionKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: SubscriptionId::parse(id).expect("valid"),
        },
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
    let failing = world.failing();
    let mut seen: Vec<_> =
        failing.iter().map(|it| (it["id"].as_str(), it["state"].as_str(), it["failures"].as_u64())).collect();
    seen.sort_unstable();
    assert_eq!(seen, [(Some("hooks"), Some("active"), Some(3)), (Some("plain"), Some("disabled"), Some(0)),]);
    assert!(failing.iter().all(|it| it["failing_since"] == json!(now.to_rfc3339())), "{failing:?}");
    let rows = stdout(&world.redial(&["subscriptions", "list", "--failing", "--tenant", "acme"], ""));
    assert!(rows.starts_with("ID ") && rows.lines().count() == 3 && !rows.contains("s3cret"), "{rows}");
    assert_eq!(world.all_of("hooks")["failures"], 3);

    let enable = |id: &'static str| ["subscriptions", "enable", id, "--tenant", "acme"];
    assert_eq!(stdout(&world.redial(&enable("plain"), "")), "acme#plain: active\n");
    let answer = world.answer(&[&enable("hooks")[..], &["--json"]].concat(), "");
    assert_eq!(answer, json!({"tenant": "acme", "id": "hooks", "state": "active"}));
    assert_eq!(world.all_of("plain")["state"], "active");
    assert_eq!(world.all_of("hooks")["failures"], 0);
    let none = world.redial(&["subscriptions", "list", "--failing", "--tenant", "acme"], "");
    assert_eq!(stdout(&none), "");
    assert_eq!(world.refused(&enable("nobody"), "", 1), "no subscription acme#nobody\n");
}

fn explained(world: &World) {
    let message = json!({"tenant": "acme", "to": {"subscription": "hooks"}, "class": "otp"}).to_string();
    let explain = ["policy", "explain", "-", "--json"];
    let answer = world.answer(&explain, &message);
    let told = |answer: &Value| (answer["channel"].clone(), answer["source"].clone(), answer["name"].clone());
    assert_eq!(told(&answer), (json!("webhook"), json!("channel"), json!("schedule-standard")));

    world.put("hooks", &json!({"url": URL, "topic": "order.created", "policy": "wait-factor"}));
    let answer = world.answer(&explain, &message);
    assert_eq!(told(&answer), (json!("webhook"), json!("subscription"), json!("wait-factor")));

    world.put("hooks", &json!({"url": URL, "topic": "order.created"}));
    let set = ["policy", "set", "--tenant", "acme", "--topic", "order.created", "schedule-patient"];
    stdout(&world.redial(&set, ""));
    let answer = world.answer(&explain, &message);
    assert_eq!(told(&answer), (json!("webhook"), json!("topic"), json!("schedule-patient")));

    let words = stdout(&world.redial(&["policy", "explain", "-"], &message));
    assert!(words.contains("applies -> stored for acme, topic order.created"), "{words}");
    assert_eq!(words.lines().take_while(|line| !line.is_empty()).count(), 6, "six sources: {words}");
    let unknown = message.replace("hooks", "nobody");
    let words = stdout(&world.redial(&["policy", "explain", "-"], &unknown));
    assert!(words.contains("nobody is not stored") && words.contains("applies -> class otp"), "{words}");
}

async fn what_a_bare_url_is_signed_with(world: &World) {
    let secrets =
        |tenant: &'static str| world.answer(&["webhooks", "secret", "--tenant", tenant, "--json"], "");
    let expected = world.keys().await.secrets_of(&Tenant::parse("acme").expect("valid"));
    let expected: Vec<String> = expected.iter().map(|secret| secret.expose()).collect();
    assert_eq!(secrets("acme"), json!({"tenant": "acme", "secrets": expected}));
    assert_ne!(secrets("bolt")["secrets"], secrets("acme")["secrets"]);
    let line = stdout(&world.redial(&["webhooks", "secret", "--tenant", "acme"], ""));
    assert_eq!(line, format!("{}\n", expected[0]));
}

async fn without_the_stack_s_key(world: &World) {
    let secrets = aws_sdk_secretsmanager::Client::new(&world.stack.sdk_config());
    let id = &world.stack.description().webhook_key_secret;
    let get = of(&["subscriptions", "get"], "hooks");
    let key = |text: &str| secrets.put_secret_value().secret_id(id).secret_string(text.to_owned());
    key("k2:0123456789abcdef").send().await.expect("it is there");
    let said = world.refused(&get, "", 1);
    assert!(said.contains("UnknownKey") && !said.contains("0123456789abcdef"), "{said}");
    key("s3cret").send().await.expect("it is there");
    let said = world.refused(&get, "", 1);
    assert!(said.contains("cannot be used") && !said.contains("s3cret"), "{said}");
    let delete = secrets.delete_secret().secret_id(id).force_delete_without_recovery(true);
    delete.send().await.expect("it is there");
    let said = world.refused(&of(&["subscriptions", "put"], "hooks"), &json!({"url": URL}).to_string(), 1);
    assert!(said.contains("could not be read") && said.contains("ResourceNotFoundException"), "{said}");
}
