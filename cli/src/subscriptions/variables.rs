//! What the functions of a stack are configured with.

use redial_core::subscription::SameEndpoint;

use crate::{
    failure::Failure,
    stack::{Configuration, Target, variable},
};

/// The configuration of its dispatch function. `what` is read of it, and `option` gives it instead.
pub(super) async fn configuration(
    target: &Target,
    what: &str,
    option: &str,
) -> Result<Configuration, Failure> {
    target.configuration(&target.dispatch).await.map_err(|error| {
        let (stack, why) = (&target.name, error.in_words());
        Failure::input(format!("cannot read {what} of {stack} from its function: {why}; pass {option}"))
    })
}

/// What becomes of an endpoint that another subscription of the tenant has: as given, or as the stack has it.
pub(super) async fn same_endpoint(
    target: &Target,
    given: Option<SameEndpoint>,
) -> Result<SameEndpoint, Failure> {
    if let Some(given) = given {
        return Ok(given);
    }
    let read = configuration(target, "the parameter SameEndpoint", "--same-endpoint").await?;
    // A stack of an earlier release has no such variable.
    let stored = variable(&read, "SAME_ENDPOINT").and_then(SameEndpoint::from_label);
    Ok(stored.unwrap_or(SameEndpoint::Replace))
}

pub(super) fn parse_same_endpoint(text: &str) -> Result<SameEndpoint, &'static str> {
    SameEndpoint::from_label(text).ok_or("replace or refuse")
}
