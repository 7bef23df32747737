//! Where a stack may push to: what its own dispatch function is configured with, since it is what will send there.

use redial_core::endpoint::{Origin, PushHosts};

use crate::{asked::asked, failure::Failure, target::Target};

/// What reads a function's configuration.
const READ_FUNCTION: &str = "lambda:GetFunctionConfiguration";

/// Where may be pushed to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hosts {
    pub(crate) push_hosts: PushHosts,
    pub(crate) egress_allow: Vec<Origin>,
}

impl Hosts {
    /// Those of a stack.
    pub(crate) async fn of(target: &Target) -> Result<Self, Failure> {
        let lambda = aws_sdk_lambda::Client::new(&target.sdk);
        let read = lambda.get_function_configuration().function_name(&target.dispatch).send().await;
        let read = asked(READ_FUNCTION, read).map_err(|trouble| {
            Failure::input(format!(
                "where {} may push to cannot be read from its function: {}; give --push-hosts",
                target.name,
                trouble.in_words()
            ))
        })?;
        let variables = read.environment.and_then(|it| it.variables).unwrap_or_default();
        let variable = |name: &str| variables.get(name).map(|it| it.trim()).filter(|it| !it.is_empty());
        let unusable = |name| {
            Failure::input(format!(
                "where {} may push to cannot be read: the {name} of its function cannot be used; give --push-hosts",
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
