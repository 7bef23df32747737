//! A breaker whose whole traffic is last attempts: messages that are never tried again if a probe fails.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use redial_core::endpoint::Origin;
use redial_core::ledger::State;
use redial_core::protection::{Cooldowns, OriginState, Phase};
use redial_engine::ports::StoredOrigin;

use crate::harness::Harness;

const MESSAGES: u64 = 12;

/// Policies that allow a single attempt.
const SINGLE_ATTEMPT: [&str; 2] = [r#","retry":"none""#, r#","retry":{"max_retries":0}"#];

/// Opens the breaker of an origin for a minute.
fn open(harness: &Harness, origin: &str) -> Origin {
    let origin = Origin::parse(origin).expect("valid");
    let mut state = OriginState::default();
    let (now, mut rng) = (harness.now(), StdRng::seed_from_u64(1));
    state.open(Duration::from_secs(60), now, &Cooldowns::default(), &mut rng);
    harness.memory.state().origins.insert(origin.clone(), StoredOrigin { state, version: 1 });
    origin
}

/// Runs the messages that were produced, one each `every`, for two hours; answers how many were sent.
fn sent(harness: &mut Harness, origin: &Origin) -> usize {
    let end = harness.now().plus(Duration::from_secs(7200));
    harness.run_to(end);
    let sent = (0..MESSAGES).filter(|n| harness.state_of(&format!("m{n}")) == Some(State::Sent)).count();
    let breaker = *harness.memory.state().origins[origin].state.breaker();
    let phase = breaker.phase(harness.now());
    assert!(matches!(phase, Phase::Ramping { .. } | Phase::Closed), "{sent} were sent: {phase:?}");
    sent
}

#[test]
fn a_healthy_origin_gets_all_twelve_messages_that_have_one_attempt_each() {
    for fields in SINGLE_ATTEMPT {
        for every in [0, 1, 15, 25, 40, 300] {
            let mut harness = Harness::new();
            let origin = open(&harness, "https://push.example");
            for n in 0..MESSAGES {
                harness.subscribe(&format!("m{n}"));
                let body = Harness::message(&format!("m{n}"), &format!(r#","ttl":3600{fields}"#));
                harness.produce_after(Duration::from_secs(every * n), &body);
            }
            assert_eq!(sent(&mut harness, &origin), 12, "{fields}, one each {every} s");
        }
    }
}

#[test]
fn a_healthy_webhook_gets_all_twelve_messages_that_have_one_attempt_each() {
    for fields in SINGLE_ATTEMPT {
        for every in [0, 1, 15, 25, 40, 300] {
            let mut harness = Harness::new();
            let origin = open(&harness, "https://hooks.example");
            harness.subscribe_hook("m");
            for n in 0..MESSAGES {
                let body = Harness::message_to("m", &format!("m{n}"), fields);
                harness.produce_after(Duration::from_secs(every * n), &body);
            }
            assert_eq!(sent(&mut harness, &origin), 12, "{fields}, one each {every} s");
        }
    }
}
