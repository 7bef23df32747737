//! What a stack did in the last minutes: as a whole, and what each lane sent and failed to send.

use std::time::Duration;

use redial_core::{lane::Lane, metric::Metric};

/// Metrics of the whole stack.
pub(super) const COUNTED: [Metric; 8] = [
    Metric::Attempts,
    Metric::Sent,
    Metric::Retried,
    Metric::Deferred,
    Metric::DeadLetters,
    Metric::FailedNoRetries,
    Metric::Expired,
    Metric::Gone,
];

/// Metrics of each lane: what was sent, and what failed.
pub(super) const ENDS: [Metric; 3] = [Metric::Sent, Metric::DeadLetters, Metric::FailedNoRetries];

pub(super) const PERIOD: Duration = Duration::from_secs(5 * 60);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Flow {
    /// Of the whole stack, in the order of [`COUNTED`].
    pub(super) counted: [u64; COUNTED.len()],
    /// Of each lane, in the order of [`ENDS`].
    pub(super) ends: [[u64; ENDS.len()]; Lane::ALL.len()],
}

impl Flow {
    /// Adds to a metric of the whole stack, or of a lane; other metrics are ignored.
    pub(super) fn add(&mut self, metric: Metric, lane: Option<Lane>, n: u64) {
        let place = match lane {
            None => COUNTED.iter().position(|it| *it == metric).map(|at| &mut self.counted[at]),
            Some(lane) => {
                ENDS.iter().position(|it| *it == metric).map(|at| &mut self.ends[lane as usize][at])
            }
        };
        if let Some(place) = place {
            *place += n;
        }
    }

    pub(super) fn sent(&self, lane: Lane) -> u64 {
        self.ends[lane as usize][0]
    }

    pub(super) fn failed(&self, lane: Lane) -> u64 {
        self.ends[lane as usize].iter().skip(1).sum()
    }
}

/// A metric's name: `DeadLetters` as `dead letters`.
pub(super) fn in_words(metric: Metric) -> String {
    let mut words = String::new();
    for (at, letter) in metric.label().char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_s_failures_are_its_dead_letters_and_those_without_retries() {
        let mut flow = Flow::default();
        for (metric, lane, n) in [
            (Metric::Sent, None, 9),
            (Metric::Sent, Some(Lane::Bulk), 7),
            (Metric::DeadLetters, Some(Lane::Bulk), 2),
            (Metric::FailedNoRetries, Some(Lane::Bulk), 1),
            (Metric::Sent, Some(Lane::Transactional), 2),
            (Metric::Parked, None, 5),
            (Metric::Gone, Some(Lane::Bulk), 5),
        ] {
            flow.add(metric, lane, n);
        }
        assert_eq!(flow.counted, [0, 9, 0, 0, 0, 0, 0, 0]);
        assert_eq!((flow.sent(Lane::Bulk), flow.failed(Lane::Bulk)), (7, 3));
        assert_eq!((flow.sent(Lane::Transactional), flow.failed(Lane::Transactional)), (2, 0));
    }

    #[test]
    fn a_metric_is_named_in_words() {
        assert_eq!(in_words(Metric::FailedNoRetries), "failed no retries");
    }
}
