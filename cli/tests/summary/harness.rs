//! A stack, and the command that works on it.

#[path = "../shared/noted.rs"]
mod noted;
#[path = "../shared/placeholders.rs"]
mod placeholders;

use std::{
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

pub(crate) use noted::note;
use placeholders::placeholders;
use redial::local::{Options, Stack};
use serde_json::Value;

/// A stack, and a folder in which the command line finds it.
pub(crate) struct Harness {
    pub(crate) stack: Stack,
    folder: tempfile::TempDir,
}

impl Harness {
    /// Brings one up whose functions are placeholders and whose queues no function reads.
    pub(crate) async fn up() -> Self {
        let bootstraps = tempfile::tempdir().expect("a temporary folder");
        placeholders(bootstraps.path());
        let options = Options { bootstraps: Some(bootstraps.path().to_owned()), ..Options::default() };
        let harness = Self::with(options).await;
        let lambda = aws_sdk_lambda::Client::new(&harness.stack.sdk_config());
        let mappings = lambda.list_event_source_mappings().send().await.expect("deployed");
        for mapping in mappings.event_source_mappings() {
            let uuid = mapping.uuid().expect("it has an id");
            lambda.update_event_source_mapping().uuid(uuid).enabled(false).send().await.expect("it is there");
        }
        harness
    }

    /// Brings one up.
    pub(crate) async fn with(options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let stack = Stack::up(options).await.unwrap_or_else(|error| panic!("the stack comes up: {error}"));
        note(folder.path(), stack.description());
        Self { stack, folder }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        command(self.folder.path(), arguments)
    }

    /// Prints the output of a command that succeeds.
    pub(crate) fn shown(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("it was built");
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    }

    /// The summary's document.
    pub(crate) fn document(&self) -> Value {
        document(&self.shown(&["status", "--summary", "--json"]))
    }

    pub(crate) async fn until(&self, expected: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..180 {
            let document = self.document();
            if is_so(&document) {
                return document;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("not so in time: {expected}: {:#}\n{}", self.document(), self.stack.log());
    }

    pub(crate) fn dynamo(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.stack.sdk_config())
    }

    pub(crate) fn sqs(&self) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(&self.stack.sdk_config())
    }
}

pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.args(arguments).arg("--state").arg(folder.join("state")).stdin(Stdio::null());
    command
}

pub(crate) fn document(text: &str) -> Value {
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// One of the document's queues.
pub(crate) fn queue<'a>(document: &'a Value, lane: Option<&str>, queue: &str) -> &'a Value {
    let queues = document["queues"].as_array().expect("a list");
    queues.iter().find(|it| it["lane"].as_str() == lane && it["queue"] == queue).expect("it is there")
}

/// The parked messages of a lane that are due within a time.
pub(crate) fn parked<'a>(document: &'a Value, lane: &str, within: &str) -> &'a Value {
    let lanes = document["parked"]["lanes"].as_array().expect("a list");
    let lane = lanes.iter().find(|it| it["lane"] == lane).expect("it is there");
    lane["due"].as_array().expect("a list").iter().find(|it| it["within"] == within).expect("it is there")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
