//! The question that `purge` asks at a terminal: a real one, of which the test holds the other end.

use std::{
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    process::Output,
};

use super::Harness;
use crate::{prelude::*, terminal::terminal};

const QUESTION: &str = "Type yes to confirm:";

/// Ctrl-D, which ends the input where a line begins.
const END: &str = "\u{4}";

/// Purges the tenant's dead letters at a terminal: waits for the question, and answers.
fn purge(harness: &Harness, answer: &str) -> Done {
    let (mut person, terminal) = terminal();
    let mut command = harness.stack.command("dead-letters purge --tenant fern");
    let mut child = started(command.stdin(OwnedFd::from(terminal)));
    // The command's copy of the terminal goes with it.
    drop(command);
    let (mut said, mut buffer) = (Vec::new(), [0; 1024]);
    let mut errors = child.stderr.take().expect("piped");
    while !String::from_utf8_lossy(&said).contains(QUESTION) {
        let read = errors.read(&mut buffer).expect("a pipe");
        assert!(read > 0, "it does not ask: {}", String::from_utf8_lossy(&said));
        said.extend_from_slice(&buffer[..read]);
    }
    person.write_all(answer.as_bytes()).expect("the terminal takes it");
    errors.read_to_end(&mut said).expect("a pipe");
    Output { stderr: said, ..child.wait_with_output().expect("it ends") }.into()
}

pub(super) async fn purge_removes_only_after_a_yes_at_the_terminal(harness: &Harness) {
    harness.write_rejected("fern", "f", 3).await;
    let before = harness.stored().await;
    for answer in ["no\n", "\n", "yes, but later\n", END] {
        let said = purge(harness, answer).refused_with(1);
        for words in ["fern    rejected             3", "Remove 3 dead letters from here"] {
            assert!(said.contains(words), "{answer:?}: {said}");
        }
        assert!(said.ends_with("nothing was removed\n"), "{answer:?}: {said}");
        assert_eq!(harness.stored().await, before, "{answer:?}");
    }
    let said = harness.run("purge --tenant fern").refused_with(2);
    assert!(!said.contains(QUESTION) && said.contains("--yes"), "without a terminal: {said}");
    assert_eq!(harness.stored().await, before);

    assert_eq!(purge(harness, "yes\n").succeeds(), "3 dead letters removed\n");
    let mut left = before;
    left.retain(|(pk, _)| !pk.starts_with("fern#"));
    assert_eq!(harness.stored().await, left);
}
