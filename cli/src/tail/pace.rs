//! How long to wait before the next call to CloudWatch Logs.
//!
//! Its quota of FilterLogEvents is a few calls a second for a whole account and region, and whoever looks for what is wrong
//! shares it with everyone who does. So there is a pause after each round, as long as the round itself took if that was
//! longer; and where the service throttles or does not answer, ever longer ones.

use std::time::Duration;

use super::source::Trouble;

/// The least pause between two rounds.
pub(crate) const POLL: Duration = Duration::from_secs(2);

const FIRST: Duration = Duration::from_secs(1);

const LONGEST: Duration = Duration::from_secs(30);

/// So many failures in a row are no passing trouble: about two minutes.
const PATIENCE: u32 = 8;

/// Counts what went wrong since it last went well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pace {
    /// Whether it ever went well.
    worked: bool,
    troubles: u32,
}

impl Pace {
    /// It went well.
    pub(crate) fn well(&mut self) {
        *self = Self { worked: true, troubles: 0 };
    }

    /// After that, the pause before another try; `None` if none is worth it.
    pub(crate) fn after(&mut self, trouble: &Trouble) -> Option<Duration> {
        self.troubles += 1;
        let again = match trouble {
            // It is there, and only busy: who follows goes on.
            Trouble::Throttled { .. } => self.worked || self.troubles < PATIENCE,
            // What never worked is more likely a wrong endpoint, or no credentials.
            Trouble::Passing { .. } => self.worked && self.troubles < PATIENCE,
            Trouble::Final { .. } => false,
        };
        again.then(|| FIRST.saturating_mul(1 << (self.troubles - 1).min(5)).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> String {
        "words".to_owned()
    }

    fn pauses(pace: &mut Pace, trouble: &Trouble, times: usize) -> Vec<Option<u64>> {
        (0..times).map(|_| pace.after(trouble).map(|pause| pause.as_secs())).collect()
    }

    #[test]
    fn pauses_grow_until_it_goes_well() {
        let mut pace = Pace::default();
        pace.well();
        let throttled = Trouble::Throttled { words: words() };
        let grown = [1, 2, 4, 8, 16, 30, 30, 30, 30].map(Some);
        assert_eq!(pauses(&mut pace, &throttled, 9), grown);
        pace.well();
        assert_eq!(pauses(&mut pace, &throttled, 1), [Some(1)]);
    }

    #[test]
    fn what_does_not_pass_is_given_up() {
        let passing = Trouble::Passing { words: words() };
        assert_eq!(Pace::default().after(&passing), None);
        let mut pace = Pace::default();
        pace.well();
        assert_eq!(pauses(&mut pace, &passing, 8).last(), Some(&None));
        pace.well();
        assert_eq!(pace.after(&Trouble::Final { group: words(), words: words() }), None);
        let throttled = Trouble::Throttled { words: words() };
        assert_eq!(pauses(&mut Pace::default(), &throttled, 8).last(), Some(&None));
    }
}
