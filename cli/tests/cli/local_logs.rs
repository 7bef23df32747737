//! `redial local logs`: what the functions of a stack that `local up` started have printed.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
};

use redial_tests::test_stack::placeholders;

use crate::prelude::*;

/// The functions are placeholders, and dispatch says this for each of its starts.
const OWN_WORDS: &str = "Error: invalid configuration: the moon is missing";

#[test]
fn local_logs_prints_what_a_function_printed_and_follows_it() {
    let (bootstraps, folder) = (placeholders(), tempfile::tempdir().expect("a temporary folder"));
    let dispatch = bootstraps.path().join("dispatch");
    fs::write(&dispatch, format!("#!/bin/sh\necho '{OWN_WORDS}' >&2\nexit 3\n")).expect("it is ours");
    fs::set_permissions(&dispatch, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let redial = |arguments: &str| run(&mut unregistered(arguments, folder.path()), "");
    redial(&format!("local up --json --name logged --bootstraps {}", bootstraps.path().display())).succeeds();

    let nothing = redial("local logs --name logged").refused_with(0);
    assert_eq!(nothing, "nothing was logged within 10m; --since 2h looks further back\n");
    let (follow, others) = ("local logs dispatch --follow --name logged", "local logs cleanup --name logged");
    let mut following = started(&mut unregistered(follow, folder.path()));
    let mut lines = BufReader::new(following.stdout.take().expect("piped")).lines();
    redial("send --tenant acme --to s1 --payload hello --local logged").succeeds();
    let line = lines.by_ref().map(|line| line.expect("text")).find(|line| line.contains(OWN_WORDS));
    let line = line.expect("dispatch tried to start");
    assert!(line[..24].ends_with('Z') && line[25..].starts_with("dispatch "), "{line}");
    interrupt(&following);
    assert_eq!(following.wait().expect("it ends").code(), Some(0));

    assert!(redial("local logs --name logged").succeeds().contains(OWN_WORDS));
    let nothing = redial(others).refused_with(0);
    assert!(nothing.starts_with("nothing was logged"), "{nothing}");
    redial("local down --name logged").succeeds();
    let gone = redial("local logs --name logged").refused_with(1);
    assert!(gone.contains("no stack named logged is up"), "{gone}");
}
