//! What the functions of a stack are configured with.

use std::collections::HashMap;

use redial_core::subscription::SameEndpoint;

use crate::{aws_error, failure::Failure, stack::Target};

/// The variables of its dispatch function. `what` is read of them, and `option` gives it instead.
pub(super) async fn variables(
    target: &Target,
    what: &str,
    option: &str,
) -> Result<HashMap<String, String>, Failure> {
    let lambda = aws_sdk_lambda::Client::new(&target.sdk);
    let read = lambda.get_function_configuration().function_name(&target.dispatch).send().await;
    let read = aws_error::classified("lambda:GetFunctionConfiguration", read).map_err(|error| {
        let (stack, why) = (&target.name, error.in_words());
        Failure::input(format!("cannot read {what} of {stack} from its function: {why}; pass {option}"))
    })?;
    Ok(read.environment.and_then(|environment| environment.variables).unwrap_or_default())
}

/// What becomes of an endpoint that another subscription of the tenant has: as given, or as the stack has it.
pub(super) async fn same_endpoint(
    target: &Target,
    given: Option<SameEndpoint>,
) -> Result<SameEndpoint, Failure> {
    if let Some(given) = given {
        return Ok(given);
    }
    let read = variables(target, "the parameter SameEndpoint", "--same-endpoint").await?;
    // A stack of an earlier release has no such variable.
    let stored = read.get("SAME_ENDPOINT").and_then(|value| SameEndpoint::from_label(value.trim()));
    Ok(stored.unwrap_or(SameEndpoint::Replace))
}

pub(super) fn parse_same_endpoint(text: &str) -> Result<SameEndpoint, &'static str> {
    SameEndpoint::from_label(text).ok_or("replace or refuse")
}
