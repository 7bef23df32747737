//! A stack, and the command that works on it.

#[path = "../shared/noted.rs"]
mod noted;
#[path = "../shared/placeholders.rs"]
mod placeholders;

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use noted::note;
use placeholders::placeholders;
use redial::local::{Options, Stack};
use redial_adapters::protection_dynamo::DynamoProtection;
use redial_core::endpoint::Origin;
use serde_json::Value;

/// A stack, and a folder in which the command line finds it.
pub(crate) struct World {
    pub(crate) stack: Stack,
    folder: tempfile::TempDir,
}

impl World {
    /// Brings one up whose functions are placeholders, so that what is sent stays where it was put.
    pub(crate) async fn up() -> Self {
        let bootstraps = tempfile::tempdir().expect("a temporary folder");
        placeholders(bootstraps.path());
        let options = Options { bootstraps: Some(bootstraps.path().to_owned()), ..Options::default() };
        let world = Self::with(options).await;
        let lambda = aws_sdk_lambda::Client::new(&world.stack.sdk_config());
        let mappings = lambda.list_event_source_mappings().send().await.expect("deployed");
        for mapping in mappings.event_source_mappings() {
            let uuid = mapping.uuid().expect("it has an id");
            lambda.update_event_source_mapping().uuid(uuid).enabled(false).send().await.expect("it is there");
        }
        world
    }

    /// Brings one up.
    pub(crate) async fn with(options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let stack = Stack::up(options).await.unwrap_or_else(|error| panic!("the stack comes up: {error}"));
        note(folder.path(), stack.description());
        Self { stack, folder }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// A command that was not started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
        command.args(arguments).arg("--state").arg(self.state()).stdin(Stdio::null());
        command
    }

    pub(crate) fn redial(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it was built")
    }

    /// What a command prints.
    pub(crate) fn shown(&self, arguments: &[&str]) -> String {
        stdout(&self.redial(arguments))
    }

    /// What a command prints as JSON.
    pub(crate) fn answer(&self, arguments: &[&str]) -> Value {
        let shown = self.shown(&[arguments, &["--json"]].concat());
        serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {shown}"))
    }

    /// Runs lines as they stand on a page, by a shell that finds `redial` and this stack.
    pub(crate) fn shell(&self, lines: &str) -> Output {
        let bin = self.folder.path().join("bin");
        fs::create_dir_all(&bin).expect("the folder is writable");
        let (redial, state) = (env!("CARGO_BIN_EXE_redial"), self.state());
        let wrapper = format!("#!/bin/sh\nexec '{redial}' \"$@\" --state '{}'\n", state.display());
        executable(&bin.join("redial"), &wrapper);
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-e", "-s"]).env("PATH", format!("{}:{path}", bin.display()));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn().expect("there is a shell");
        child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("it reads");
        child.wait_with_output().expect("it ends")
    }

    /// The lines that dispatch has logged.
    pub(crate) async fn log(&self) -> Vec<Value> {
        let lambda = aws_sdk_lambda::Client::new(&self.stack.sdk_config());
        let dispatch = &self.stack.description().functions.dispatch;
        let dispatch = lambda.get_function_configuration().function_name(dispatch).send().await;
        let logging = dispatch.expect("it is deployed").logging_config.expect("it logs");
        let group = logging.log_group.expect("to a group of the template's");
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build();
        let asked = http
            .expect("a client for plain http")
            .post(&self.stack.description().endpoint)
            .header("x-amz-target", "Logs_20140328.FilterLogEvents")
            .header("content-type", "application/x-amz-json-1.1")
            .body(serde_json::json!({"logGroupName": group}).to_string());
        let answer = asked.send().await.expect("it answers").text().await.expect("text");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let lines = answer["events"].as_array().unwrap_or_else(|| panic!("a list of events: {answer}"));
        lines.iter().filter_map(|line| serde_json::from_str(line["message"].as_str()?).ok()).collect()
    }

    pub(crate) fn protection(&self) -> DynamoProtection {
        let client = aws_sdk_dynamodb::Client::new(&self.stack.sdk_config());
        DynamoProtection::new(client, self.stack.description().tables.control.clone())
    }
}

fn executable(path: &std::path::Path, text: &str) {
    fs::write(path, text).expect("the folder is writable");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
}

pub(crate) fn origin(text: &str) -> Origin {
    Origin::parse(text).expect("an origin")
}

pub(crate) fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
