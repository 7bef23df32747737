//! The functions: active, and with time for the longest attempt that their environment allows.
//!
//! Dispatch begins no attempt that could outlast its invocation. If the timeouts of sending are longer than its own, it sends
//! nothing, and every message ends in the quarantine.

use std::time::Duration;

use aws_sdk_lambda::types::{LastUpdateStatus, State};
use redial_adapters::config;
use redial_engine::deliver;

use super::{
    report::Report,
    stack::{Function, Stack},
};

const REPAIR: &str = "repair what the reason names, and deploy the template again";

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    for function in stack.known_functions() {
        report.well("all are active, and dispatch's timeout leaves room for the longest attempt");
        is_active(function, report);
    }
    match &stack.dispatch {
        Ok(dispatch) => has_time(dispatch, report),
        Err(_) => report.unchecked("whether an attempt fits", "dispatch's configuration is unknown"),
    }
}

fn is_active(function: &Function, report: &mut Report) {
    let (name, configuration) = (function.name, &function.configuration);
    let reason = |reason: Option<&str>| reason.unwrap_or("no reason is given").to_owned();
    match configuration.state() {
        None | Some(State::Active) => {}
        Some(State::Inactive) => report.warning(
            format!("{name} is inactive: it was not called for weeks"),
            "nothing, if that is expected: its first batch activates it, a minute late",
        ),
        Some(State::Pending) => {
            return report.warning(format!("{name} is being created"), "look again in a minute");
        }
        Some(state) => report.fault(
            format!("{name} is in the state {}: {}", state.as_str(), reason(configuration.state_reason())),
            REPAIR,
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
                reason(configuration.last_update_status_reason())
            ),
            REPAIR,
        ),
    }
}

fn has_time(dispatch: &Function, report: &mut Report) {
    let (Ok(config), Some(timeout)) = (config::dispatch(|name| dispatch.lookup(name)), dispatch.timeout())
    else {
        return report.unchecked("whether an attempt fits", "dispatch's environment is not valid");
    };
    // A push may be sent twice: once more with a new signature.
    let longest = (config.send_timeout * 2).max(config.webhook_timeout);
    let needed: Duration = deliver::time_for(longest);
    if needed >= timeout {
        report.fault(
            format!(
                "dispatch may run for {} s, and an attempt may take {} s including the reserve (SEND_TIMEOUT_SECONDS \
                 is {}, WEBHOOK_TIMEOUT_SECONDS {}): it sends nothing of that kind",
                timeout.as_secs(),
                needed.as_secs(),
                config.send_timeout.as_secs(),
                config.webhook_timeout.as_secs()
            ),
            "lower those, or raise FunctionTimeout and with it VisibilityTimeout",
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
        // It exists only inside the function.
        ("EGRESS_CA_FILE", "/no/such/file.pem"),
    ];

    #[test]
    fn the_longest_attempt_and_its_reserve_fit_the_timeout() {
        // Twice ten seconds, one of waiting, two in reserve.
        for (timeout, variable, is_fault) in [
            (24, ("STACK", "shop"), false),
            (23, ("STACK", "shop"), true),
            (30, ("SEND_TIMEOUT_SECONDS", "13"), false),
            (30, ("SEND_TIMEOUT_SECONDS", "14"), true),
            (30, ("WEBHOOK_TIMEOUT_SECONDS", "27"), true),
        ] {
            let dispatch = deployed("dispatch", timeout, &[&COMPLETE[..], &[variable]].concat());
            let expected =
                if is_fault { format!("fault: dispatch may run for {timeout} s") } else { String::new() };
            finds(&expected, |report| has_time(&dispatch, report));
        }
    }

    #[test]
    fn a_function_that_is_not_active_is_one_finding() {
        let configuration = GetFunctionConfigurationOutput::builder;
        let pending = configuration().state(State::Pending).last_update_status(LastUpdateStatus::InProgress);
        for (configuration, expected) in [
            (configuration().state(State::Active), ""),
            (pending, "warning: cleanup is being created"),
            (
                configuration().state(State::Failed).state_reason("no image"),
                "fault: cleanup is in the state Failed: no image",
            ),
            (
                configuration().last_update_status(LastUpdateStatus::Failed),
                "fault: the last update of cleanup ended as Failed: no reason is given",
            ),
        ] {
            let function = Function { configuration: configuration.build(), ..deployed("cleanup", 30, &[]) };
            finds(expected, |report| is_active(&function, report));
        }
    }
}
