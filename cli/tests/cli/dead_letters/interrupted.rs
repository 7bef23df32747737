//! A replay that is killed between a batch and its checkpoint, and one whose queue takes nothing.

use std::sync::{Arc, Mutex};

use redial_testkit::proxy::{Call, Fault, FaultProxy};
use rustix::process::{Pid, Signal, kill_process};

use super::Harness;
use crate::prelude::*;

const DEAD_LETTERS: usize = 12;

fn sends(call: &Call) -> bool {
    call.operation == "SendMessageBatch"
}

pub(super) async fn a_killed_or_refused_replay_goes_on_and_sends_once(harness: &Harness) {
    let stack = &harness.stack;
    let browser = harness.write_rejected("edge", "e", DEAD_LETTERS).await;
    let proxy = FaultProxy::start(&stack.description().endpoint).expect("a free port");
    stack.register_at(proxy.url());
    let replay = "replay --tenant edge --rate 20/s";

    // Without permission to send it ends at once, with everything left to do.
    let denied = r#"{"__type":"AccessDenied","message":"not yours"}"#;
    proxy.when(sends, Fault::Status(400, denied.to_owned()));
    let refused = harness.run(replay);
    assert_eq!(refused.stdout, "0 of 12 dead letters sent again to here, 12 not tried\n");
    let said = refused.ends_with(1);
    for words in ["edge#e", "not sent: AccessDenied: not yours", "SQS refused a whole batch"] {
        assert!(said.contains(words), "{said}");
    }

    // Killed when SQS has taken a batch and the answer is on its way.
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
        let killed = started(&mut stack.command(format!("dead-letters {replay}")));
        *pid = Some(Pid::from_child(&killed));
        killed
    };
    let killed = killed.wait_with_output().expect("it ends");
    assert_eq!(killed.status.code(), None, "a signal ended it");
    assert!(!proxy.has_unused_faults());
    assert!(stack.received(&browser, 1).await.len() < DEAD_LETTERS);

    // An entry that fails goes again with its batch's second call.
    proxy.reset();
    proxy.once(sends, Fault::FailEntry { index: 1 });
    assert_fields(&harness.json(replay), json!({"sent": DEAD_LETTERS, "not_sent": 0}));
    assert!(!proxy.has_unused_faults());
    assert_eq!(harness.checkpoint(), None);
    stack.received(&browser, DEAD_LETTERS).await;
    stack.until_quiet().await;
    let mut expected: Vec<_> = (0..DEAD_LETTERS).map(|n| format!("s3cret e{n}")).collect();
    expected.sort();
    assert_eq!(harness.texts(&browser), expected, "each exactly once");
    stack.register_at(&stack.description().endpoint);
}

pub(super) async fn what_is_refused_is_retried_and_what_is_not_marked_is_counted(harness: &Harness) {
    let stack = &harness.stack;
    let browser = harness.write_rejected("again", "a", 4).await;
    let proxy = FaultProxy::start(&stack.description().endpoint).expect("a free port");
    stack.register_at(proxy.url());

    // One of four is never taken.
    proxy.when(sends, Fault::FailEntry { index: 0 });
    let marks =
        |call: &Call| call.operation == "UpdateItem" && call.body.windows(11).any(|it| it == b"replayed_at");
    proxy.once(marks, Fault::Status(400, r#"{"__type":"AccessDeniedException","message":"no"}"#.to_owned()));
    let replay = "replay --tenant again --rate 20/s";
    let refused = harness.run(&format!("{replay} --since 1h --json"));
    assert_fields(&refused.json(), json!({"sent": 3, "not_sent": 1, "unmarked": 1}));
    let said = refused.ends_with(1);
    assert!(said.contains("1 of those that were sent could not be marked"), "{said}");
    let (_, times) = said.split_once("the same command with ").expect("how to retry them");
    let (times, _) = times.split_once(" to retry").expect("what it does");

    proxy.reset();
    let retried = harness.json(&format!("{replay} {times}"));
    assert_fields(
        &retried,
        json!({"sent": 2, "not_sent": 0, "unmarked": 0, "skipped": {"replayed_before": 2}}),
    );
    stack.received(&browser, 4).await;
    stack.until_quiet().await;
    assert_eq!(harness.texts(&browser).len(), 4, "each exactly once");
    stack.register_at(&stack.description().endpoint);
}
