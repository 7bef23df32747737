//! What the tests simulate unless they say otherwise.

use std::time::Duration;

use redial_core::{
    policy::{Policy, catalogue},
    rate::Rate,
    time::Ttl,
};

use super::{Contender, Outage, Scenario, Tenants};

pub(super) fn scenario() -> Scenario {
    Scenario {
        tenants: Tenants::one(20_000),
        rate: Rate::parse("2000/s").expect("a rate"),
        outage: Some(Outage::parse("5..35").expect("an outage")),
        capacity: Rate::parse("3000/s").expect("a rate"),
        retry_after_s: None,
        latency: Duration::from_millis(100),
        seed: 1,
        workers: None,
    }
}

/// A preset under its own name, for alerts.
pub(super) fn contender(name: &str) -> Contender {
    let policy = Policy::clone(catalogue::presets().get(name).expect("a preset"));
    Contender { name: name.to_owned(), policy, ttl: Ttl::from_secs(14_400), breaker: true }
}
