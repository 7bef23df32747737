//! `redial vapid rotate | status | retire`.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial_testkit::push_service::{Answered, Received};
use serde_json::{Value, json};

use super::world::{World, stderr};

const SECRET: &str = "VapidSecretArn";

/// The push service took it, and it was signed with that key.
fn assert_signed(received: &Received, public_key: &str) {
    assert_eq!((received.problems.len(), received.answered), (0, Answered::Status(201)), "{received:?}");
    assert_eq!(
        received.vapid_key.as_deref().map(|key| URL_SAFE_NO_PAD.encode(key)).as_deref(),
        Some(public_key)
    );
}

fn row(report: &Value, id: &str) -> Value {
    let keys = report["keys"].as_array().unwrap_or_else(|| panic!("a report: {report}"));
    keys.iter().find(|it| it["id"] == id).unwrap_or_else(|| panic!("{id} in {report}")).clone()
}

pub(crate) async fn both_keys_sign_each_for_its_own_and_the_old_one_goes_when_nobody_needs_it(world: &World) {
    let old = world.stack.description().vapid_public_key.clone();
    let before = world.secret(SECRET).await;
    let early = world.subscribed("early", &old, None);
    world.send("m1", "early", "before").await;
    assert_signed(&world.received(&early, 1).await[0], &old);

    // Nothing is changed by asking.
    let plan = world.answer(&["vapid", "rotate", "--dry-run", "--id", "k2"]);
    assert_eq!(
        (&plan["public_key"], &plan["dry_run"], &row(&plan, "default")["active"]),
        (&Value::Null, &json!(true), &json!(1))
    );
    assert_eq!(world.secret(SECRET).await, before);

    let rotated = world.answer(&["vapid", "rotate", "--id", "k2"]);
    let new = rotated["public_key"].as_str().expect("a key").to_owned();
    assert_eq!((&rotated["default"], &rotated["current"]), (&json!("default"), &json!("k2")));
    assert_eq!((&row(&rotated, "default")["active"], &row(&rotated, "k2")["active"]), (&json!(1), &json!(0)));
    assert_eq!(row(&rotated, "k2")["public_key"], new.as_str());
    assert_eq!(world.labels(SECRET).await, ["AWSCURRENT", "AWSPREVIOUS"], "no label of ours is left");
    let listed = world.listed_keys().await;
    assert_eq!(
        (&listed["current"], &listed["keys"][1]["public_key"]),
        (&json!("k2"), &json!(new)),
        "{listed}"
    );

    // The workers are warm, and have read the secret before.
    let late = world.subscribed("late", &new, Some("k2"));
    world.send("m2", "late", "after").await;
    world.send("m3", "early", "after").await;
    assert_signed(&world.received(&late, 1).await[0], &new);
    assert_signed(&world.received(&early, 2).await[1], &old);

    let status = world.answer(&["vapid", "status"]);
    let of = |id: &str| {
        let row = row(&status, id);
        [&row["active"], &row["flagged"], &row["off"]].map(|it| it.as_u64().expect("a number"))
    };
    assert_eq!((of("default"), of("k2")), ([1, 0, 0], [1, 0, 0]));
    let shown = world.redial(&["vapid", "status"]);
    let table = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success() && table.contains(&old) && table.contains(&new), "{table}");
    its_doctor_finds_the_keys_well(world);

    several_rotations_at_once_lose_no_key(world).await;
    what_is_needed_is_not_retired(world).await;
    let mut keys = private_keys(&before);
    keys.extend(private_keys(&world.secret(SECRET).await));
    what_nobody_needs_is_retired(world).await;
    world.send("m4", "late", "at last").await;
    assert_signed(&world.received(&late, 2).await[1], &new);
    a_stack_whose_key_is_elsewhere_is_told_what_to_do(world).await;
    world.nobody_has_printed(&keys).await;
    assert_eq!(world.stack.poller_failure(), None);
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

fn its_doctor_finds_the_keys_well(world: &World) {
    let doctor = world.redial(&["doctor", "--json"]);
    let doctor: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let checks = doctor["checks"].as_array().expect("checks");
    let keys = checks.iter().find(|check| check["check"] == "keys").expect("it looks at them");
    assert_eq!((&keys["ok"], &keys["unchecked"]), (&json!(true), &json!([])), "{keys}");
}

async fn several_rotations_at_once_lose_no_key(world: &World) {
    let ids = ["k3", "k4", "k5"];
    let children: Vec<_> = ids
        .map(|id| {
            world.command(&["vapid", "rotate", "--no-report", "--id", id]).spawn().expect("it was built")
        })
        .into();
    for child in children {
        let output = world.heard(child.wait_with_output().expect("it ends"));
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let status = world.answer(&["vapid", "status"]);
    for id in ids {
        assert!(row(&status, id)["public_key"].is_string(), "{status}");
    }
    let keys = status["keys"].as_array().expect("keys");
    assert_eq!(keys.iter().filter(|key| key["current"] == true).count(), 1);
    assert_eq!(row(&status, "default")["default"], true);
    assert!(world.refusal(2, &["vapid", "rotate", "--id", "k3"]).contains("there already"));
}

async fn what_is_needed_is_not_retired(world: &World) {
    let before = world.secret(SECRET).await;
    let current = world.answer(&["vapid", "status"]);
    let current =
        current["keys"].as_array().expect("keys").iter().find(|key| key["current"] == true).cloned();
    let current = current.expect("there is one")["id"].as_str().expect("text").to_owned();
    let retire = |id: &str, status| world.refusal(status, &["vapid", "retire", id, "--yes"]);
    assert!(retire("k2", 1).contains("k2 stays: 1 active"), "{}", retire("k2", 1));
    assert!(retire("default", 1).contains("1 active subscriptions that name no key"));
    assert!(retire(&current, 1).contains("it is the current key"));
    assert!(retire("k9", 2).contains("no key of that id"));
    assert_eq!(world.secret(SECRET).await, before);
}

async fn what_nobody_needs_is_retired(world: &World) {
    world.forget_subscription("early").await;
    let retired = world.answer(&["vapid", "retire", "default", "--yes"]);
    assert_eq!(retired["default"], retired["current"], "it takes the place of the default");
    // What was listed before stands for half a minute in a worker that was asked.
    let listed = world.published_ids().await;
    assert!(!listed.contains(&"default".to_owned()) && listed.contains(&"k2".to_owned()), "{listed:?}");
    let left = retired["keys"].as_array().expect("ids");
    assert!(!left.contains(&json!("default")) && left.contains(&json!("k2")), "{retired}");
    // A subscription whose key is not there is told.
    world.subscribed("stranded", &world.stack.description().vapid_public_key, Some("default"));
    let told = world.refusal(1, &["vapid", "status"]);
    assert!(told.contains("1 active subscriptions name a key that the stack does not have"), "{told}");
}

async fn a_stack_whose_key_is_elsewhere_is_told_what_to_do(world: &World) {
    let lambda = aws_sdk_lambda::Client::new(&world.stack.sdk_config());
    let function = &world.stack.description().functions.dispatch;
    let configuration = lambda.get_function_configuration().function_name(function).send().await;
    let mut variables =
        configuration.expect("deployed").environment.expect("it has one").variables.expect("it has some");
    variables.insert("VAPID_PRIVATE_KEY".to_owned(), "something".to_owned());
    let environment = aws_sdk_lambda::types::Environment::builder().set_variables(Some(variables)).build();
    let update = lambda.update_function_configuration().function_name(function).environment(environment);
    update.send().await.expect("it is deployed");
    let told = world.refusal(1, &["vapid", "rotate"]);
    assert!(told.contains("VAPID_PRIVATE_KEY") && told.contains("redial vapid generate"), "{told}");
}
