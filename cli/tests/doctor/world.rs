//! A stack as the template makes it, and the command that examines it.

#[path = "../shared/noted.rs"]
mod noted;
#[path = "../shared/placeholders.rs"]
mod placeholders;

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

pub(crate) use noted::note;
use placeholders::placeholders;
use redial::local::{Options, Stack};
use serde_json::Value;

/// A stack, and a folder in which the command line finds it.
pub(crate) struct World {
    pub(crate) stack: Stack,
    folder: tempfile::TempDir,
}

impl World {
    /// Brings one up. Its functions are placeholders: nothing is sent, and the code is not what is examined.
    pub(crate) async fn up() -> Self {
        let bootstraps = tempfile::tempdir().expect("a temporary folder");
        placeholders(bootstraps.path());
        let options = Options { bootstraps: Some(bootstraps.path().to_owned()), ..Options::default() };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let stack = Stack::up(options).await.unwrap_or_else(|error| panic!("the stack comes up: {error}"));
        note(folder.path(), stack.description());
        Self { stack, folder }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        command(self.folder.path(), arguments)
    }

    pub(crate) fn redial(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it was built")
    }
}

pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.args(arguments).arg("--state").arg(folder.join("state")).stdin(Stdio::null());
    command
}

pub(crate) fn json(output: &Output) -> Value {
    let text = stdout(output);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text} {}", stderr(output)))
}

/// All findings of that severity.
pub(crate) fn found(shown: &Value, severity: &str) -> Vec<String> {
    let checks = shown["checks"].as_array().expect("checks");
    let findings = checks.iter().flat_map(|check| check["findings"].as_array().expect("findings"));
    let of_it = findings.filter(|finding| finding["severity"] == severity);
    of_it
        .map(|finding| {
            assert!(finding["do"].as_str().is_some_and(|advice| !advice.is_empty()), "{finding}");
            finding["found"].as_str().expect("words").to_owned()
        })
        .collect()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
