//! `redial audience` on a message to an audience, in the real table: how far it is, what bears its tag, and calling it off.

use std::{process::Stdio, time::Duration};

use redial_adapters::{audiences_dynamo::DynamoAudiences, system::System};
use redial_core::{
    audience::{Progress, Run},
    deliver::Body,
    identity::SubscriptionId,
    lane::Lane,
    ports::{Audiences as _, Clock as _},
};

use super::{Command, World, json, key, stdout};

fn run() -> Run {
    let now = System.now();
    let sent = now.as_ms();
    let body = format!(
        r#"{{"tenant":"acme","id":"autumn","ttl":3600,"to":{{"audience":{{"tag":"news","rate":"500/s"}}}},"payload":"s3cret","retry_count":0,"original_timestamp":{sent}}}"#
    );
    Run {
        key: key("autumn"),
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
        assert!(told.contains("no message autumn of acme's to an audience is under way"), "{told}");
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
    assert!(shown.starts_with("open: handed on to 2 recipients, 1 of 16 parts are done\n"), "{shown}");
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
    assert_eq!(off, "called off; it was handed on to 2 recipients\n");
    let watched = stdout(&watching.wait_with_output().expect("it ends"));
    let last = json(watched.lines().last().expect("a line"));
    assert_eq!((&last["state"], last["cancelled_at"].is_string()), (&"cancelled".into(), true));
    let again = stdout(&redial("cancel", &["--yes"]));
    assert!(again.starts_with("it was called off already, at "), "{again}");
    assert!(![&shown, &watched, &off].iter().any(|told| told.contains("s3cret")));

    // Opened again, as after a death, it stays as it is.
    audiences.open(vec![run.clone()]).await.pop().expect("one answer").expect("that is no error");
    let standing = audiences.standing(&run.key).await.expect("the table answers").expect("it is there");
    assert!(standing.run.cancelled_at.is_some());
    assert_eq!((standing.recipients(), standing.done()), (2, 1));
}
