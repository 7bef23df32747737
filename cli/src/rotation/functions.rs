//! The functions that use a secret, and how all of their workers are restarted to read it again.
//!
//! Workers read secrets when they start. A function whose environment changes gives its next invocation to a new worker, so a
//! variable that nothing reads is set to the time ([`MARK`]). The change is conditional on the configuration that was read:
//! it does not undo a deployment that came in between.

use std::time::Duration;

use aws_sdk_lambda::{
    error::ProvideErrorMetadata as _,
    types::{Environment, LastUpdateStatus},
};
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;

use crate::{
    aws_error::{self, AwsError},
    failure::Failure,
    stack::{Configuration, Target, timeout, variable},
};

/// The variable whose change restarts workers. Nothing reads it; a deployment may remove it.
const MARK: &str = "KEYS_AS_OF";

/// The template's outputs with this suffix are the names of functions.
const NAMES: &str = "FunctionName";

/// An update takes seconds, or minutes in a VPC.
const UPDATE_LIMIT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The names of all functions of the target's stack.
async fn names(target: &Target, dispatch: &Configuration) -> Result<Vec<String>, Failure> {
    // A local stack may be known by another name than it was deployed under.
    for stack in [Some(target.name.as_str()), variable(dispatch, "REDIAL_STACK")].into_iter().flatten() {
        let described = match target.described(stack).await {
            Err(AwsError::Absent) => continue,
            described => described.map_err(|error| error.failure(&format!("the stack {stack}")))?,
        };
        let named =
            described.outputs().iter().filter(|it| it.output_key().is_some_and(|key| key.ends_with(NAMES)));
        return Ok(named.filter_map(|output| output.output_value.clone()).collect());
    }
    let words = format!(
        "no CloudFormation stack has the function {}: its other functions cannot be found",
        target.dispatch
    );
    Err(Failure::Failed(words.into()))
}

/// All functions of the target's stack, by their names.
pub(crate) async fn all(target: &Target) -> Result<Vec<(String, Configuration)>, Failure> {
    let dispatch = read(target, &target.dispatch).await?;
    let mut all = Vec::new();
    for name in names(target, &dispatch).await? {
        let function = read(target, &name).await?;
        all.push((name, function));
    }
    Ok(all)
}

/// Whether workers of a function may have read the secret that `id` names before it was `changed`.
pub(crate) fn is_behind(function: &Configuration, id: &str, secret: &str, changed: Timestamp) -> bool {
    let updated = function.last_modified().and_then(|at| {
        // Lambda writes the offset without a colon.
        Timestamp::parse_rfc3339(
            &at.strip_suffix("+0000").map_or_else(|| at.to_owned(), |at| format!("{at}Z")),
        )
    });
    let has_failed = function.last_update_status() == Some(&LastUpdateStatus::Failed);
    variable(function, id) == Some(secret) && (has_failed || updated.is_some_and(|at| at < changed))
}

/// Restarts all workers that use the secret that `variable` names, and returns once none of the old ones gets invocations.
/// Invocations in progress may still run for the time that is returned: the longest timeout of the functions.
pub(crate) async fn restart(target: &Target, id: &str, secret: &str) -> Result<Duration, Failure> {
    let mark = System.now().to_rfc3339();
    let mut using = all(target).await?;
    using.retain(|(_, function)| variable(function, id) == Some(secret));
    let longest = using.iter().filter_map(|(_, function)| timeout(function)).max().unwrap_or_default();
    for (name, function) in using {
        let slow = |_| {
            let words = "is still being updated after";
            Failure::Failed(
                format!("{name} {words} {} s; run this again to continue", UPDATE_LIMIT.as_secs()).into(),
            )
        };
        let restarted = tokio::time::timeout(UPDATE_LIMIT, restart_one(target, &name, function, &mark)).await;
        restarted.map_err(slow)??;
    }
    Ok(longest)
}

async fn restart_one(
    target: &Target,
    name: &str,
    mut function: Configuration,
    mark: &str,
) -> Result<(), Failure> {
    loop {
        let mut environment = function.environment.and_then(|it| it.variables).unwrap_or_default();
        environment.insert(MARK.to_owned(), mark.to_owned());
        let update = target.lambda().update_function_configuration().function_name(name);
        let update = update.environment(Environment::builder().set_variables(Some(environment)).build());
        let Err(error) = update.set_revision_id(function.revision_id).send().await else {
            return ready(target, name).await;
        };
        // It is being updated, or was since it was read.
        if !matches!(error.code(), Some("ResourceConflictException" | "PreconditionFailedException")) {
            // The service's message may quote the environment.
            let words = error.code().map_or_else(|| aws_error::message(&error), str::to_owned);
            return Err(Failure::Failed(
                format!("UpdateFunctionConfiguration of {name} failed: {words}").into(),
            ));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        ready(target, name).await?;
        function = read(target, name).await?;
    }
}

async fn ready(target: &Target, name: &str) -> Result<(), Failure> {
    loop {
        let configuration = target.configuration(name).await.map_err(|error| error.failure(name))?;
        match configuration.last_update_status() {
            None | Some(LastUpdateStatus::Successful) => return Ok(()),
            Some(LastUpdateStatus::InProgress) => tokio::time::sleep(POLL_INTERVAL).await,
            Some(status) => {
                let reason = configuration.last_update_status_reason().unwrap_or("no reason was given");
                let words = format!("the update of {name} ended as {}: {reason}", status.as_str());
                return Err(Failure::Failed(words.into()));
            }
        }
    }
}

/// The longest that an invocation may be in progress.
pub(crate) async fn longest_timeout(target: &Target) -> Result<Duration, Failure> {
    let mut longest = Duration::ZERO;
    for (_, name) in target.functions() {
        longest = longest.max(timeout(&read(target, name).await?).unwrap_or_default());
    }
    Ok(longest)
}

async fn read(target: &Target, name: &str) -> Result<Configuration, Failure> {
    let read = target.whole_configuration(name).await;
    read.map_err(|error| error.failure(&format!("the configuration of {name} cannot be read")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::configuration;

    #[test]
    fn a_function_that_was_updated_before_its_secret_is_behind() {
        let changed = Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid");
        let before = "2026-11-21T10:04:59.999+0000";
        let failed = LastUpdateStatus::Failed;
        for (updated, status, id, expected) in [
            (Some(before), None, "KEY_ID", true),
            (Some("2026-11-21T10:04:59.999Z"), None, "KEY_ID", true),
            (Some("2026-11-21T10:05:00.000+0000"), None, "KEY_ID", false),
            (Some("2026-11-21T10:05:01.000+0000"), Some(failed), "KEY_ID", true),
            (Some(before), None, "OTHER_ID", false),
            (None, None, "KEY_ID", false),
        ] {
            let mut function = configuration(30, &[("KEY_ID", "k")]);
            (function.last_modified, function.last_update_status) = (updated.map(str::to_owned), status);
            assert_eq!(is_behind(&function, id, "k", changed), expected, "{updated:?} {id}");
        }
    }
}
