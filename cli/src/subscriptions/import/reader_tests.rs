//! A reader of tests.

use redial_core::{endpoint::PushHosts, identity::Tenant};

use super::{
    hosts::Hosts,
    read::{Defaults, Reader},
};

pub(super) fn reader() -> Reader {
    Reader {
        tenant: Tenant::parse("acme").expect("valid"),
        hosts: Hosts {
            push_hosts: PushHosts::parse("push.example").expect("valid"),
            egress_allow: Vec::new(),
        },
        defaults: Defaults::default(),
    }
}
