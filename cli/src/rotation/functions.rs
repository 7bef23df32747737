//! The functions of a stack: where their keys come from, and how all of their workers are restarted to read them again.
//!
//! Workers read secrets when they start. A function whose environment changes gives its next invocation to a new worker, so a
//! variable that nothing reads is set to the time ([`MARK`]). The change is conditional on the configuration that was read:
//! it does not undo a deployment that came in between.

use std::{collections::HashMap, time::Duration};

use aws_sdk_lambda::{
    Client,
    error::ProvideErrorMetadata as _,
    operation::get_function_configuration::GetFunctionConfigurationOutput,
    types::{Environment, LastUpdateStatus},
};
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;

use crate::{aws_error, stack::Target};

/// The variable whose change restarts workers. Nothing reads it; a deployment may remove it.
pub(crate) const MARK: &str = "KEYS_AS_OF";

/// The template's outputs with this suffix are the names of functions.
const NAMES: &str = "FunctionName";

/// An update takes seconds, or minutes in a VPC.
const UPDATE_LIMIT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) struct Function {
    name: String,
    revision: Option<String>,
    environment: HashMap<String, String>,
    /// Of an invocation.
    pub(crate) timeout: Duration,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FunctionFailure {
    #[error("{call} of {of} failed: {words}")]
    Call { call: &'static str, of: String, words: String },
    #[error("the environment of {0} cannot be read: it is encrypted with a key that you may not use")]
    Sealed(String),
    #[error("no CloudFormation stack has the function {0}: its other functions cannot be found")]
    NoStack(String),
    #[error("the update of {name} ended as {status}: {reason}")]
    Update { name: String, status: String, reason: String },
    #[error(
        "{name} is still being updated after {} s; run this again to continue",
        UPDATE_LIMIT.as_secs()
    )]
    Slow { name: String },
}

/// Where a function reads a key from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyPlace {
    /// By name or ARN.
    Secret(String),
    /// The template sets the environment.
    Environment,
    Nowhere,
}

impl Function {
    pub(crate) async fn dispatch(target: &Target) -> Result<Self, FunctionFailure> {
        Self::read(&Client::new(&target.sdk), &target.dispatch).await
    }

    async fn read(client: &Client, name: &str) -> Result<Self, FunctionFailure> {
        let configuration = configuration(client, name).await?;
        let environment = configuration
            .environment
            .unwrap_or_else(|| aws_sdk_lambda::types::EnvironmentResponse::builder().build());
        if environment.error().is_some() {
            return Err(FunctionFailure::Sealed(name.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            revision: configuration.revision_id,
            environment: environment.variables.unwrap_or_default(),
            timeout: Duration::from_secs(
                configuration.timeout.and_then(|it| u64::try_from(it).ok()).unwrap_or(0),
            ),
        })
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The variable `value` has the key itself, and wins; `id` names its secret.
    pub(crate) fn key_place(&self, value: &str, id: &str) -> KeyPlace {
        match (self.variable(value), self.variable(id)) {
            (Some(_), _) => KeyPlace::Environment,
            (None, Some(id)) => KeyPlace::Secret(id.to_owned()),
            (None, None) => KeyPlace::Nowhere,
        }
    }
}

/// The functions whose `variable` names that secret.
pub(crate) async fn using(
    target: &Target,
    variable: &str,
    secret: &str,
) -> Result<Vec<Function>, FunctionFailure> {
    let client = Client::new(&target.sdk);
    let dispatch = Function::read(&client, &target.dispatch).await?;
    let mut names = Vec::new();
    // A local stack may be known by another name than it was deployed under.
    for stack in [Some(target.name.as_str()), dispatch.variable("REDIAL_STACK")].into_iter().flatten() {
        names = names_in(target, stack).await?;
        if !names.is_empty() {
            break;
        }
    }
    if names.is_empty() {
        return Err(FunctionFailure::NoStack(target.dispatch.clone()));
    }
    let mut functions = Vec::new();
    for name in names {
        let function = if name == target.dispatch {
            Function {
                name,
                environment: dispatch.environment.clone(),
                revision: dispatch.revision.clone(),
                ..dispatch
            }
        } else {
            Function::read(&client, &name).await?
        };
        if function.variable(variable) == Some(secret) {
            functions.push(function);
        }
    }
    Ok(functions)
}

/// The names of all functions of that stack; none if it does not exist, or is not the target's.
async fn names_in(target: &Target, stack: &str) -> Result<Vec<String>, FunctionFailure> {
    let cloudformation = aws_sdk_cloudformation::Client::new(&target.sdk);
    let described = match cloudformation.describe_stacks().stack_name(stack).send().await {
        Ok(described) => described,
        Err(error) if error.message().is_some_and(|it| it.contains("does not exist")) => {
            return Ok(Vec::new());
        }
        Err(error) => {
            let (of, words) = (stack.to_owned(), aws_error::message(&error));
            return Err(FunctionFailure::Call { call: "DescribeStacks", of, words });
        }
    };
    let outputs = described.stacks().iter().flat_map(|stack| stack.outputs());
    let named = outputs.filter(|output| output.output_key().is_some_and(|key| key.ends_with(NAMES)));
    let names: Vec<String> = named.filter_map(|output| output.output_value.clone()).collect();
    Ok(if names.contains(&target.dispatch) { names } else { Vec::new() })
}

/// Restarts all workers of these functions, and returns once none of the old ones gets invocations. Invocations in progress may
/// still run for the function's timeout.
pub(crate) async fn restart(target: &Target, functions: &[Function]) -> Result<(), FunctionFailure> {
    let client = Client::new(&target.sdk);
    let mark = System.now().to_rfc3339();
    for function in functions {
        let restarting = async {
            mark_with(&client, function, &mark).await?;
            ready(&client, &function.name).await
        };
        let slow = |_| FunctionFailure::Slow { name: function.name.clone() };
        tokio::time::timeout(UPDATE_LIMIT, restarting).await.map_err(slow)??;
    }
    Ok(())
}

async fn mark_with(client: &Client, function: &Function, mark: &str) -> Result<(), FunctionFailure> {
    let (mut environment, mut revision) = (function.environment.clone(), function.revision.clone());
    loop {
        environment.insert(MARK.to_owned(), mark.to_owned());
        let update = client.update_function_configuration().function_name(&function.name);
        let variables = Environment::builder().set_variables(Some(environment)).build();
        match update.environment(variables).set_revision_id(revision).send().await {
            Ok(_) => return Ok(()),
            // It is being updated, or was since it was read.
            Err(error)
                if matches!(
                    error.code(),
                    Some("ResourceConflictException" | "PreconditionFailedException")
                ) =>
            {
                tokio::time::sleep(POLL_INTERVAL).await;
                ready(client, &function.name).await?;
                Function { environment, revision, .. } = Function::read(client, &function.name).await?;
            }
            Err(error) => {
                // The service's message may quote the environment.
                let words = error.code().map_or_else(|| aws_error::message(&error), str::to_owned);
                let of = function.name.clone();
                return Err(FunctionFailure::Call { call: "UpdateFunctionConfiguration", of, words });
            }
        }
    }
}

async fn ready(client: &Client, name: &str) -> Result<(), FunctionFailure> {
    loop {
        let configuration = configuration(client, name).await?;
        match configuration.last_update_status() {
            None | Some(LastUpdateStatus::Successful) => return Ok(()),
            Some(LastUpdateStatus::InProgress) => tokio::time::sleep(POLL_INTERVAL).await,
            Some(status) => {
                let reason = configuration.last_update_status_reason().unwrap_or("no reason was given");
                return Err(FunctionFailure::Update {
                    name: name.to_owned(),
                    status: status.as_str().to_owned(),
                    reason: reason.to_owned(),
                });
            }
        }
    }
}

async fn configuration(
    client: &Client,
    name: &str,
) -> Result<GetFunctionConfigurationOutput, FunctionFailure> {
    client.get_function_configuration().function_name(name).send().await.map_err(|error| {
        let (of, words) = (name.to_owned(), aws_error::message(&error));
        FunctionFailure::Call { call: "GetFunctionConfiguration", of, words }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_environment_wins_over_one_in_a_secret() {
        let place = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let environment = pairs.collect();
            let function =
                Function { name: String::new(), revision: None, environment, timeout: Duration::ZERO };
            function.key_place("KEY", "KEY_ID")
        };
        assert_eq!(place(&[("KEY", "k"), ("KEY_ID", "shop")]), KeyPlace::Environment);
        assert_eq!(place(&[("KEY", " "), ("KEY_ID", "shop")]), KeyPlace::Secret("shop".to_owned()));
        assert_eq!(place(&[]), KeyPlace::Nowhere);
    }
}
