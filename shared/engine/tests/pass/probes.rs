//! Whose messages a half-open breaker's probes are, and what their answers do.

use std::time::Duration;

use redial_core::identity::Tenant;
use redial_core::protection::{Count, Phase, Place, Whose};
use redial_engine::ports::Clock as _;
use redial_engine::protection::{Admission, Ask, ProbeOf, Seen};

use crate::harness::origin;
use crate::protection::{PUSH_SERVICE, Worker, ask, seen};

const FAILED: Count = Count { failures: 1, ..SUCCEEDED };
const SUCCEEDED: Count =
    Count { attempts: 1, failures: 0, limited: 0, retries: 0, held: 0, older: 0, refused: 0 };

/// Tenants with a place each: the first is the hostile one.
fn tenants(n: usize) -> Vec<(Tenant, Place)> {
    let mut tenants: Vec<(Tenant, Place)> = Vec::new();
    for number in 0.. {
        let tenant = Tenant::parse(&format!("tenant-{number}")).expect("a tenant");
        let place = Place::of(&origin(PUSH_SERVICE), &tenant);
        if tenants.iter().all(|(_, other)| *other != place) {
            tenants.push((tenant, place));
        }
        if tenants.len() == n {
            break;
        }
    }
    tenants
}

/// A worker at an origin that was out for all of these and is half open now.
fn half_open(tenants: &[(Tenant, Place)]) -> Worker {
    let worker = Worker::new();
    for round in 0..2 {
        for (n, (_, place)) in tenants.iter().enumerate() {
            for recipient in 0..20 {
                let whose = Whose::numbered(*place, 100 * n as u64 + recipient);
                worker.learn(Seen { whose, count: FAILED, ..seen(0, 0) });
            }
        }
        worker.memory.pass(Duration::from_secs(1));
        worker.learn(Seen { whose: Whose::numbered(tenants[round].1, 7), ..seen(1, 1) });
    }
    let phase = phase(&worker);
    let Phase::Open { until } = phase else { panic!("{phase:?}") };
    worker.memory.pass(until.since(worker.memory.now()) + Duration::from_secs(1));
    worker
}

fn phase(worker: &Worker) -> Phase {
    let now = worker.memory.now();
    worker.memory.state().origins[&origin(PUSH_SERVICE)].state.breaker().phase(now)
}

fn message(worker: &Worker, of: &(Tenant, Place), recipient: u64) -> Ask {
    let whose = Whose::numbered(of.1, recipient);
    Ask { tenant: of.0.clone(), whose, ..ask(worker.memory.now()) }
}

/// Whose of these become probes.
fn probes(worker: &Worker, asks: &[Ask]) -> Vec<Whose> {
    let admissions = worker.admit_all(asks);
    let went = asks.iter().zip(admissions);
    went.filter(|(_, admission)| matches!(admission, Admission::Go { probe: Some(ProbeOf::Origin), .. }))
        .map(|(ask, _)| ask.whose)
        .collect()
}

fn answer(worker: &Worker, probes: &[Whose], succeeds: impl Fn(&Whose) -> bool) {
    for whose in probes {
        let count = if succeeds(whose) { SUCCEEDED } else { FAILED };
        worker.learn(Seen { whose: *whose, count, probe: Some(ProbeOf::Origin), ..seen(0, 0) });
    }
}

/// The probes of a batch in which a hostile tenant has ten messages to its one recipient, and four others have two each.
fn probed() -> (Worker, Place, Vec<Whose>) {
    let tenants = tenants(5);
    let worker = half_open(&tenants);
    let flood = (0..10).map(|_| message(&worker, &tenants[0], 7));
    let others = tenants[1..].iter().flat_map(|tenant| [1, 2].map(|n| message(&worker, tenant, n)));
    let asks: Vec<Ask> = flood.chain(others).collect();
    let probes = probes(&worker, &asks);
    (worker, tenants[0].1, probes)
}

#[test]
fn probes_are_of_distinct_tenants_and_a_hostile_recipient_among_them_does_not_keep_it_open() {
    let (worker, hostile, probes) = probed();
    println!("{} probes, {} of the hostile tenant", probes.len(), of(hostile, &probes));
    assert_eq!((probes.len(), of(hostile, &probes)), (5, 1));
    answer(&worker, &probes, |whose| whose.tenant() != hostile);
    assert!(matches!(phase(&worker), Phase::Ramping { .. }), "{:?}", phase(&worker));
}

#[test]
fn an_accepting_hostile_recipient_does_not_close_a_failing_origin_s_breaker() {
    let (worker, hostile, probes) = probed();
    answer(&worker, &probes, |whose| whose.tenant() == hostile);
    assert!(matches!(phase(&worker), Phase::Open { .. }), "{:?}", phase(&worker));
}

fn of(tenant: Place, probes: &[Whose]) -> usize {
    probes.iter().filter(|whose| whose.tenant() == tenant).count()
}

#[test]
fn if_only_one_recipient_s_messages_come_they_decide_within_a_cooldown() {
    for succeeds in [true, false] {
        let tenants = tenants(5);
        let worker = half_open(&tenants);
        let began = worker.memory.now();
        while matches!(phase(&worker), Phase::HalfOpen { .. }) {
            let asks: Vec<Ask> = (0..10).map(|_| message(&worker, &tenants[0], 7)).collect();
            let probes = probes(&worker, &asks);
            answer(&worker, &probes, |_| succeeds);
            worker.memory.pass(Duration::from_secs(2));
        }
        let took = worker.memory.now().since(began).as_secs();
        println!("decided after {took} s: {}", phase(&worker).label());
        assert!((20..=30).contains(&took), "{took}");
        assert_eq!(matches!(phase(&worker), Phase::Ramping { .. }), succeeds);
    }
}
