//! `redial audience` on a message to an audience, in the real table: how far it is, what bears its tag, and calling it off.

use std::{process::Stdio, time::Duration};

use redial_adapters::{audiences_dynamo::DynamoAudiences, system::System};
use redial_core::{
    audience::{Opening, Progress, Run, RunKey},
    body::Body,
    identity::{SubscriptionId, Turn},
    lane::Lane,
};
use redial_engine::ports::{Audiences as _, Clock as _};

use super::{Command, World, json, key, stdout};

fn run() -> Run {
    let now = System.now();
    let sent = now.as_ms();
    let body = format!(
        r#"{{"tenant":"acme","id":"autumn","ttl":3600,"to":{{"audience":{{"tag":"news","rate":"500/s"}}}},"payload":"s3cret","retry_count":0,"original_timestamp":{sent}}}"#
    );
    Run {
        key: RunKey::new(&key("autumn"), Opening { turn: Turn::default(), at: now }),
        message: key("autumn").id,
        lane: Lane::Bulk,
        body: Body::new(body),
        opened_at: now,
        kept_until: now.plus(Duration::from_secs(86_400)),
        cancelled_at: None,
    }
}

fn sent_to(ids: [&str; 2]) -> Vec<SubscriptionId> {
    ids.iter().filter_map(|id| SubscriptionId::parse(id)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audience_s_message_is_shown_as_far_as_it_is_and_called_off_once() {
    let world = World::up().await;
    let of = ["autumn", "--tenant", "acme"];
    let redial = |command: &str, more: &[&str]| {
        world.redial(&[&["audience", command], of.as_slice(), more].concat(), "")
    };

    for (command, more) in [("status", [].as_slice()), ("cancel", &["--yes"])] {
        let unknown = redial(command, more);
        assert_eq!(unknown.status.code(), Some(1), "{command}");
        let told = String::from_utf8_lossy(&unknown.stderr).into_owned();
        assert!(told.contains("no message autumn of acme to an audience was found"), "{told}");
    }

    let audiences = DynamoAudiences::new(world.dynamo(), world.stack.description().tables.audiences.clone());
    let run = run();
    audiences.open(vec![run.clone()]).await.pop().expect("one answer").expect("it is stored");
    let before = Progress::default();
    let between = before.past(&sent_to(["s1", "s2"]), 2);
    assert!(audiences.advance(&run, 3, &before, &between).await.expect("the table answers"));
    // Who was there first has moved it: nobody moves it from where it was.
    assert!(!audiences.advance(&run, 3, &before, &between).await.expect("the table answers"));
    assert!(audiences.advance(&run, 3, &between, &between.past(&[], 2)).await.expect("the table answers"));

    let shown = stdout(&redial("status", &["--count"]));
    assert!(shown.starts_with("open: 2 recipients, 1 of 16 parts done\n"), "{shown}");
    assert!(shown.contains("tag         news, at 500/s\n") && shown.contains("bear it now 0\n"), "{shown}");
    let told = json(&stdout(&redial("status", &["--json"])));
    assert_eq!(
        (&told["state"], &told["recipients"], &told["parts_done"], &told["lane"], &told["bearing"]),
        (&"open".into(), &2.into(), &1.into(), &"bulk".into(), &serde_json::Value::Null)
    );

    let nobody_to_ask = redial("cancel", &[]);
    assert_eq!(nobody_to_ask.status.code(), Some(2));
    // It is watched until it is called off.
    let arguments = ["audience", "status", "autumn", "--tenant", "acme", "--watch", "1", "--json"];
    let mut watch = Command::new(env!("CARGO_BIN_EXE_redial"));
    watch.args(arguments).args(["--state", &world.state()]).stdin(Stdio::null()).stdout(Stdio::piped());
    let watching = watch.spawn().expect("it was built");
    let off = stdout(&redial("cancel", &["--yes"]));
    assert_eq!(off, "cancelled after 2 recipients\n");
    let watched = stdout(&watching.wait_with_output().expect("it ends"));
    let last = json(watched.lines().last().expect("a line"));
    assert_eq!((&last["state"], last["cancelled_at"].is_string()), (&"cancelled".into(), true));
    let again = stdout(&redial("cancel", &["--yes"]));
    assert!(again.starts_with("already cancelled, at "), "{again}");
    assert!(![&shown, &watched, &off].iter().any(|told| told.contains("s3cret")));

    // Opened again, as after a death, it stays as it is.
    audiences.open(vec![run.clone()]).await.pop().expect("one answer").expect("that is no error");
    let standing = audiences.standing(&key("autumn")).await.expect("the table answers").expect("it is there");
    assert!(standing.run.cancelled_at.is_some());
    assert_eq!((standing.recipients(), standing.done()), (2, 1));
}

/// Stores a run as the previous release did.
async fn opened_by_the_previous_release(world: &World, id: &str) {
    use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
    let (text, run) = (|text: &str| AttributeValue::S(text.to_owned()), run());
    let table = world.stack.description().tables.audiences.clone();
    let put = world.dynamo().put_item().table_name(table);
    let put = put.item("pk", text(&format!("run#acme#{id}"))).item("sk", text("run"));
    let put = put.item("tenant", text("acme")).item("id", text(id)).item("lane", text("bulk"));
    let put = put.item("body", AttributeValue::B(Blob::new(run.body.expose())));
    let put = put.item("opened_at", AttributeValue::N(run.opened_at.as_ms().to_string()));
    let put = put.item("expires_at", AttributeValue::N(run.kept_until.as_secs().to_string()));
    put.send().await.expect("the table takes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_used_again_finds_the_run_that_was_opened_last() {
    let world = World::up().await;
    let audiences = DynamoAudiences::new(world.dynamo(), world.stack.description().tables.audiences.clone());
    let redial = |command: &str, id: &str, more: &[&str]| {
        world.redial(&[&["audience", command, id, "--tenant", "acme"], more].concat(), "")
    };
    let open = async |run: &Run| {
        audiences.open(vec![run.clone()]).await.pop().expect("one answer").expect("it is stored");
    };
    let at = |days_ago: u64| {
        let opened_at = System.now().minus(Duration::from_secs(days_ago * 86_400));
        let key = RunKey::new(&key("autumn"), Opening { turn: Turn::default(), at: opened_at });
        Run { key, opened_at, ..run() }
    };
    let (earlier, later) = (at(20), at(1));

    open(&earlier).await;
    let (before, sent) = (Progress::default(), sent_to(["s1", "s2"]));
    assert!(audiences.advance(&earlier, 3, &before, &before.past(&sent, 2)).await.expect("it answers"));
    assert_eq!(json(&stdout(&redial("status", "autumn", &["--json"])))["recipients"], 2);
    open(&later).await;
    // A hand-off of the earlier one that is repeated does not bring it back.
    open(&earlier).await;
    let shown = json(&stdout(&redial("status", "autumn", &["--json"])));
    assert_eq!((&shown["id"], &shown["recipients"]), (&"autumn".into(), &0.into()), "{shown}");
    assert!(
        audiences.advance(&later, 3, &before, &before.past(&sent, 2)).await.expect("it has parts of its own")
    );

    stdout(&redial("cancel", "autumn", &["--yes"]));
    let runs = audiences.load(vec![earlier.key.clone(), later.key.clone()], System.now()).await;
    let off =
        runs.into_iter().map(|run| run.expect("it answers").expect("it is there").cancelled_at.is_some());
    assert_eq!(off.collect::<Vec<_>>(), [false, true]);

    // What is past its expiry counts as absent, although it is still there.
    let late = later.kept_until.plus(Duration::from_secs(1));
    assert_eq!(audiences.load(vec![later.key], late).await, [Ok(None)]);

    opened_by_the_previous_release(&world, "spring").await;
    assert_eq!(json(&stdout(&redial("status", "spring", &["--json"])))["state"], "open");
    stdout(&redial("cancel", "spring", &["--yes"]));
    assert_eq!(json(&stdout(&redial("status", "spring", &["--json"])))["state"], "cancelled");
}
