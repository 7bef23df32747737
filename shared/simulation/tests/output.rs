//! What `cargo sim` writes.

use std::io;
use std::process::{Command, Stdio};

#[test]
fn a_replay_whose_reader_has_closed_the_pipe_ends_as_without() {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let mut sim = Command::new(env!("CARGO_BIN_EXE_sim"));
    let replay = sim.args(["replay", "1"]).stdout(writer).stderr(Stdio::piped()).output();
    let replay = replay.expect("it starts");
    assert_eq!(String::from_utf8_lossy(&replay.stderr), "");
    assert!(replay.status.success(), "{}", replay.status);
}
