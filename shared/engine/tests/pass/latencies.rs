//! How long messages take, from when they are queued or due to their first attempt and to their acceptance.

use std::time::Duration;

use redial_core::lane::Lane;
use redial_core::metric::Metric;
use redial_memory::senders::answered;

use crate::harness::{Harness, Whom};
use crate::scenarios::retry_after;

impl Harness {
    /// In milliseconds, of all lanes.
    fn measured(&self, latency: Metric) -> Vec<f64> {
        let state = self.state();
        state.measured.iter().filter(|(metric, ..)| *metric == latency).map(|(.., ms)| *ms).collect()
    }
}

#[test]
fn a_retry_counts_in_the_delivery_and_not_in_the_dispatch() {
    let harness = Harness::finished(Whom::Browser, vec![retry_after(503, 20)], "");
    let (first, accepted) =
        (harness.measured(Metric::DispatchLatency), harness.measured(Metric::DeliveryLatency));
    assert!(matches!(first[..], [ms] if ms < 1_000.0), "{first:?}");
    // The delay has a smear of a tenth.
    assert!(matches!(accepted[..], [ms] if (20_000.0..23_000.0).contains(&ms)), "{accepted:?}");
}

#[test]
fn a_retry_whose_subscription_is_read_slowly_is_late() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.state().slow.insert("load", Duration::from_secs(3));
    harness.will_answer("m", vec![retry_after(503, 20)]);
    harness.produce(&Harness::message("m", ""));
    harness.run();
    let late = harness.measured(Metric::RetryOverhead);
    assert!(matches!(late[..], [ms] if (2_900.0..5_000.0).contains(&ms)), "{late:?}");
}

#[test]
fn what_a_breaker_or_a_limit_held_back_is_no_late_retry() {
    let mut harness = Harness::new();
    harness.push_many("m", 60, "");
    harness.state().usual_answer = Some(answered(503));
    harness.run_until(|it| it.count(Metric::BreakersOpened) == 1);
    harness.state().usual_answer = None;
    let before = harness.measured(Metric::RetryOverhead).len();
    harness.run();
    let late = harness.measured(Metric::RetryOverhead);
    assert!(late[before..].iter().all(|ms| *ms < 2_000.0), "{late:?}");
}

#[test]
fn a_scheduled_message_is_measured_from_when_it_is_due() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    let due = harness.now().plus(Duration::from_secs(3_600)).to_rfc3339();
    harness.produce(&Harness::message("m", &format!(r#", "deliver_at": "{due}""#)));
    harness.run();
    let first = harness.measured(Metric::DispatchLatency);
    assert!(matches!(first[..], [ms] if ms < 120_000.0), "{first:?}");
}

#[test]
fn latencies_are_of_the_message_s_lane_and_what_failed_has_only_the_first() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    harness.will_answer("m", vec![answered(400)]);
    harness.produce_in_bulk(&Harness::message("m", ""));
    harness.run();
    let state = harness.state();
    assert!(
        matches!(state.measured[..], [(Metric::DispatchLatency, Some(Lane::Bulk), _)]),
        "{:?}",
        state.measured
    );
}
