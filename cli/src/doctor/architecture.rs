//! The functions' processor architecture, against the last error of a start.
//!
//! A program that was built for another architecture never starts: Lambda writes `exec format error` into the function's log, and
//! its messages come back until they move to the quarantine. The configuration alone does not show that.

use std::time::Duration;

use aws_sdk_lambda::types::Architecture;
use futures_util::future::join_all;
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;

use super::{
    logs,
    report::Report,
    stack::{Function, Stack},
};
use crate::asked::Trouble;

/// Lambda logs this if the kernel refuses the program.
const WRONG_FORMAT: &str = "exec format error";

/// Lambda logs this if it cannot start any program, wrong formats included.
const NO_PROGRAM: &str = "Runtime.InvalidEntrypoint";

/// How far back to look if the time of the last change is unknown.
const DAY: Duration = Duration::from_secs(86_400);

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let now = System.now();
    report.well(
        "since its last change, no function failed to start for want of a program for its architecture",
    );
    for (name, function) in stack.functions() {
        if function.is_err() {
            report.unchecked(format!("the architecture of {name}"), "its configuration is unknown");
        }
    }
    let errors = stack.known_functions();
    let errors = errors.map(async |function| (function, last_error(stack, function, now).await));
    for (function, error) in join_all(errors).await {
        if let Some(Some(error)) = report.read(format!("the log of {}", function.name), error) {
            judge(function, &error, report);
        }
    }
}

/// The last error of a start since the function was changed; earlier ones concern another program.
async fn last_error(
    stack: &Stack,
    function: &Function,
    now: Timestamp,
) -> Result<Option<(Timestamp, String)>, Trouble> {
    let changed = function.configuration.last_modified().and_then(changed_at);
    let since = changed.unwrap_or_else(|| now.minus(DAY));
    for text in [WRONG_FORMAT, NO_PROGRAM] {
        // A function that cannot start logs nothing else, so the first pages show it however long the log is.
        let lines = logs::lines(stack, function, &format!("\"{text}\""), since).await?.lines;
        if let Some(last) = lines.into_iter().rev().find(|(_, line)| line.contains(text)) {
            return Ok(Some(last));
        }
    }
    Ok(None)
}

/// Lambda writes offsets without a colon.
fn changed_at(text: &str) -> Option<Timestamp> {
    let utc = text.strip_suffix("+0000").map(|time| format!("{time}Z"));
    Timestamp::parse_rfc3339(utc.as_deref().unwrap_or(text))
}

fn judge(function: &Function, (at, line): &(Timestamp, String), report: &mut Report) {
    let (name, at) = (function.name, at.to_rfc3339_seconds());
    let architecture =
        function.configuration.architectures().first().unwrap_or(&Architecture::X8664).as_str();
    if line.contains(WRONG_FORMAT) {
        report.fault(
            format!(
                "{name} cannot start: it runs on {architecture}, and its program was built for another \
                 architecture (last seen {at})"
            ),
            "run sam build, and deploy the result: it builds for the Architectures of infra/template.yaml",
        );
    } else {
        report.fault(
            format!("{name} cannot start: its code has no program for {architecture} (last seen {at})"),
            "build again, and deploy the result: the code is one executable file named bootstrap",
        );
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput;

    use super::{
        super::{report::tests::finds, stack::tests::deployed},
        *,
    };

    #[test]
    fn a_program_for_another_architecture_differs_from_a_missing_one() {
        let configuration =
            GetFunctionConfigurationOutput::builder().architectures(Architecture::Arm64).build();
        let function = Function { configuration, ..deployed("dispatch", 30, &[]) };
        let at = Timestamp::parse_rfc3339("2026-11-21T10:00:00Z").expect("a time");
        for (line, expected) in [
            (
                "RequestId: 1 Error: fork/exec /var/task/bootstrap: exec format error\nRuntime.InvalidEntrypoint",
                "fault: dispatch cannot start: it runs on arm64, and its program was built for another architecture \
                 (last seen 2026-11-21T10:00:00Z)",
            ),
            (
                "INIT_REPORT Phase: init Status: error Error Type: Runtime.InvalidEntrypoint",
                "fault: dispatch cannot start: its code has no program for arm64",
            ),
        ] {
            finds(expected, |report| judge(&function, &(at, line.to_owned()), report));
        }
    }

    #[test]
    fn lambda_s_time_of_a_change_is_parsed() {
        let at = changed_at("2026-11-21T10:00:00.500+0000").expect("a time");
        assert_eq!(at.to_rfc3339_seconds(), "2026-11-21T10:00:00Z");
        assert_eq!(changed_at("yesterday"), None);
    }
}
