//! The hosts that a stack may push to, from the configuration of its dispatch function.

use redial_core::endpoint::{Origin, PushHosts};

use super::super::variables::configuration;
use crate::{
    failure::Failure,
    stack::{Target, egress_allow, variable},
};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hosts {
    pub(super) push_hosts: PushHosts,
    pub(super) egress_allow: Vec<Origin>,
}

impl Hosts {
    pub(super) async fn of(target: &Target) -> Result<Self, Failure> {
        let read = configuration(target, "the push hosts", "--push-hosts").await?;
        let invalid = |name| {
            let stack = &target.name;
            Failure::input(format!(
                "cannot read the push hosts of {stack}: {name} of its function is invalid; pass --push-hosts"
            ))
        };
        let hosts = variable(&read, "PUSH_HOSTS").unwrap_or(PushHosts::DEFAULT);
        Ok(Self {
            push_hosts: PushHosts::parse(hosts).map_err(|_| invalid("PUSH_HOSTS"))?,
            egress_allow: egress_allow(&read).ok_or_else(|| invalid("EGRESS_ALLOW"))?,
        })
    }
}
