//! The functions: active, and with time for the longest attempt that their environment allows.
//!
//! Dispatch begins no attempt that could outlast its invocation. Where the time-outs of sending are so long that none could
//! ever end in time, it sends nothing, and every message ends in the quarantine.

use std::time::Duration;

use aws_sdk_lambda::types::{LastUpdateStatus, State};
use redial_adapters::config::{self, DispatchConfig};
use redial_engine::deliver;

use super::{
    report::Report,
    stack::{Function, Stack},
};

pub(super) fn check(stack: &Stack) -> Report {
    let mut report = Report::new("functions");
    // What cannot be read is told by the check of the configuration.
    for function in stack.functions().into_iter().filter_map(|(_, function)| function.as_ref().ok()) {
        report.well("all are active, and dispatch's time-out leaves room for the longest attempt");
        state(function, &mut report);
    }
    match &stack.dispatch {
        Ok(dispatch) => room(dispatch, &mut report),
        Err(_) => report.unchecked("whether an attempt fits", "dispatch's configuration is not known"),
    }
    report
}

fn state(function: &Function, report: &mut Report) {
    let (name, configuration) = (function.name, &function.configuration);
    match configuration.state() {
        None | Some(State::Active) => {}
        Some(State::Inactive) => report.warning(
            format!("{name} is inactive: it was not called for weeks"),
            "nothing, if that is so: its first batch wakes it, a minute late",
        ),
        Some(State::Pending) => {
            report.warning(format!("{name} is being made ready"), "look again in a minute");
            return;
        }
        Some(state) => report.fault(
            format!(
                "{name} is in the state {}: {}",
                state.as_str(),
                configuration.state_reason().unwrap_or("no reason is given")
            ),
            "mend what the reason names, and deploy the template again",
        ),
    }
    match configuration.last_update_status() {
        None | Some(LastUpdateStatus::Successful) => {}
        Some(LastUpdateStatus::InProgress) => {
            report.warning(format!("{name} is being updated"), "look again in a minute");
        }
        Some(status) => report.fault(
            format!(
                "the last update of {name} ended as {}: {}",
                status.as_str(),
                configuration.last_update_status_reason().unwrap_or("no reason is given")
            ),
            "mend what the reason names, and deploy the template again",
        ),
    }
}

/// Whether dispatch could ever make an attempt.
fn room(dispatch: &Function, report: &mut Report) {
    let lookup = |name: &str| dispatch.lookup(name);
    let (Ok(config), Some(timeout)) = (config::dispatch(lookup), dispatch.timeout()) else {
        report.unchecked("whether an attempt fits", "dispatch's environment is not valid");
        return;
    };
    let needed = deliver::time_for(longest(&config));
    if needed >= timeout {
        report.fault(
            format!(
                "dispatch may run for {} s, and an attempt may take {} s with what is kept in reserve \
                 (SEND_TIMEOUT_SECONDS is {}, WEBHOOK_TIMEOUT_SECONDS {}): it sends nothing of that kind",
                timeout.as_secs(),
                needed.as_secs(),
                config.send_timeout.as_secs(),
                config.webhook_timeout.as_secs()
            ),
            "lower those, or raise FunctionTimeout and with it VisibilityTimeout",
        );
    }
}

/// A push may be sent twice: once more with a new signature.
fn longest(config: &DispatchConfig) -> Duration {
    (config.send_timeout * 2).max(config.webhook_timeout)
}

#[cfg(test)]
mod tests {
    use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput;

    use super::{super::stack::tests::deployed, *};

    const COMPLETE: [(&str, &str); 18] = [
        ("INGEST_QUEUE_URL", "https://sqs.example/1/ingest"),
        ("BULK_QUEUE_URL", "https://sqs.example/1/bulk"),
        ("RETRY_QUEUE_URL", "https://sqs.example/1/retry"),
        ("RETRY_BULK_QUEUE_URL", "https://sqs.example/1/retry-bulk"),
        ("DLQ_URL", "https://sqs.example/1/dlq"),
        ("DELIVERIES_TABLE", "deliveries"),
        ("SUBSCRIPTIONS_TABLE", "subscriptions"),
        ("AUDIENCES_TABLE", "audiences"),
        ("PARKED_TABLE", "parked"),
        ("DEAD_LETTERS_TABLE", "dead_letters"),
        ("CONTROL_TABLE", "control"),
        ("WAIT_STATE_MACHINE_ARN", "arn:aws:states:eu-central-1:1:stateMachine:wait"),
        ("VAPID_SUBJECT", "mailto:ops@example.com"),
        ("VAPID_SECRET_ID", "vapid"),
        ("ENDPOINT_HASH_SECRET_ID", "hashes"),
        ("WEBHOOK_KEY_SECRET_ID", "webhooks"),
        ("TOKEN_KEY_SECRET_ID", "tokens"),
        // It is inside the function, and nowhere here.
        ("EGRESS_CA_FILE", "/no/such/file.pem"),
    ];

    fn found(timeout: i32, more: &[(&str, &str)]) -> usize {
        let mut report = Report::new("functions");
        room(&deployed("dispatch", timeout, &[&COMPLETE[..], more].concat()), &mut report);
        report.findings.len()
    }

    #[test]
    fn the_longest_attempt_and_what_is_kept_in_reserve_fit_the_time_out() {
        // Twice ten seconds, one of waiting, two in reserve.
        assert_eq!((found(24, &[]), found(23, &[])), (0, 1));
        assert_eq!(found(30, &[("SEND_TIMEOUT_SECONDS", "13")]), 0);
        assert_eq!(found(30, &[("SEND_TIMEOUT_SECONDS", "14")]), 1);
        assert_eq!(found(30, &[("WEBHOOK_TIMEOUT_SECONDS", "27")]), 1);
    }

    #[test]
    fn a_function_that_is_not_active_is_told_once() {
        let told = |configuration| {
            let mut report = Report::new("functions");
            let mut function = deployed("cleanup", 30, &[]);
            function.configuration = configuration;
            state(&function, &mut report);
            report.findings.into_iter().map(|finding| finding.found).collect::<Vec<_>>()
        };
        let configuration = GetFunctionConfigurationOutput::builder;
        assert_eq!(told(configuration().state(State::Active).build()), [""; 0]);
        let pending = configuration().state(State::Pending).last_update_status(LastUpdateStatus::InProgress);
        assert_eq!(told(pending.build()), ["cleanup is being made ready"]);
        let failed = configuration().state(State::Failed).state_reason("no image");
        assert_eq!(told(failed.build()), ["cleanup is in the state Failed: no image"]);
    }
}
