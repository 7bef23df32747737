//! The hosts that a stack may push to, from the configuration of its dispatch function.

use redial_core::endpoint::{Origin, PushHosts};

use crate::{aws_error, failure::Failure, stack::Target};

const READ_FUNCTION: &str = "lambda:GetFunctionConfiguration";

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hosts {
    pub(super) push_hosts: PushHosts,
    pub(super) egress_allow: Vec<Origin>,
}

impl Hosts {
    pub(super) async fn of(target: &Target) -> Result<Self, Failure> {
        let lambda = aws_sdk_lambda::Client::new(&target.sdk);
        let read = lambda.get_function_configuration().function_name(&target.dispatch).send().await;
        let read = aws_error::classified(READ_FUNCTION, read).map_err(|error| {
            Failure::input(format!(
                "cannot read the hosts that {} may push to from its function: {}; pass --push-hosts",
                target.name,
                error.in_words()
            ))
        })?;
        let variables = read.environment.and_then(|environment| environment.variables).unwrap_or_default();
        let variable =
            |name: &str| variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let unusable = |name| {
            Failure::input(format!(
                "cannot read the hosts that {} may push to: {name} of its function is invalid; pass --push-hosts",
                target.name
            ))
        };
        let hosts = variable("PUSH_HOSTS").unwrap_or(PushHosts::DEFAULT);
        let origins = variable("EGRESS_ALLOW").into_iter().flat_map(|list| list.split(',')).map(str::trim);
        let origins = origins.filter(|part| !part.is_empty()).map(Origin::parse);
        Ok(Self {
            push_hosts: PushHosts::parse(hosts).map_err(|_| unusable("PUSH_HOSTS"))?,
            egress_allow: origins.collect::<Option<_>>().ok_or_else(|| unusable("EGRESS_ALLOW"))?,
        })
    }
}
