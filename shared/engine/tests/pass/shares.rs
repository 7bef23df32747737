//! Tenants' shares of the workers: turns by weight where tenants wait for each other.

use std::collections::BTreeMap;
use std::time::Duration;

use redial_core::identity::Tenant;
use redial_core::rate::Rate;
use redial_core::share::{Share, Weight};
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock as _, Limited};
use redial_engine::protection::{Admission, Ask};
use redial_memory::Memory;

use crate::harness::{Harness, origin};
use crate::protection::{PUSH_SERVICE, Worker, ask};

fn named(name: &str) -> Tenant {
    Tenant::parse(name).expect("valid")
}

fn weighs(memory: &Memory, tenant: &str, weight: &str) {
    let share = Share { weight: Weight::parse(weight).ok(), ..Share::default() };
    memory.state().shares.insert(named(tenant), share);
}

/// A store in which the push service has a limit, and workers on it.
fn limited(rate: &str, workers: u32) -> Vec<Worker> {
    let memory = Memory::at(Timestamp::from_secs(1_800_000_000));
    let rate = Rate::parse(rate).expect("valid");
    memory.state().limits.insert(Limited::Origin(origin(PUSH_SERVICE)), rate);
    (0..workers).map(|number| Worker::on(&memory, number)).collect()
}

/// What a minute brings: how many messages of each tenant go, and the sum of how long the others have to wait.
fn a_minute(workers: &[Worker], batch: &[(&str, usize)]) -> BTreeMap<String, (usize, Duration)> {
    let mut came: BTreeMap<String, (usize, Duration)> = BTreeMap::new();
    for _ in 0..60 * 5 {
        for worker in workers {
            let now = worker.memory.now();
            let of = |(name, number): &(&str, usize)| vec![Ask { tenant: named(name), ..ask(now) }; *number];
            let asks: Vec<Ask> = batch.iter().flat_map(of).collect();
            for (ask, admission) in asks.iter().zip(worker.admit_all(&asks)) {
                let of = came.entry(ask.tenant.to_string()).or_default();
                match admission {
                    Admission::Go { .. } => of.0 += 1,
                    Admission::Later { at } => of.1 += at.since(now),
                    other @ (Admission::LinesUp { .. } | Admission::Seatless { .. } | Admission::TooLate) => {
                        panic!("{other:?}")
                    }
                }
            }
            worker.memory.pass(Duration::from_millis(200) / u32::try_from(workers.len()).expect("few"));
        }
    }
    came
}

fn went(came: &BTreeMap<String, (usize, Duration)>, tenant: &str) -> usize {
    came.get(tenant).map_or(0, |(went, _)| *went)
}

#[test]
fn slots_of_a_shared_limit_go_to_tenants_by_their_weights() {
    for workers in [1, 4] {
        let all = limited("20/s", workers);
        weighs(&all[0].memory, "paid", "3");
        let came = a_minute(&all, &[("free", 5), ("paid", 5)]);
        let (free, paid) = (went(&came, "free"), went(&came, "paid"));
        assert!(free + paid >= 1_140, "the limit is used up: {came:?}");
        let share = paid as f64 / (free + paid) as f64;
        assert!((0.72..=0.78).contains(&share), "{workers} workers: {share}");
        // What waits is to come back three times as soon.
        let (of_free, of_paid) = (came["free"].1.as_secs_f64(), came["paid"].1.as_secs_f64());
        assert!(of_free > 1.5 * of_paid, "{workers} workers: {of_free} {of_paid}");
    }
}

#[test]
fn equal_weights_share_a_limit_equally_despite_unequal_traffic() {
    let all = limited("20/s", 2);
    let came = a_minute(&all, &[("loud", 40), ("quiet", 4)]);
    let (loud, quiet) = (went(&came, "loud"), went(&came, "quiet"));
    assert!(loud.abs_diff(quiet) <= 60, "{loud} {quiet}");
}

#[test]
fn a_tenant_that_waits_alone_has_every_slot() {
    let all = limited("20/s", 2);
    weighs(&all[0].memory, "paid", "100");
    let came = a_minute(&all, &[("free", 10)]);
    assert!(went(&came, "free") >= 1_140, "{came:?}");
}

#[test]
fn a_weight_that_is_set_holds_within_thirty_seconds() {
    let all = limited("20/s", 2);
    let batch = [("free", 5), ("paid", 5)];
    let before = a_minute(&all, &batch);
    assert!(went(&before, "free").abs_diff(went(&before, "paid")) <= 60, "{before:?}");
    weighs(&all[0].memory, "paid", "9");
    for _ in 0..31 {
        let now = all[0].memory.now();
        for worker in &all {
            worker.admit(Ask { tenant: named("paid"), ..ask(now) });
        }
        all[0].memory.pass(Duration::from_secs(1));
    }
    let after = a_minute(&all, &batch);
    assert!(went(&after, "paid") > 7 * went(&after, "free"), "{after:?}");
}

/// Whose messages were sent, in the order in which they were.
fn sent(harness: &Harness) -> Vec<String> {
    let tenant = |url: &str| url.rsplit('/').next().unwrap_or_default().split('-').next().map(str::to_owned);
    harness.state().sent.iter().filter_map(|push| tenant(&push.endpoint)).collect()
}

#[test]
fn an_invocation_takes_up_tenants_in_turn_by_their_weights() {
    let mut harness = Harness::new();
    weighs(&harness.memory, "paid", "3");
    let mut produced = Vec::new();
    // The weights are read with the first batch.
    for (name, number) in [("free", 200), ("paid", 60)] {
        for n in 0..number {
            let id = format!("{name}-{n}");
            let to = Harness::push_target(&id);
            produced.push(harness.produce(&format!(
                r#"{{"tenant":"{name}","id":"{id}","to":{{"web_push":{to}}},"payload":"hello"}}"#
            )));
        }
    }
    let first: Vec<String> = vec![produced[0].clone(), produced[200].clone()];
    let incoming = harness.receive(&first);
    let back = harness.invoke_with(incoming);
    harness.acknowledge(&first, &back);
    let rest: Vec<String> = produced.iter().filter(|id| !first.contains(id)).cloned().collect();
    let incoming = harness.receive(&rest);
    let back = harness.invoke_with(incoming);
    assert!(back.is_empty());
    let order = sent(&harness);
    assert_eq!(order.len(), 260);
    let paid = order[2..78].iter().filter(|tenant| *tenant == "paid").count();
    assert!((56..=58).contains(&paid), "{paid} of the first 76 turns");
}
