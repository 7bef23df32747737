//! What the troubles of one tenant's messages do to the other tenants of an origin.

use std::time::Duration;

use redial_core::identity::Tenant;
use redial_core::protection::{Count, Place, Whose};
use redial_engine::ports::Clock as _;
use redial_engine::protection::{Admission, Ask, Seen};

use crate::harness::{origin, tenant};
use crate::protection::{PUSH_SERVICE, Worker, ask, seen};

/// Another tenant than the usual one, at another place.
fn neighbour() -> Tenant {
    let place = |tenant: &Tenant| Place::of(&origin(PUSH_SERVICE), tenant);
    let mut others = (0..).map(|n| Tenant::parse(&format!("neighbour-{n}")).expect("a tenant"));
    others.find(|other| place(other) != place(&tenant())).expect("there are many places")
}

/// Attempts of a tenant to one recipient, with the numbers of all, of failed and of limited ones.
fn of(tenant: &Tenant, recipient: u64, count: Count) -> Seen {
    let retry_after = (count.limited > 0).then_some(Duration::from_secs(900));
    let whose = Whose::numbered(Place::of(&origin(PUSH_SERVICE), tenant), recipient);
    Seen { count, whose, retry_after, ..seen(0, 0) }
}

fn goes(worker: &Worker, tenant: &Tenant) -> bool {
    let whose = Whose::numbered(Place::of(&origin(PUSH_SERVICE), tenant), 0);
    let ask = Ask { tenant: tenant.clone(), whose, ..ask(worker.memory.now()) };
    matches!(worker.admit(ask), Admission::Go { probe: None, .. })
}

#[test]
fn a_tenant_s_own_failures_and_429s_hold_back_no_other_tenant() {
    let (own, neighbour) = (tenant(), neighbour());
    let failing = Count { attempts: 40, failures: 40, ..Count::default() };
    let limited = Count { attempts: 40, limited: 40, ..Count::default() };
    let mild = Count { attempts: 40, limited: 2, ..Count::default() };
    for (case, trouble) in [("failures", failing), ("429", limited), ("a few 429", mild)] {
        for recipients in [1, 3] {
            for neighbours in [0, 20] {
                let case = format!("{case} of {recipients} recipients, {neighbours} attempts of neighbours");
                let worker = Worker::new();
                let well = Count { attempts: neighbours, ..Count::default() };
                worker.learn(of(&neighbour, 7, well));
                (0..recipients).for_each(|recipient| worker.learn(of(&own, recipient, trouble)));
                worker.memory.pass(Duration::from_secs(1));
                worker.learn(of(&own, 0, trouble));
                (0..30)
                    .for_each(|n| assert!(goes(&worker, &neighbour), "{case}: message {n} of a neighbour"));
                // Of three recipients that fail, or of one where nothing else is known.
                let is_held = trouble != mild && (recipients == 3 || neighbours == 0);
                assert!(!is_held || !goes(&worker, &own), "{case}");
            }
        }
    }
}

#[test]
fn what_concerns_two_tenants_concerns_everyone() {
    let (own, neighbour) = (tenant(), neighbour());
    let failing = |attempts| Count { attempts, failures: attempts, ..Count::default() };
    // Both at once, and one after the other.
    for both in [true, false] {
        let worker = Worker::new();
        worker.memory.state().has_events = true;
        worker.learn(of(&own, 0, failing(40)));
        if both {
            assert!(goes(&worker, &neighbour));
        }
        worker.learn(of(&neighbour, 1, failing(20)));
        (2..5).for_each(|recipient| worker.learn(of(&neighbour, recipient, failing(20))));
        worker.memory.pass(Duration::from_secs(2));
        worker.learn(of(&neighbour, 6, failing(1)));
        worker.memory.pass(Duration::from_secs(2));
        for tenant in [&own, &neighbour, &Tenant::parse("third").expect("a tenant")] {
            assert!(!goes(&worker, tenant), "{tenant}");
        }
        assert!(!worker.memory.state().origins[&origin(PUSH_SERVICE)].state.is_for_one_tenant());
    }
}
