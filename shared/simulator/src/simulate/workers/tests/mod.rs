//! What workers do together: the limits that they keep to, whom they let go first, and what they spare a provider that is out.

mod limits;
mod outage;

use super::super::{
    Contender, Outage, Scenario, Tenants,
    fixtures::{alone, contender, rate, scenario},
    tally::TenantFigures,
};
use super::*;

fn workers(number: u32) -> Workers {
    Workers { number, limit: None, counter_lag: Duration::ZERO }
}

fn of(policy: &str, breaker: bool) -> Contender {
    Contender { breaker, ..contender(policy) }
}

#[test]
fn without_a_breaker_and_a_limit_workers_change_nothing_but_milliseconds() {
    let retries_alone = alone(&scenario(), of("web-push", false));
    let together = alone(&Scenario { workers: Some(workers(200)), ..scenario() }, of("web-push", false));
    assert_eq!(together.deferrals, 0);
    let (without, with) = (retries_alone.attempts_per_message, together.attempts_per_message);
    assert!((without - with).abs() < 0.02 * without, "{without} {with}");
    assert_eq!(together.sent + together.dead_lettered.values().sum::<u32>(), 20_000);
}
