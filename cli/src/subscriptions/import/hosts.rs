//! The hosts that a stack may push to, from the configuration of its dispatch function.

use redial_core::endpoint::{Origin, PushHosts};

use crate::{aws_error, failure::Failure, stack::Target};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hosts {
    pub(super) push_hosts: PushHosts,
    pub(super) egress_allow: Vec<Origin>,
}

impl Hosts {
    pub(super) async fn of(target: &Target) -> Result<Self, Failure> {
        let (stack, lambda) = (&target.name, aws_sdk_lambda::Client::new(&target.sdk));
        let read = lambda.get_function_configuration().function_name(&target.dispatch).send().await;
        let unreadable = |why: String| {
            Failure::input(format!("cannot read the hosts that {stack} may push to{why}; pass --push-hosts"))
        };
        let read = aws_error::classified("lambda:GetFunctionConfiguration", read)
            .map_err(|error| unreadable(format!(" from its function: {}", error.in_words())))?;
        let variables = read.environment.and_then(|environment| environment.variables).unwrap_or_default();
        let variable = |name: &str| variables.get(name).map_or("", |value| value.trim());
        let invalid = |name| unreadable(format!(": {name} of its function is invalid"));
        let hosts = Some(variable("PUSH_HOSTS")).filter(|it| !it.is_empty()).unwrap_or(PushHosts::DEFAULT);
        let origins = variable("EGRESS_ALLOW").split(',').map(str::trim).filter(|part| !part.is_empty());
        Ok(Self {
            push_hosts: PushHosts::parse(hosts).map_err(|_| invalid("PUSH_HOSTS"))?,
            egress_allow: origins
                .map(Origin::parse)
                .collect::<Option<_>>()
                .ok_or_else(|| invalid("EGRESS_ALLOW"))?,
        })
    }
}
