//! `redial replica keys | copy | export | import`.

use std::os::unix::fs::PermissionsExt as _;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::{
    endpoint::HashKeys,
    recipient::Recipient,
    subscription::{SameEndpoint, State},
    webhook::WebhookTarget,
};
use redial_engine::ports::{
    Found, Renewed, SubscriptionBook as _, SubscriptionHealth as _, SubscriptionUpdate,
};
use redial_testkit::proxy::{Call, Fault, FaultProxy};
use redial_tests::test_stack::renewal;

use super::Regions;
use crate::prelude::*;

const COPY: &str = "replica copy --from local:a --to local:b";
const BACK: &str = "replica copy --from local:b --to local:a";
const SECRETS: [&str; 4] =
    ["VapidSecretArn", "WebhookKeySecretId", "TokenKeySecretId", "EndpointHashSecretArn"];

fn ms(at: Timestamp) -> AttributeValue {
    AttributeValue::N(at.as_ms().to_string())
}

async fn item(stack: &TestStack, id: &str) -> Option<Item> {
    stack.item(&stack.tables().subscriptions, &[("pk", &format!("acme#{id}"))]).await
}

/// Rows of the table of audiences, by keys; those of endpoints without their versions.
async fn audiences(stack: &TestStack) -> Vec<String> {
    let rows = stack.scan(&stack.tables().audiences).await;
    let of = |row: &Item| {
        let part = |name| text(row, name).unwrap_or_default();
        format!("{} {} {} {:?}", part("pk"), part("sk"), part("id"), row.get("released_at").is_some())
    };
    let mut rows: Vec<String> = rows.iter().map(of).collect();
    rows.sort();
    rows
}

async fn count(stack: &TestStack) -> u64 {
    let store = stack.subscriptions().await;
    store.count(&subscription_key("acme", "x").tenant).await.expect("it is counted")
}

async fn renew(stack: &TestStack, id: &str, browser: &Subscriber, at: Timestamp) {
    let mut renewal = renewal("acme", id, "news", browser);
    renewal.seen_at = Some(at);
    let renewed = stack.subscriptions().await.renew(renewal, SameEndpoint::Replace, at).await;
    assert!(matches!(renewed, Ok(Renewed::New(_) | Renewed::Renewed(_))), "{renewed:?}");
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(1_800_000_000 + secs)
}

pub(super) async fn keys_are_copied_from_secret_to_secret(regions: &Regions) {
    let Regions { a, b, .. } = regions;
    let same = regions.redial("replica keys --from local:a --to local:a --yes").refused_with(2);
    assert!(same.contains("--to: expected another stack"), "{same}");
    let refused = regions.redial(COPY).refused_with(1);
    assert!(
        refused.contains("b does not have the VAPID keys of a (default): run `redial replica keys` first"),
        "{refused}"
    );

    let before = b.secret(SECRETS[0]).await;
    let compared = regions.redial("replica keys --from local:a --to local:b --dry-run --json");
    assert_eq!(compared.status, Some(1));
    let missing = |keys: &Value| -> Vec<Value> {
        keys["keys"].as_array().expect("keys").iter().map(|key| key["missing"][0].clone()).collect()
    };
    assert_eq!(missing(&compared.json()), ["default", "k1", "t1", "k1"]);
    assert_eq!(b.secret(SECRETS[0]).await, before, "a dry run changes nothing");

    let copied = regions.redial("replica keys --from local:a --to local:b --yes");
    let printed = copied.stdout.clone() + &copied.stderr;
    assert_eq!(copied.succeeds().matches("copied").count(), 4);
    for output in SECRETS {
        let secret = a.secret(output).await;
        assert_eq!(b.secret(output).await, secret, "{output}");
        assert!(!printed.contains(&secret), "{output} was printed");
    }
    regions.redial("replica keys --from local:a --to local:b --dry-run").succeeds();
}

pub(super) async fn keys_that_subscriptions_may_need_are_kept_beside_the_copied_ones(regions: &Regions) {
    let Regions { a, b, .. } = regions;
    renew(b, "needs", &a.browser(), at(0)).await;
    let copy = || regions.redial("replica keys --from local:a --to local:b --yes");
    regions.redial("vapid rotate --local a --id k2 --no-report").succeeds();
    copy().succeeds();
    regions.redial("vapid retire default --local a --yes").succeeds();
    regions.redial("vapid rotate --local a --id k3 --no-report").succeeds();
    // Another key under the same id cannot be kept, and holds back its own kind alone.
    let own = b.secret(SECRETS[1]).await;
    b.put_secret(SECRETS[1], "k1:0123456789abcdef").await;
    let refused = copy().ends_with(1);
    assert!(
        refused.contains("webhook key: not copied") && refused.contains("the same ids (k1)"),
        "{refused}"
    );
    let vapid = parsed(&b.secret(SECRETS[0]).await);
    assert_fields(&vapid, json!({"default": "k2", "current": "k3"}));
    let ids: Vec<&String> = vapid["keys"].as_object().expect("keys").keys().collect();
    assert_eq!(ids, ["default", "k2", "k3"]);
    b.put_secret(SECRETS[1], &own).await;
    copy().succeeds();
    regions.redial("replica keys --from local:a --to local:b --dry-run").succeeds();
    b.subscriptions().await.delete(&subscription_key("acme", "needs"), at(1)).await.expect("deleted");
    b.delete(&b.tables().subscriptions, &[("pk", "acme#needs")]).await;
    regions.redial("vapid retire default --local b --yes").succeeds();
}

pub(super) async fn a_copy_of_keys_that_failed_restarts_functions_when_repeated(regions: &Regions) {
    let Regions { a, b, .. } = regions;
    let proxy = FaultProxy::start(&b.description().endpoint).expect("a free port");
    regions.find_at("b", b, proxy.url());
    // The emulator keeps the time of a secret in whole seconds.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let rotated = "t2:fedcba9876543210,t1:0123456789abcdef";
    a.put_secret(SECRETS[2], rotated).await;
    let restarts =
        |call: &Call| call.operation.starts_with("PUT ") && call.operation.ends_with("/configuration");
    proxy.once(restarts, Fault::Status(403, r#"{"__type":"AccessDeniedException"}"#.to_owned()));
    let keys = "replica keys --from local:a --to local:b";
    let failed = regions.redial(&format!("{keys} --yes")).refused_with(1);
    assert!(failed.contains("UpdateFunctionConfiguration of"), "{failed}");
    assert_eq!(b.secret(SECRETS[2]).await, rotated);

    let due = regions.redial(&format!("{keys} --dry-run --json"));
    let token = &due.json()["keys"][2];
    assert_eq!((due.status, &token["same"], &token["restart"]), (Some(1), &json!(true), &json!(true)));
    let repeated = regions.redial(&format!("{keys} --yes")).succeeds();
    assert!(repeated.contains("the same; functions restarted"), "{repeated}");
    assert!(proxy.calls().iter().filter(|call| restarts(call)).count() > 1);
    regions.redial(&format!("{keys} --dry-run")).succeeds();
    regions.find_at("b", b, &b.description().endpoint);
}

pub(super) async fn every_attribute_is_copied_and_a_second_copy_changes_nothing(regions: &Regions) {
    let Regions { a, b, .. } = regions;
    let browser = a.browser();
    renew(a, "s1", &browser, at(0)).await;
    // All that an item may have besides, and what a later release may write.
    for (name, value) in [("vapid_key_id", "default"), ("later", "of another release")] {
        a.overwrite(&a.tables().subscriptions, &[("pk", "acme#s1")], name, value).await;
    }
    let mut whole = item(a, "s1").await.expect("stored");
    let times = ["flagged_at", "gone_at", "moved_at", "ends_at", "took_over_at"];
    whole.extend(times.map(|name| (name.to_owned(), ms(at(9_000_000)))));
    let put = a.dynamodb.put_item().table_name(&a.tables().subscriptions).set_item(Some(whole.clone()));
    put.send().await.expect("the table takes it");

    let hook = json!({"url": "https://partner.example/hook", "topic": "order.created", "policy": {"retry_delays": [5, 30]},
        "headers": {"authorization": "Bearer s3cret"}, "permit_headers": ["idempotency-key"], "rate": "50/s"});
    let put =
        run(&mut regions.command("subscriptions put --local a --tenant acme --id h1"), &hook.to_string());
    put.succeeds();
    let (store, h1) = (a.subscriptions().await, subscription_key("acme", "h1"));
    let Ok(Found::Stored(stored)) = store.find(&h1).await else { panic!("stored") };
    let update =
        SubscriptionUpdate { key: h1.clone(), endpoint: stored.recipient.endpoint().clone(), at: at(5) };
    redial_engine::ports::Subscriptions::failed(&store, vec![(update, 3)]).await.remove(0).expect("counted");
    renew(a, "gone", &a.browser(), at(0)).await;
    store
        .erase(
            &subscription_key("acme", "gone"),
            None,
            &HashKeys::parse("k1:0123456789abcdef").expect("valid"),
            at(1),
        )
        .await
        .expect("erased");
    regions.redial("limits set --local a tenant acme 90/h").succeeds();
    regions.redial("limits set --local a origin https://partner.example 50/s").succeeds();
    regions.redial("limits set-quota --local a acme parked 50").succeeds();
    run(&mut regions.command("policy set --local a --tenant acme -"), r#"{"max_retries": 2}"#).succeeds();
    let key = regions.json("api-keys create --local a --tenant acme --scope send");

    let copied = regions.json(COPY);
    assert_fields(&copied, json!({"done": true, "new": 3, "changed": 0, "refused": 0, "settings": 5}));
    for id in ["s1", "h1", "gone"] {
        assert_eq!(item(b, id).await, item(a, id).await, "{id}");
    }
    let names: Vec<String> = item(b, "s1").await.expect("copied").into_keys().collect();
    assert!(names.len() > 20 && names.contains(&"consent_prompt".to_owned()), "{names:?}");
    assert_eq!((count(a).await, count(b).await), (2, 2));
    assert_eq!(
        audiences(b).await.iter().filter(|row| row.contains("false")).collect::<Vec<_>>(),
        audiences(a).await.iter().filter(|row| row.contains("false")).collect::<Vec<_>>()
    );
    for command in
        ["limits list", "limits quotas acme", "policy show --tenant acme", "api-keys list --tenant acme"]
    {
        let of = |name: &str| regions.redial(&format!("{command} --local {name} --json")).stdout;
        assert_eq!(of("b"), of("a"), "{command}");
    }
    assert!(!key["id"].is_null(), "{key}");
    let shown = regions.redial("subscriptions get --local b --tenant acme --id h1 --show-keys").succeeds();
    assert!(
        shown.contains("order.created") && shown.contains("whsec_"),
        "it opens with the copied key: {shown}"
    );

    let again = regions.json(COPY);
    assert_fields(&again, json!({"new": 0, "changed": 0, "kept": 3, "settings": 0, "refused": 0}));
}

pub(super) async fn the_newer_copy_is_kept_in_both_directions(regions: &Regions) {
    let Regions { a, b, .. } = regions;
    for id in ["renewed", "off", "deleted", "again"] {
        renew(a, id, &a.browser(), at(10)).await;
    }
    assert_fields(&regions.json(COPY), json!({"new": 4, "changed": 0}));
    let old = item(a, "renewed").await;
    let browser = a.browser();
    renew(b, "renewed", &browser, at(20)).await;
    let store = b.subscriptions().await;
    let key = |id: &str| subscription_key("acme", id);
    let Ok(Found::Stored(off)) = store.find(&key("off")).await else { panic!("stored") };
    let update =
        SubscriptionUpdate { key: key("off"), endpoint: off.recipient.endpoint().clone(), at: at(20) };
    store.mark_gone(update).await.expect("switched off");
    for id in ["deleted", "again"] {
        store.delete(&key(id), at(20)).await.expect("deleted");
    }
    // In the other stack, an attempt found out something, and a browser decided.
    a.subscriptions()
        .await
        .flag(SubscriptionUpdate {
            key: key("deleted"),
            endpoint: endpoint_of(a, "deleted").await,
            at: at(30),
        })
        .await
        .expect("flagged");
    renew(a, "again", &a.browser(), at(30)).await;

    assert_fields(&regions.json(COPY), json!({"new": 0, "changed": 1}));
    let state = async |stack: &TestStack, id: &str| {
        text(&item(stack, id).await.expect("an item"), "state").map(str::to_owned)
    };
    assert_ne!(item(b, "renewed").await, old);
    assert_eq!(state(b, "off").await.as_deref(), Some(State::Gone.label()));
    assert_eq!(state(b, "deleted").await.as_deref(), Some("deleted"));
    assert_eq!(state(b, "again").await.as_deref(), Some("active"));

    regions.json(BACK);
    for id in ["renewed", "off", "deleted", "again"] {
        assert_eq!(item(a, id).await, item(b, id).await, "{id}");
    }
    assert_eq!(count(a).await, count(b).await);

    // An endpoint that has moved to another id belongs to that one in both.
    renew(b, "heir", &browser, at(40)).await;
    regions.json(BACK);
    assert_eq!(state(a, "renewed").await.as_deref(), Some("deleted"));
    assert_eq!(item(a, "heir").await, item(b, "heir").await);
    assert_fields(&regions.json(COPY), json!({"new": 0, "changed": 0}));
    assert_eq!(count(a).await, count(b).await);
}

async fn endpoint_of(stack: &TestStack, id: &str) -> redial_core::endpoint::Endpoint {
    let found = stack.subscriptions().await.find(&subscription_key("acme", id)).await;
    let Ok(Found::Stored(stored)) = found else { panic!("{id} is stored") };
    stored.recipient.endpoint().clone()
}

pub(super) async fn a_person_who_was_erased_does_not_come_back(regions: &Regions) {
    let Regions { a, b, .. } = regions;
    let key = |id: &str| subscription_key("acme", id);
    for id in ["person", "other"] {
        renew(a, id, &a.browser(), at(50)).await;
    }
    regions.json(COPY);
    b.subscriptions().await.mark_erased(&key("person"), at(60), at(60)).await.expect("marked");
    a.subscriptions().await.mark_erased(&key("other"), at(60), at(60)).await.expect("marked");
    // A browser that renews in the other stack does not bring the person back.
    renew(a, "person", &a.browser(), at(70)).await;
    regions.json(COPY);
    for (id, by) in [("person", "in this stack"), ("other", "in the other stack")] {
        let left = item(b, id).await.expect("a mark");
        assert!(left.contains_key("erased_at") && !left.contains_key("endpoint"), "{id} was erased {by}");
    }
    regions.json(BACK);
    assert!(!item(a, "person").await.expect("a mark").contains_key("endpoint"), "the erasure spreads");
    // Stored again, it is another subscription.
    renew(a, "person", &a.browser(), at(80)).await;
    regions.json(COPY);
    assert_eq!(item(b, "person").await, item(a, "person").await);
}

pub(super) async fn a_revoked_key_stays_revoked(regions: &Regions) {
    let create = |stack: &str| {
        let key = regions.json(&format!("api-keys create --local {stack} --tenant bolt --scope send"));
        key["id"].as_str().expect("an id").to_owned()
    };
    let [here, there] = [create("a"), create("a")];
    regions.json(COPY);
    regions.redial(&format!("api-keys revoke {here} --local a --yes")).succeeds();
    regions.redial(&format!("api-keys revoke {there} --local b --yes")).succeeds();
    assert_fields(&regions.json(COPY), json!({"settings": 1}));
    let keys = regions.json("api-keys list --local b --tenant bolt");
    let all = keys["keys"].as_array().unwrap_or_else(|| panic!("{keys}"));
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|key| !key["revoked_at"].is_null()), "{keys}");
}

pub(super) async fn a_file_is_as_good_as_a_copy(regions: &Regions) {
    let Regions { a, b, folder } = regions;
    renew(a, "in-a-file", &a.browser(), at(90)).await;
    let sealed = Recipient::Webhook(WebhookTarget::at(
        redial_core::endpoint::Endpoint::parse("https://partner.example/sealed").expect("valid"),
    ));
    a.subscribe("sealed", sealed).await;
    let file = folder.path().join("a.ndjson");
    let exported = regions.redial(&format!("replica export {} --local a", file.display()));
    assert!(exported.stderr.contains("rows of a exported"), "{exported:?}");
    assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    let lines = std::fs::read_to_string(&file).expect("text");
    for output in SECRETS {
        assert!(!lines.contains(&a.secret(output).await), "{output} is in the file");
    }
    assert!(!lines.contains("whsec_"));
    let import = format!("replica import {} --local b", file.display());
    let imported = regions.json(&import);
    assert_fields(&imported, json!({"done": true, "new": 2, "changed": 0, "refused": 0}));
    assert_eq!(item(b, "in-a-file").await, item(a, "in-a-file").await);
    assert_fields(&regions.json(&import), json!({"new": 0, "changed": 0, "settings": 0}));

    // What was cut off between two lines is refused as a whole.
    let cut = folder.path().join("cut.ndjson");
    let (rows, _) = lines.trim_end().rsplit_once('\n').expect("rows before their number");
    let (fewer, _) = rows.rsplit_once('\n').expect("several rows");
    for text in [rows.to_owned(), lines.replace(rows, fewer)] {
        std::fs::write(&cut, text + "\n").expect("writable");
        let refused = regions.redial(&format!("replica import {} --local b", cut.display())).refused_with(2);
        assert!(refused.contains("it is not the whole export, and nothing was imported"), "{refused}");
    }

    // What is wrong is refused by number and id, and never shown.
    let (header, _) = lines.split_once('\n').expect("a header");
    let wrong = folder.path().join("wrong.ndjson");
    let foreign = lines.lines().find(|line| line.contains("partner.example/sealed")).expect("a webhook");
    let foreign = foreign.replace("acme#sealed", "acme#moved").replace(r#""S":"sealed"}"#, r#""S":"moved"}"#);
    std::fs::write(&wrong, format!("{header}\ns3cret\n{foreign}\n{{\"redial_replica_rows\":2}}\n"))
        .expect("writable");
    let refused = regions.redial(&format!("replica import {} --local b --json", wrong.display()));
    assert_eq!((refused.status, &refused.json()["refused"]), (Some(1), &json!(2)));
    assert!(refused.stderr.contains("line 2: expected {\"kind\""), "{refused:?}");
    assert!(refused.stderr.contains("acme#moved: its webhook's secrets are sealed"), "{refused:?}");
    assert!(!refused.stderr.contains("s3cret"));
    std::fs::write(&wrong, "{}\n").expect("writable");
    let refused = regions.redial(&format!("replica import {} --local b", wrong.display())).refused_with(2);
    assert!(refused.contains("line 1: expected the header"), "{refused}");
}
