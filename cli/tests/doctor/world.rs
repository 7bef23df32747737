//! A stack as the template makes it, and the command that examines it.

#[path = "../shared/noted.rs"]
mod noted;
#[path = "../shared/placeholders.rs"]
mod placeholders;

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use aws_sdk_cloudwatch::types::{Dimension, MetricDatum};
use aws_sdk_lambda::types::RecursiveLoop;
pub(crate) use noted::note;
use placeholders::placeholders;
use redial::local::{Description, Options, Stack};
use redial_testkit::proxy::{Call, Fault, FaultProxy};
use serde_json::{Value, json};

/// A stack, a proxy in front of it, and a folder in which the command line finds it behind that proxy.
pub(crate) struct World {
    pub(crate) stack: Stack,
    pub(crate) proxy: FaultProxy,
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
        let proxy = FaultProxy::start(&stack.description().endpoint).expect("a free port");
        note(folder.path(), &Description { endpoint: proxy.url().to_owned(), ..stack.description().clone() });
        let world = Self { stack, proxy, folder };
        let functions = &world.stack.description().functions;
        for function in [&functions.dispatch, &functions.cleanup] {
            world.set_recursion(function, RecursiveLoop::Allow).await;
        }
        world
    }

    /// The emulator's CloudFormation does not take this setting from the template.
    pub(crate) async fn set_recursion(&self, function: &str, setting: RecursiveLoop) {
        let lambda = aws_sdk_lambda::Client::new(&self.stack.sdk_config());
        let put = lambda.put_function_recursion_config().function_name(function).recursive_loop(setting);
        put.send().await.expect("the function is deployed");
    }

    /// Answers what the emulator has otherwise, or not at all, as AWS does where all is well. Answers that were planted before go first.
    pub(crate) async fn answers_as_aws(&self) {
        self.answer(is_account_settings, 200, &account_of(1_000));
        self.throttled(0).await;
    }

    /// Gives CloudWatch a number of throttled reads of the table of deliveries.
    pub(crate) async fn throttled(&self, reads: u32) {
        let table = Dimension::builder().name("TableName").value(&self.stack.description().tables.deliveries);
        let datum = MetricDatum::builder().metric_name("ReadThrottleEvents").value(reads.into());
        let cloudwatch = aws_sdk_cloudwatch::Client::new(&self.stack.sdk_config());
        let put = cloudwatch.put_metric_data().namespace("AWS/DynamoDB");
        put.metric_data(datum.dimensions(table.build()).build()).send().await.expect("it takes it");
    }

    /// Answers these calls, instead of the emulator.
    pub(crate) fn answer(
        &self,
        fits: impl Fn(&Call) -> bool + Send + Sync + 'static,
        status: u16,
        answer: &Value,
    ) {
        self.proxy.when(fits, Fault::Status(status, answer.to_string()));
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        command(self.folder.path(), arguments)
    }

    pub(crate) fn redial(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it was built")
    }
}

pub(crate) fn is_account_settings(call: &Call) -> bool {
    call.operation.contains("/account-settings")
}

pub(crate) fn is_recursion_setting(call: &Call) -> bool {
    call.operation.contains("/recursion-config")
}

pub(crate) fn is_metrics(call: &Call) -> bool {
    call.operation.ends_with("/GetMetricData")
}

/// An account with so many concurrent executions.
pub(crate) fn account_of(executions: u32) -> Value {
    json!({"AccountLimit": {
        "ConcurrentExecutions": executions, "UnreservedConcurrentExecutions": executions,
    }})
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
