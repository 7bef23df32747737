//! The functions' processor architecture, against the last error of a start.
//!
//! A program that was built for another architecture never starts: Lambda writes `exec format error` into the function's log, and
//! its messages come back until they are set aside. The configuration alone does not show that.

use std::time::Duration;

use aws_sdk_lambda::types::Architecture;
use futures_util::future::join_all;
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;

use super::{
    aws_error::AwsError,
    logs,
    report::Report,
    stack::{Function, Stack},
};

/// What Lambda logs when the kernel does not take the program.
const WRONG_FORMAT: &str = "exec format error";

/// What it logs when there is no program that it could start, wrong formats included.
const NO_PROGRAM: &str = "Runtime.InvalidEntrypoint";

/// How far back errors are looked for where it is not known when the function was changed.
const DAY: Duration = Duration::from_secs(86_400);

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("architecture");
    let now = System.now();
    let found = join_all(stack.functions().map(async |(name, function)| match function {
        Ok(function) => (name, Some((function, last_error(stack, function, now).await))),
        Err(_) => (name, None),
    }))
    .await;
    for (name, found) in found {
        match found {
            Some((function, Ok(error))) => judge(function, error.as_ref(), &mut report),
            Some((_, Err(trouble))) => report.trouble(&format!("the log of {name}"), &trouble),
            None => report.unchecked(format!("the architecture of {name}"), "its configuration is not known"),
        }
    }
    report.well(
        "since it was last changed, no function failed to start for want of a program for its architecture",
    );
    report
}

/// The last error of a start since the function was changed; an error of a change before it says nothing.
async fn last_error(
    stack: &Stack,
    function: &Function,
    now: Timestamp,
) -> Result<Option<(Timestamp, String)>, AwsError> {
    let changed = function.configuration.last_modified().and_then(changed_at);
    let since = changed.unwrap_or_else(|| now.minus(DAY));
    for words in [WRONG_FORMAT, NO_PROGRAM] {
        // A function that cannot start logs nothing else, so that the first pages show it however long the log is.
        let lines = logs::lines(stack, function, &format!("\"{words}\""), since).await?.lines;
        if let Some(last) = lines.into_iter().rev().find(|(_, line)| line.contains(words)) {
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

fn judge(function: &Function, error: Option<&(Timestamp, String)>, report: &mut Report) {
    let Some((at, line)) = error else { return };
    let (name, at) = (function.name, at.to_rfc3339_seconds());
    let architecture =
        function.configuration.architectures().first().unwrap_or(&Architecture::X8664).as_str();
    if line.contains(WRONG_FORMAT) {
        report.fault(
            format!(
                "{name} cannot start: it runs on {architecture}, and its program was built for another \
                 architecture (last seen {at})"
            ),
            "run sam build, and deploy what it built: it builds for the Architectures of infra/template.yaml",
        );
    } else {
        report.fault(
            format!("{name} cannot start: its code has no program for {architecture} (last seen {at})"),
            "build again, and deploy what was built: the code is one executable file named bootstrap",
        );
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput;

    use super::{super::stack::tests::deployed, *};

    fn found(line: Option<&str>) -> Vec<String> {
        let mut function = deployed("dispatch", 30, &[]);
        function.configuration =
            GetFunctionConfigurationOutput::builder().architectures(Architecture::Arm64).build();
        let at = Timestamp::parse_rfc3339("2026-11-21T10:00:00Z").expect("a time");
        let error = line.map(|line| (at, line.to_owned()));
        let mut report = Report::new("architecture");
        judge(&function, error.as_ref(), &mut report);
        report.findings.into_iter().map(|finding| finding.found).collect()
    }

    #[test]
    fn a_program_for_another_architecture_differs_from_a_missing_one() {
        assert_eq!(found(None), [""; 0]);
        let wrong = found(Some(
            "RequestId: 1 Error: fork/exec /var/task/bootstrap: exec format error\nRuntime.InvalidEntrypoint",
        ));
        assert_eq!(
            wrong,
            ["dispatch cannot start: it runs on arm64, and its program was built for another architecture \
              (last seen 2026-11-21T10:00:00Z)"]
        );
        let missing =
            found(Some("INIT_REPORT Phase: init Status: error Error Type: Runtime.InvalidEntrypoint"));
        assert!(missing[0].contains("its code has no program for arm64"), "{missing:?}");
    }

    #[test]
    fn lambda_s_time_of_a_change_is_read() {
        let at = changed_at("2026-11-21T10:00:00.500+0000").expect("a time");
        assert_eq!(at.to_rfc3339_seconds(), "2026-11-21T10:00:00Z");
        assert_eq!(changed_at("yesterday"), None);
    }
}
