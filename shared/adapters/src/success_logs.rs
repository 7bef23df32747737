//! Which successful attempts have a log line of their own.
//!
//! Most attempts succeed, and their lines are most of what CloudWatch charges for. Whatever is chosen, each invocation has one line with its
//! sums, and every attempt that did not succeed has its own.

use std::fmt;
use std::time::Duration;

use redial_core::hash::fnv1a;

/// One in this number of deliveries has the lines of its successes in a sample.
pub const SAMPLE: u64 = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SuccessLogs {
    #[default]
    All,
    /// Those of one delivery in a hundred, by its id, so that `redial status` knows of each whether it is one of them.
    Sampled,
    None,
}

impl SuccessLogs {
    pub const ALL: [Self; 3] = [Self::All, Self::Sampled, Self::None];

    pub const fn label(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Sampled => "sampled",
            Self::None => "none",
        }
    }

    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.label() == label)
    }

    /// Whether the successes of the delivery with this id have lines.
    pub fn logs(self, id: &str) -> bool {
        match self {
            Self::All => true,
            Self::Sampled => fnv1a(id.bytes()).is_multiple_of(SAMPLE),
            Self::None => false,
        }
    }
}

impl fmt::Display for SuccessLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// The successes of an invocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Successes {
    pub(crate) sent: u64,
    /// Those that have a line of their own.
    pub(crate) logged: u64,
    took: Duration,
    longest: Duration,
}

impl Successes {
    pub(crate) fn add(&mut self, is_logged: bool, took_ms: u64) {
        let took = Duration::from_millis(took_ms);
        self.sent += 1;
        self.logged += u64::from(is_logged);
        self.took += took;
        self.longest = self.longest.max(took);
    }

    /// How long they took on average, and the longest of them, in milliseconds.
    pub(crate) fn took_ms(&self) -> (u64, u64) {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        (ms(self.took) / self.sent.max(1), ms(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_one_delivery_in_a_hundred_whatever_the_ids_are_like() {
        for prefix in ["order-", "01HZX3K9T2", "", "acme_2026-11-23_newsletter_"] {
            let logged =
                |logs: SuccessLogs| (0..100_000).filter(|n| logs.logs(&format!("{prefix}{n}"))).count();
            let sampled = logged(SuccessLogs::Sampled);
            assert!((800..=1_200).contains(&sampled), "{prefix}: {sampled}");
            assert_eq!((logged(SuccessLogs::All), logged(SuccessLogs::None)), (100_000, 0));
        }
    }

    /// Another hash would make `redial status` wrong about what an earlier release has logged.
    #[test]
    fn the_sample_stays_the_same() {
        let sampled: Vec<u32> =
            (0..400).filter(|n| SuccessLogs::Sampled.logs(&format!("order-{n}"))).collect();
        assert_eq!(sampled, [224, 251]);
    }

    #[test]
    fn labels_are_read_as_they_are_written() {
        for logs in SuccessLogs::ALL {
            assert_eq!(SuccessLogs::from_label(logs.label()), Some(logs));
        }
        assert_eq!(SuccessLogs::from_label("some"), None);
    }

    #[test]
    fn successes_have_a_mean_and_a_longest() {
        let mut successes = Successes::default();
        assert_eq!(successes.took_ms(), (0, 0));
        successes.add(true, 10);
        successes.add(false, 30);
        assert_eq!((successes.sent, successes.logged, successes.took_ms()), (2, 1, (20, 30)));
    }
}
