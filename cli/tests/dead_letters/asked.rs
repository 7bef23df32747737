//! The question that `purge` asks at a terminal: a real one, of which the test holds the other end.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    },
    process::{Command, Output},
    time::Duration,
};

use redial_adapters::system::System;
use redial_engine::ports::Clock as _;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::world::{World, body, letter, stderr, stdout};

const QUESTION: &str = "Type yes to confirm:";

/// What ends the input where a line begins: Ctrl-D.
const END: &str = "\u{4}";

/// A terminal: the end where a person sits, and the end that a command is given.
fn terminal() -> (File, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal is to be had");
    grantpt(&person).expect("it is ours");
    unlockpt(&person).expect("it is ours");
    let name = ptsname(&person, Vec::new()).expect("it has a name");
    let no_controlling = i32::try_from(OpenptFlags::NOCTTY.bits()).expect("a flag of open(2)");
    let other = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(no_controlling)
        .open(std::ffi::OsStr::from_bytes(name.as_bytes()))
        .expect("it is ours");
    (File::from(person), other)
}

/// Runs a command at a terminal, waits until it asks, and answers.
fn answered(mut command: Command, answer: &str) -> Output {
    let (mut person, other) = terminal();
    let mut child = command.stdin(OwnedFd::from(other)).spawn().expect("it was built");
    drop(command);
    let mut said = Vec::new();
    let mut errors = child.stderr.take().expect("a pipe");
    let mut buffer = [0; 1024];
    while !String::from_utf8_lossy(&said).contains(QUESTION) {
        let read = errors.read(&mut buffer).expect("a pipe");
        assert!(read > 0, "it does not ask: {}", String::from_utf8_lossy(&said));
        said.extend_from_slice(&buffer[..read]);
    }
    person.write_all(answer.as_bytes()).expect("the terminal takes it");
    errors.read_to_end(&mut said).expect("a pipe");
    let done = child.wait_with_output().expect("it ends");
    Output { stderr: said, ..done }
}

async fn purge(world: &World, arguments: &'static str, answer: &'static str) -> Output {
    let command = world.command(arguments);
    tokio::task::spawn_blocking(move || answered(command, answer)).await.expect("it does not panic")
}

pub(crate) async fn purge_asks_at_a_terminal_and_removes_only_after_a_yes(world: &World) {
    let now = System.now();
    let browser = world.browser();
    let at = now.minus(Duration::from_secs(60));
    let letters: Vec<_> = (0..3).map(|n| letter("fern", &format!("f{n}"), "rejected", at)).collect();
    let bodies = letters.iter().map(|letter| body(letter, &browser, &json!({}))).collect();
    world.write(&letters, bodies, now).await;
    let before = world.stored().await;

    for answer in ["no\n", "\n", "yes, but later\n", END] {
        let done = purge(world, "purge --tenant fern", answer).await;
        let said = stderr(&done);
        assert_eq!(done.status.code(), Some(1), "{answer:?}: {said}");
        assert!(said.contains("fern    rejected        3"), "{answer:?}: {said}");
        assert!(said.contains("Remove 3 letters from here"), "{answer:?}: {said}");
        assert!(said.ends_with("nothing was removed\n") && done.stdout.is_empty(), "{answer:?}: {said}");
        assert_eq!(world.stored().await, before, "{answer:?}");
    }

    // Where there is no terminal nobody is asked.
    let refused = world.run("purge --tenant fern").await;
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        !stderr(&refused).contains(QUESTION) && stderr(&refused).contains("--yes"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(world.stored().await, before);

    let done = purge(world, "purge --tenant fern", "yes\n").await;
    assert_eq!(stdout(&done), "3 dead letters removed\n");
    let mut left = before;
    left.retain(|(pk, _)| !pk.starts_with("fern#"));
    assert_eq!(world.stored().await, left);
}
