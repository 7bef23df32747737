//! What the commands refuse before they ask any stack.

use std::process::{Command, Stdio};

#[test]
fn what_cannot_be_used_is_told_with_status_2() {
    for (arguments, words) in [
        (&["vapid", "rotate", "--id", "a b"][..], "1 to 64 letters"),
        (&["vapid", "retire"], "<ID>"),
        (&["vapid", "retire", "k1"], "--yes"),
        (&["hash-key", "rotate", "--id", "a:b"], "1 to 32 letters"),
        (&["hash-key", "retire"], "<ID>"),
        (&["hash-key", "status", "--stack", "a", "--local", "b"], "--local"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
        let done = command.args(arguments).stdin(Stdio::null()).output().expect("it was built");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words) && done.stdout.is_empty(), "{arguments:?}: {said}");
    }
}
