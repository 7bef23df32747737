//! A replay that is killed between a batch and its checkpoint, and one whose queue takes nothing.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use redial_adapters::system::System;
use redial_engine::ports::Clock as _;
use redial_testkit::proxy::{Call, Fault, FaultProxy};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::world::{World, body, letter, stderr};

const LETTERS: usize = 12;

fn sends(call: &Call) -> bool {
    call.operation == "SendMessageBatch"
}

pub(crate) async fn a_replay_that_is_killed_or_refused_goes_on_and_sends_once(world: &World) {
    let now = System.now();
    let browser = world.browser();
    let at = now.minus(Duration::from_secs(60));
    let letters: Vec<_> = (0..LETTERS).map(|n| letter("edge", &format!("e{n}"), "rejected", at)).collect();
    let bodies = letters.iter().map(|letter| body(letter, &browser, &json!({}))).collect();
    world.write(&letters, bodies, now).await;

    let proxy = FaultProxy::start(&world.stack.description().endpoint).expect("a free port");
    world.note_endpoint(proxy.url());
    let replay = "replay --tenant edge --rate 20/s";

    // Nobody may send: it ends at once, with everything still to be done.
    let denied = r#"{"__type":"AccessDenied","message":"not yours"}"#;
    proxy.when(sends, Fault::Status(400, denied.to_owned()));
    let refused = world.run(replay).await;
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    let said = stderr(&refused);
    assert!(said.contains("edge#e") && said.contains("not sent: AccessDenied: not yours"), "{said}");
    assert!(said.contains("SQS refused a whole batch"), "{said}");
    let told = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert_eq!(told, "0 of 12 dead letters sent again to here, 12 not tried\n");

    // Killed when SQS has a batch and nobody has heard of it.
    proxy.reset();
    let child = Arc::new(Mutex::new(None::<Pid>));
    let victim = Arc::clone(&child);
    let kill = move || {
        let pid = victim.lock().expect("not poisoned").expect("it was started");
        kill_process(pid, Signal::KILL).expect("it runs");
    };
    proxy.once(sends, Fault::KillAfter(Arc::new(kill)));
    let killed = {
        let mut pid = child.lock().expect("not poisoned");
        let started = world.command(replay).spawn().expect("it was built");
        *pid = Some(Pid::from_child(&started));
        started
    };
    let killed = tokio::task::spawn_blocking(move || killed.wait_with_output()).await.expect("no panic");
    assert_eq!(killed.expect("it ends").status.code(), None, "a signal ended it");
    assert!(!proxy.has_unused_faults());
    let arrived = world.push.wait_for(&browser.endpoint, 1, Duration::from_secs(60)).await;
    assert!(arrived.expect("SQS has them").len() < LETTERS);

    // An entry that fails goes again with its batch's second call.
    proxy.reset();
    proxy.once(sends, Fault::FailEntry { index: 1 });
    let resumed = world.run(&format!("{replay} --json")).await;
    let told: Value = serde_json::from_slice(&resumed.stdout).expect("JSON");
    assert_eq!((&told["sent"], &told["not_sent"]), (&json!(LETTERS), &json!(0)), "{}", stderr(&resumed));
    assert!(!proxy.has_unused_faults());
    assert_eq!(world.checkpoint(), None);
    world.push.wait_for(&browser.endpoint, LETTERS, Duration::from_secs(60)).await.expect("all arrive");
    world.until_quiet().await;
    let mut arrived: Vec<String> = world
        .push
        .received(&browser.endpoint)
        .iter()
        .map(|it| it.text().unwrap_or_default().to_owned())
        .collect();
    arrived.sort();
    let mut expected: Vec<String> = letters.iter().map(|letter| format!("s3cret {}", letter.id)).collect();
    expected.sort();
    assert_eq!(arrived, expected, "each exactly once");
    world.note_endpoint(&world.stack.description().endpoint);
}
