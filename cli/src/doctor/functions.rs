//! The functions: active, with an environment that is complete, valid, and names the stack's own queues, tables and keys, with time
//! for the longest attempt that it allows, built for their processor architecture, and free to call themselves.
//!
//! The functions' own parser decides what is valid. It reads no secret, only the name of one in Secrets Manager.
//!
//! Dispatch begins no attempt that could outlast its invocation. If the timeouts of sending are longer than its own, it sends
//! nothing, and every message ends in the quarantine.
//!
//! Lambda's recursive loop detection counts how often a message's chain has passed through the same function, and stops the chain
//! after about 16 rounds. Here such chains are intended: every retry, deferral and page of an audience is a round. The number of
//! retries, the TTL and the redrive policies end them.
//!
//! A program that was built for another architecture never starts: Lambda writes `exec format error` into the function's log, and
//! its messages come back until they move to the quarantine. The configuration alone does not show that.

use std::time::Duration;

use aws_sdk_lambda::types::{Architecture, LastUpdateStatus, RecursiveLoop, State};
use futures_util::{future::join_all, join};
use redial_adapters::{config, system::System};
use redial_core::time::Timestamp;
use redial_engine::{deliver, ports::Clock as _};

use super::{
    report::Report,
    stack::{Function, Stack},
};
use crate::{
    aws_error::{AwsError, classified},
    tail::init_errors,
};

const REPAIR: &str = "repair what the reason names, and deploy the template again";

/// Lambda logs this if the kernel refuses the program.
const WRONG_FORMAT: &str = "exec format error";

/// Lambda logs this if it cannot start any program, wrong formats included.
const NO_PROGRAM: &str = "Runtime.InvalidEntrypoint";

/// How far back to look if the time of the last change is unknown.
const DAY: Duration = Duration::from_secs(86_400);

/// The variables that name parts of the stack, with the template's outputs that name the same parts.
const PARTS: [(&str, &str); 16] = [
    ("INGEST_QUEUE_URL", "IngestQueueUrl"),
    ("BULK_QUEUE_URL", "BulkQueueUrl"),
    ("RETRY_QUEUE_URL", "RetryQueueUrl"),
    ("RETRY_BULK_QUEUE_URL", "RetryBulkQueueUrl"),
    ("DLQ_URL", "DeadLetterQueueUrl"),
    ("DELIVERIES_TABLE", "DeliveriesTableName"),
    ("SUBSCRIPTIONS_TABLE", "SubscriptionsTableName"),
    ("AUDIENCES_TABLE", "AudiencesTableName"),
    ("PARKED_TABLE", "ParkedTableName"),
    ("DEAD_LETTERS_TABLE", "DeadLettersTableName"),
    ("CONTROL_TABLE", "ControlTableName"),
    ("WAIT_STATE_MACHINE_ARN", "WaitStateMachineArn"),
    ("VAPID_SECRET_ID", "VapidSecretArn"),
    ("WEBHOOK_KEY_SECRET_ID", "WebhookKeySecretId"),
    ("TOKEN_KEY_SECRET_ID", "TokenKeySecretId"),
    ("ENDPOINT_HASH_SECRET_ID", "EndpointHashSecretArn"),
];

const DEPLOY_AGAIN: &str =
    "deploy the template again with the values that you want; it sets all functions' environments";

pub(super) async fn check_configuration(stack: &Stack, report: &mut Report) {
    report.well("all functions' environments are complete and name the stack's own queues, tables and keys");
    for (name, function) in stack.functions() {
        let read = function.as_ref().map_err(Clone::clone);
        let Some(function) = report.read(format!("the configuration of {name}"), read) else { continue };
        is_valid(function, report);
        if let Ok(outputs) = &stack.outputs {
            names_own_parts(function, |output| outputs.get(output).map(String::as_str), report);
        }
    }
    if stack.dispatch.is_ok() {
        report.read("the stack in CloudFormation", stack.outputs.as_ref().map_err(Clone::clone));
    }
}

fn is_valid(function: &Function, report: &mut Report) {
    if let Err(error) = parsed(function) {
        report.fault(format!("{} cannot start: {error}", function.name), DEPLOY_AGAIN);
    }
}

/// Whether the function's own parser takes its environment. If not, it cannot start, which [`is_valid`] reports.
pub(super) fn has_valid_environment(function: &Function) -> bool {
    parsed(function).is_ok()
}

fn parsed(function: &Function) -> Result<(), config::ConfigError> {
    let lookup = |name: &str| function.lookup(name);
    match function.name {
        "dispatch" => config::dispatch(lookup).map(|_| ()),
        "ingest" => config::ingest(lookup).map(|_| ()),
        _ => config::cleanup(lookup).map(|_| ()),
    }
}

/// Whether these words of a failed start are those that [`check_architecture`] looks for.
pub(super) fn is_about_the_program(words: &str) -> bool {
    words.contains(WRONG_FORMAT) || words.contains(NO_PROGRAM)
}

/// Skips variables that are missing, which [`is_valid`] reports.
fn names_own_parts<'a>(function: &Function, output: impl Fn(&str) -> Option<&'a str>, report: &mut Report) {
    for (variable, own) in PARTS {
        let (Some(named), Some(own)) = (function.variable(variable), output(own)) else { continue };
        if named != own {
            let found = format!("{}: {variable} is {named}, but the stack's own is {own}", function.name);
            report.fault(found, DEPLOY_AGAIN);
        }
    }
}

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

pub(super) async fn check_recursion(stack: &Stack, report: &mut Report) {
    let client = stack.target.lambda();
    let setting = async |function: &str| {
        let setting = client.get_function_recursion_config().function_name(function).send().await;
        classified("lambda:GetFunctionRecursionConfig", setting)?.recursive_loop.ok_or(AwsError::Absent)
    };
    let (dispatch, cleanup) = (&stack.target.dispatch, &stack.target.cleanup);
    let settings = join!(setting(dispatch), setting(cleanup));
    report.well("Lambda does not stop long chains of retries: dispatch and cleanup allow recursive loops");
    for (name, deployed_as, setting) in [("dispatch", dispatch, settings.0), ("cleanup", cleanup, settings.1)]
    {
        let what = format!("the recursion setting of {name}");
        let why = "GetFunctionRecursionConfig returns no setting here";
        if let Some(setting) = report.read_if_present(what, setting, why) {
            is_recursive(name, deployed_as, &setting, report);
        }
    }
}

/// Against the last error of a start.
pub(super) async fn check_architecture(stack: &Stack, report: &mut Report) {
    let now = System.now();
    report.well(
        "since its last change, no function failed to start for want of a program for its architecture",
    );
    stack.skip_unknown_functions("architecture", report);
    let errors = stack.known_functions();
    let errors = errors.map(async |function| (function, last_error(stack, function, now).await));
    for (function, error) in join_all(errors).await {
        if let Some(Some(error)) = report.read(format!("the log of {}", function.name), error) {
            starts(function, &error, report);
        }
    }
}

/// The last error of a start since the function was changed; earlier ones concern another program.
async fn last_error(
    stack: &Stack,
    function: &Function,
    now: Timestamp,
) -> Result<Option<(Timestamp, String)>, AwsError> {
    let changed = function.configuration.last_modified().and_then(init_errors::changed_at);
    let since = changed.unwrap_or_else(|| now.minus(DAY));
    for text in [WRONG_FORMAT, NO_PROGRAM] {
        // A function that cannot start logs nothing else, so the first pages show it however long the log is.
        let lines = stack.log(function, &format!("\"{text}\""), since).await?.0;
        if let Some(last) = lines.into_iter().rev().find(|(_, line)| line.contains(text)) {
            return Ok(Some(last));
        }
    }
    Ok(None)
}

fn is_active(function: &Function, report: &mut Report) {
    let (name, configuration) = (function.name, &function.configuration);
    let reason = |reason: Option<&str>| reason.unwrap_or("no reason is given").to_owned();
    let later = "look again in a minute";
    match configuration.state() {
        None | Some(State::Active) => {}
        Some(State::Inactive) => report.warning(
            format!("{name} is inactive: it was not called for weeks"),
            "nothing, if that is expected: its first batch activates it, a minute late",
        ),
        Some(State::Pending) => return report.warning(format!("{name} is being created"), later),
        Some(state) => {
            let why = reason(configuration.state_reason());
            report.fault(format!("{name} is in the state {}: {why}", state.as_str()), REPAIR);
        }
    }
    match configuration.last_update_status() {
        None | Some(LastUpdateStatus::Successful) => {}
        Some(LastUpdateStatus::InProgress) => report.warning(format!("{name} is being updated"), later),
        Some(status) => {
            let why = reason(configuration.last_update_status_reason());
            report.fault(format!("the last update of {name} ended as {}: {why}", status.as_str()), REPAIR);
        }
    }
}

fn has_time(dispatch: &Function, report: &mut Report) {
    let (Ok(config), Some(timeout)) = (config::dispatch(|name| dispatch.lookup(name)), dispatch.timeout())
    else {
        return report.unchecked("whether an attempt fits", "dispatch's environment is not valid");
    };
    // A push may be sent twice: once more with a new signature.
    let longest = (config.send_timeout * 2).max(config.webhook_timeout);
    let needed = deliver::time_for(longest);
    if needed >= timeout {
        let found = format!(
            "dispatch may run for {} s, and an attempt may take {} s including the reserve (SEND_TIMEOUT_SECONDS \
             is {}, WEBHOOK_TIMEOUT_SECONDS {}): it sends nothing of that kind",
            timeout.as_secs(),
            needed.as_secs(),
            config.send_timeout.as_secs(),
            config.webhook_timeout.as_secs()
        );
        report.fault(found, "lower those, or raise FunctionTimeout and with it VisibilityTimeout");
    }
}

fn is_recursive(name: &str, deployed_as: &str, setting: &RecursiveLoop, report: &mut Report) {
    if *setting != RecursiveLoop::Allow {
        report.fault(
            format!(
                "the recursion setting of {name} is {}: after about 16 rounds Lambda stops a chain of retries, \
                 deferrals or pages",
                setting.as_str()
            ),
            format!(
                "deploy the template again, or: aws lambda put-function-recursion-config --function-name \
                 {deployed_as} --recursive-loop Allow"
            ),
        );
    }
}

fn starts(function: &Function, (at, line): &(Timestamp, String), report: &mut Report) {
    let (name, at) = (function.name, at.to_rfc3339_seconds());
    let architecture =
        function.configuration.architectures().first().unwrap_or(&Architecture::X8664).as_str();
    let (why, remedy) = if line.contains(WRONG_FORMAT) {
        (
            format!("it runs on {architecture}, and its program was built for another architecture"),
            "run sam build, and deploy the result: it builds for the Architectures of infra/template.yaml",
        )
    } else {
        (
            format!("its code has no program for {architecture}"),
            "build again, and deploy the result: the code is one executable file named bootstrap",
        )
    };
    report.fault(format!("{name} cannot start: {why} (last seen {at})"), remedy);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use redial_testkit::template::{Template, Value};

    use super::{
        super::{
            report::tests::{finds, found},
            stack::tests::{deployed, dispatch},
        },
        *,
    };
    use crate::stack::Configuration;

    /// A complete environment of dispatch.
    fn complete() -> Vec<(&'static str, &'static str)> {
        let value = |name: &str| match name.rsplit('_').next() {
            Some("URL") => "https://sqs.example/1/queue",
            Some("ARN") => "arn:aws:states:eu-central-1:1:stateMachine:wait",
            _ => "name",
        };
        let mut complete = PARTS.map(|(name, _)| (name, value(name))).to_vec();
        // The file exists only inside the function.
        complete
            .extend([("VAPID_SUBJECT", "mailto:ops@example.com"), ("EGRESS_CA_FILE", "/no/such/file.pem")]);
        complete
    }

    #[test]
    fn a_queue_of_events_in_another_region_is_a_fault() {
        let events = ("EVENTS_QUEUE_ARN", "arn:aws:sqs:eu-central-1:123456789012:app");
        let expected = "fault: dispatch cannot start: invalid configuration: EVENTS_QUEUE_ARN (parameter EventsQueueArn)";
        for (region, expected) in [("eu-central-1", ""), ("eu-west-1", expected)] {
            let mut dispatch = dispatch(30, &[complete(), vec![events]].concat());
            dispatch.configuration.function_arn =
                Some(format!("arn:aws:lambda:{region}:123456789012:function:dispatch"));
            finds(expected, |report| is_valid(&dispatch, report));
        }
    }

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
            let dispatch = dispatch(timeout, &[complete(), vec![variable]].concat());
            let expected =
                if is_fault { format!("fault: dispatch may run for {timeout} s") } else { String::new() };
            finds(&expected, |report| has_time(&dispatch, report));
        }
    }

    #[test]
    fn a_function_that_is_not_active_is_one_finding() {
        let configuration = Configuration::builder;
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
            finds(expected, |report| is_active(&deployed("cleanup", configuration.build()), report));
        }
    }

    #[test]
    fn a_setting_that_stops_chains_is_a_fault() {
        for (setting, expected) in [
            (RecursiveLoop::Allow, ""),
            (RecursiveLoop::Terminate, "fault: the recursion setting of dispatch is Terminate"),
        ] {
            finds(expected, |report| is_recursive("dispatch", "shop-dispatch", &setting, report));
        }
    }

    #[test]
    fn the_template_s_functions_with_queues_are_dispatch_and_cleanup() {
        let template = Template::read();
        let reads_a_queue = |function: &&Value| {
            let events = function["Events"].as_mapping();
            events.is_some_and(|events| events.values().any(|event| event["Type"] == "SQS"))
        };
        let functions = template.resources("AWS::Serverless::Function").map(|(_, function)| function);
        let reading: Vec<_> = functions.filter(reads_a_queue).map(|it| it["CodeUri"].as_str()).collect();
        assert_eq!(reading, [Some("../functions/dispatch"), Some("../functions/cleanup")]);
    }

    #[test]
    fn a_program_for_another_architecture_differs_from_a_missing_one() {
        let function =
            deployed("dispatch", Configuration::builder().architectures(Architecture::Arm64).build());
        let at = Timestamp::parse_rfc3339("2026-11-21T10:00:00Z").expect("a time");
        for (line, expected) in [
            (
                "RequestId: 1 Error: fork/exec /var/task/bootstrap: exec format error\nRuntime.InvalidEntrypoint",
                "it runs on arm64, and its program was built for another architecture",
            ),
            (
                "INIT_REPORT Phase: init Status: error Error Type: Runtime.InvalidEntrypoint",
                "its code has no program for arm64",
            ),
        ] {
            let expected =
                format!("fault: dispatch cannot start: {expected} (last seen 2026-11-21T10:00:00Z)");
            finds(&expected, |report| starts(&function, &(at, line.to_owned()), report));
        }
    }

    #[test]
    fn the_parts_are_the_template_s_variables_and_outputs() {
        let template = Template::read();
        let variables = &template["Globals"]["Function"]["Environment"]["Variables"];
        let own = template.resources("AWS::Serverless::Function");
        let own: Vec<_> = own.map(|(_, function)| &function["Environment"]["Variables"]).collect();
        for (variable, output) in PARTS {
            let is_set =
                variables.get(variable).is_some() || own.iter().any(|own| own.get(variable).is_some());
            assert!(is_set, "{variable}");
            assert!(template["Outputs"].get(output).is_some(), "{output}");
        }
    }

    #[test]
    fn all_invalid_variables_of_a_function_are_one_finding() {
        let dispatch = dispatch(30, &[("VAPID_SUBJECT", "no-address")]);
        let found = found(|report| is_valid(&dispatch, report));
        assert!(found.len() == 1 && found[0].starts_with("fault: dispatch cannot start: "), "{found:?}");
        assert!(found[0].contains("DLQ_URL is missing") && found[0].contains("VAPID_SUBJECT"));
    }

    #[test]
    fn a_part_of_another_stack_is_a_fault() {
        let function = dispatch(30, &[("CONTROL_TABLE", "other"), ("DLQ_URL", "dlq")]);
        let outputs = HashMap::from([("ControlTableName", "own"), ("DeadLetterQueueUrl", "dlq")]);
        let output = |name: &str| outputs.get(name).copied();
        assert_eq!(
            found(|report| names_own_parts(&function, output, report)),
            ["fault: dispatch: CONTROL_TABLE is other, but the stack's own is own"]
        );
    }
}
