//! A request that never left says what failed: in the log line, the ledger, its history and the dead letter.

use redial_core::ledger::State;
use redial_core::outcome::{NotSent, Outcome};
use redial_core::reason::Reason;
use redial_testkit::memory::Death;
use redial_testkit::memory::sender::answered;

use crate::harness::Harness;
use crate::roads::Whom;
use crate::webhooks::{ended, sent_to};

const ONE_ATTEMPT: &str = r#","retry":{"max_retries":0}"#;

/// What the dead letters say, each with the number of attempts.
fn described(harness: &Harness) -> Vec<(Option<String>, u32)> {
    let state = harness.memory.state();
    state.described.values().map(|it| (it.detail.clone(), it.attempts)).collect()
}

/// The label of each attempt of `m` in the history.
fn history(harness: &Harness) -> Vec<Option<String>> {
    let state = harness.memory.state();
    state.attempts.values().flatten().map(|past| past.not_sent.clone()).collect()
}

#[test]
fn a_failed_handshake_says_what_failed_wherever_it_is_read() {
    for (failure, label) in [
        (NotSent::Dns, "dns"),
        (NotSent::Connect, "connect"),
        (NotSent::ConnectTimeout, "connect_timeout"),
        (NotSent::Tls, "tls"),
    ] {
        for whom in [Whom::Hook, Whom::Address] {
            let harness = sent_to(whom, vec![Outcome::NotSent(failure)], ONE_ATTEMPT);
            assert_eq!(ended(&harness), (State::Failed, Some(Reason::RetriesExhausted)));
            assert_eq!(harness.entry("m").expect("in the ledger").not_sent, Some(failure));
            assert_eq!(harness.memory.state().not_sent, [failure], "the log line");
            assert_eq!(history(&harness), [Some(label.to_owned())]);
            assert_eq!(described(&harness), [(Some(format!("not_sent: {label}")), 1)]);
        }
    }
}

#[test]
fn a_failed_handshake_is_forgotten_once_an_attempt_is_answered() {
    let answers = vec![Outcome::NotSent(NotSent::Tls), answered(503), answered(204)];
    let harness = sent_to(Whom::Address, answers, "");
    assert_eq!(ended(&harness), (State::Sent, None));
    assert_eq!(harness.entry("m").expect("in the ledger").not_sent, None);
    assert_eq!(history(&harness), [Some("tls".to_owned()), None, None]);
}

#[test]
fn a_dead_letter_after_a_crash_names_the_same_failed_handshake() {
    let answers = || vec![Outcome::NotSent(NotSent::Tls)];
    let trace = sent_to(Whom::Address, answers(), ONE_ATTEMPT).memory.state().trace.clone();
    let record = trace.iter().position(|effect| *effect == "record").expect("it is recorded");
    let mut harness = Harness::new();
    let message = Whom::Address.prepare(&harness, answers(), ONE_ATTEMPT);
    harness.memory.state().death = Some(Death::After(record + 1));
    harness.produce(&message);
    harness.run();
    assert_eq!(ended(&harness), (State::Failed, Some(Reason::RetriesExhausted)));
    assert_eq!(described(&harness), [(Some("not_sent: tls".to_owned()), 1)]);
}
