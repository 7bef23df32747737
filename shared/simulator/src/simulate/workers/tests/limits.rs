//! An operator's limit: no more than it, hardly less than it, and one tenant's thousand are not before another's ten.

use super::*;

/// Messages under a limit, and nothing else in their way.
fn limited(number: u32, limit: &str, tenants: &str, seed: u64) -> Scenario {
    Scenario {
        tenants: Tenants::parse(tenants).expect("tenants"),
        outage: None,
        seed,
        workers: Some(Workers { limit: Some(rate(limit)), ..workers(number) }),
        ..scenario()
    }
}

#[test]
fn two_workers_keep_to_one_limit_over_any_five_seconds_but_for_a_block_each() {
    const BLOCK: u32 = 10;
    for breaker in [false, true] {
        let figures = alone(&limited(2, "50/s", "acme:2000", 1), of("web-push", breaker));
        assert_eq!((figures.sent, figures.attempts_per_message), (2_000, 1.0));
        let every = figures.load.every_second();
        let fullest = every.windows(5).map(|five| five.iter().sum::<u32>()).max().expect("long enough");
        assert!(fullest <= 5 * 50 + 2 * BLOCK, "{fullest}");
        assert!(
            figures.drained_at_s.is_some_and(|s| s < 2_000.0 / 50.0 * 1.1),
            "slots are wasted: {figures:?}"
        );
    }
}

#[test]
fn a_fast_limit_is_used_up_by_many_workers_as_well() {
    for (limit, messages, seconds) in [("2200/s", "acme:22000", 10.0), ("10000/s", "acme:50000", 5.0)] {
        let scenario =
            Scenario { rate: rate("20000/s"), capacity: rate("20000/s"), ..limited(400, limit, messages, 1) };
        let figures = alone(&scenario, of("web-push", true));
        let drained = figures.drained_at_s.expect("some had to wait");
        assert!(drained > seconds * 0.95 && drained < seconds * 1.3, "{limit}: {drained}");
    }
}

/// The time that twenty messages take under the limit is 0.4 s. Beyond it, a message that finds no slot is back a second later, give
/// or take one, and may have to ask again.
#[test]
fn a_tenant_s_ten_messages_do_not_wait_for_another_s_thousand() {
    for seed in 1..=20 {
        let scenario = limited(200, "50/s", "acme:1000,other:10", seed);
        let figures = alone(&scenario, of("web-push", true));
        let [acme, other] = figures.tenants.as_slice() else { panic!("{figures:?}") };
        assert_eq!((acme.sent, other.sent), (1_000, 10));
        let came = scenario.arrival(1_000).since(scenario.arrival(0)).as_secs_f64();
        let last = |it: &TenantFigures| it.last_sent_at_s.expect("sent");
        assert!(last(other) - came < 4.0, "seed {seed}: {other:?}");
        assert!(last(acme) > 20.0, "seed {seed}: {acme:?}");
    }
}
