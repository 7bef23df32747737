//! What the tests simulate unless they say otherwise.

use std::time::Duration;

use redial_core::{
    policy::{Policy, catalogue},
    rate::Rate,
    time::Ttl,
};

use super::{Contender, Figures, Outage, Scenario, Tenants, simulate};

pub(super) fn scenario() -> Scenario {
    Scenario {
        tenants: Tenants::one(20_000),
        rate: rate("2000/s"),
        outage: Some(Outage::parse("5..35").expect("an outage")),
        capacity: rate("3000/s"),
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

pub(super) fn rate(text: &str) -> Rate {
    Rate::parse(text).expect("a rate")
}

pub(super) fn alone(scenario: &Scenario, contender: Contender) -> Figures {
    simulate(scenario, &[contender], &|_| {}).pop().expect("one contender, one result")
}
