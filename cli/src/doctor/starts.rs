//! Whether the functions start. One that fails to initialise receives messages and sends none, and its configuration does not show it.
//!
//! Their logs say so. What the check of the configuration finds, or that of the architecture, is not found again. A dispatch that was
//! not invoked yet proves nothing: on this machine it is invoked with no messages, and on AWS it is reported as unchecked.

use std::time::Duration;

use aws_sdk_lambda::{
    config::{Builder, retry::RetryConfig, timeout::TimeoutConfig},
    primitives::Blob,
};
use futures_util::future::join_all;
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;
use serde_json::Value;

use super::{
    functions::{has_valid_environment, is_about_the_program},
    report::Report,
    stack::{Function, Stack},
};
use crate::{
    aws_error::{AwsError, classified},
    tail::{
        group,
        init_errors::{self, InitError, Start},
    },
};

/// How far back to look if the time of the last change is unknown.
const DAY: Duration = Duration::from_secs(86_400);

/// More than initialisation may take.
const LONGEST_START: Duration = Duration::from_secs(20);

/// A batch without messages: it starts the function, and sends nothing.
const NO_MESSAGES: &str = r#"{"Records":[]}"#;

const REPAIR: &str = "repair what its own words name, and deploy again; its messages come back, and move to the quarantine after twenty receives";

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    report.well("since its last change, no function failed to initialise");
    stack.skip_unknown_functions("start", report);
    let now = System.now();
    let starts = stack.known_functions().map(async |function| {
        let group = group(&function.configuration, &function.deployed_as);
        let since = init_errors::since(&function.configuration, now.minus(DAY));
        (function, init_errors::start(&stack.target, function.name, &group, since).await)
    });
    for (function, start) in join_all(starts).await {
        match report.read(format!("the log of {}", function.name), start) {
            Some(Start::Failed(error)) => judge(function, &error, report),
            Some(Start::Silent) if function.name == "dispatch" && has_valid_environment(function) => {
                try_out(stack, function, report).await;
            }
            Some(Start::Silent | Start::Logged) | None => {}
        }
    }
}

fn judge(function: &Function, error: &InitError, report: &mut Report) {
    if !has_valid_environment(function) || is_about_the_program(&error.words) {
        return;
    }
    report.fault(format!("{} (last seen {})", error.in_words(), error.at.to_rfc3339_seconds()), REPAIR);
}

async fn try_out(stack: &Stack, function: &Function, report: &mut Report) {
    let what = format!("whether {} starts", function.name);
    if !stack.target.is_emulated() {
        return report.unchecked(what, "it has logged nothing since its last change");
    }
    let once = Builder::new().retry_config(RetryConfig::disabled()).timeout_config(
        TimeoutConfig::builder()
            .operation_attempt_timeout(LONGEST_START)
            .operation_timeout(LONGEST_START)
            .build(),
    );
    let invoke = stack.target.lambda().invoke().function_name(&function.deployed_as);
    let answer = invoke.payload(Blob::new(NO_MESSAGES)).customize().config_override(once).send().await;
    match classified("lambda:InvokeFunction", answer) {
        Ok(answer) => {
            let Some(kind) = answer.function_error() else { return };
            let payload = answer.payload().map(Blob::as_ref).unwrap_or_default();
            let body: Value = serde_json::from_slice(payload).unwrap_or_default();
            let words = body["errorMessage"].as_str().unwrap_or(kind);
            if !is_about_the_program(words) {
                let words = init_errors::shortened(words.trim_start_matches(init_errors::HERE));
                report.fault(format!("{} cannot start: {words}", function.name), REPAIR);
            }
        }
        Err(AwsError::Failed { words, .. }) => report.unchecked(what, words),
        Err(error @ (AwsError::Refused { .. } | AwsError::Absent)) => {
            report.unchecked(what, error.in_words())
        }
    }
}
