//! What a stack has made at its parts, and its removal.
//!
//! The emulator writes down what it is about to make, and `emulator_parts.py` removes what is written there.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use super::LocalError;

/// What the emulator writes down before it makes something at a part.
const MADE: &str = "made.jsonl";
const PROGRAM: &str = "emulator_parts.py";
/// Its exit status if what it could not remove is at servers that do not listen.
const ENDED: i32 = 3;

/// What became of the things that a stack had made at parts.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Removed {
    /// There are none, or no more.
    All,
    /// Some were at servers that do not run any more: which, and where.
    WithTheirServers(String),
}

/// Removes what the stack of this folder has made at parts, if it has: also that of an emulator that was killed.
pub(super) async fn remove(folder: &Path) -> Result<Removed, LocalError> {
    let folder = folder.to_owned();
    let removed = tokio::task::spawn_blocking(move || remove_now(&folder));
    removed.await.expect("starting a process does not panic")
}

/// The same; blocks.
pub(super) fn remove_now(folder: &Path) -> Result<Removed, LocalError> {
    let program = folder.join(PROGRAM);
    if !folder.join(MADE).exists() || !program.exists() {
        return Ok(Removed::All);
    }
    let python = redial_toolchain::python().map_err(LocalError::NoPython)?;
    let done = Command::new(python).arg("-I").arg(&program).arg(folder).stdin(Stdio::null()).output();
    let done = done.map_err(|error| LocalError::PartsLeft { left: error.to_string() })?;
    let left = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).trim_end().to_owned();
    match done.status.code() {
        Some(0) => Ok(Removed::All),
        Some(ENDED) => Ok(Removed::WithTheirServers(left)),
        Some(_) | None => Err(LocalError::PartsLeft { left }),
    }
}
