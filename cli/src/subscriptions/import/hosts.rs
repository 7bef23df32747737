//! The hosts that a stack may push to, from the configuration of its dispatch function.

use redial_core::endpoint::{Origin, PushHosts};

use super::super::variables::variables;
use crate::{failure::Failure, stack::Target};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hosts {
    pub(super) push_hosts: PushHosts,
    pub(super) egress_allow: Vec<Origin>,
}

impl Hosts {
    pub(super) async fn of(target: &Target) -> Result<Self, Failure> {
        let variables = variables(target, "the push hosts", "--push-hosts").await?;
        let variable = |name: &str| variables.get(name).map_or("", |value| value.trim());
        let invalid = |name| {
            let stack = &target.name;
            Failure::input(format!(
                "cannot read the push hosts of {stack}: {name} of its function is invalid; pass --push-hosts"
            ))
        };
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
