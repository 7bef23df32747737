//! The provider: down during the outage, and otherwise of limited capacity.
//!
//! Its capacity is a token bucket that is refilled continuously and holds no more than a tenth of a second's worth: a
//! provider has no memory of having been idle. It is kept in whole numbers, in parts of a token, so that no rounding adds up.

use std::time::Duration;

use redial_core::{
    outcome::{Outcome, Response},
    rate::Rate,
    time::Timestamp,
};

use super::scenario::{Scenario, start};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Accepted,
    /// 429: beyond its capacity.
    Limited,
    /// 503: the outage.
    Unavailable,
}

#[derive(Debug)]
pub(super) struct Provider {
    outage: Option<(Timestamp, Timestamp)>,
    capacity: Capacity,
    retry_after: Option<String>,
}

impl Provider {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let at = |second: u32| start().plus(Duration::from_secs(second.into()));
        Self {
            outage: scenario.outage.map(|outage| (at(outage.start_s), at(outage.end_s))),
            capacity: Capacity::new(scenario.capacity),
            retry_after: scenario.retry_after_s.map(|seconds| seconds.to_string()),
        }
    }

    /// Takes a request; requests come in the order of time.
    pub(super) fn receive(&mut self, now: Timestamp) -> Answer {
        if self.outage.is_some_and(|(start, end)| (start..end).contains(&now)) {
            return Answer::Unavailable;
        }
        if self.capacity.take(now) { Answer::Accepted } else { Answer::Limited }
    }

    /// The answer as the sender sees it, who has it at `at`.
    pub(super) fn outcome(&self, answer: Answer, at: Timestamp) -> Outcome {
        let (status, retry_after) = match answer {
            Answer::Accepted => (201, None),
            Answer::Limited => (429, self.retry_after.as_ref()),
            Answer::Unavailable => (503, self.retry_after.as_ref()),
        };
        let headers = retry_after.map(|value| ("retry-after".to_owned(), value.clone()));
        Outcome::Response(Response { status, headers: headers.into_iter().collect(), body: Vec::new(), at })
    }
}

/// Tokens, counted in parts of which `token` make one; `per_ms` parts come in a millisecond.
#[derive(Debug)]
struct Capacity {
    token: u64,
    per_ms: u64,
    full: u64,
    level: u64,
    refilled: Timestamp,
}

impl Capacity {
    fn new(rate: Rate) -> Self {
        let (per_ms, token) = rate.ratio();
        // A tenth of a second's worth, but always room for one: else a slow provider would never accept anything.
        let full = per_ms.saturating_mul(100).max(token);
        Self { token, per_ms, full, level: full, refilled: start() }
    }

    fn take(&mut self, now: Timestamp) -> bool {
        let elapsed_ms = u64::try_from(now.since(self.refilled).as_millis()).unwrap_or(u64::MAX);
        self.refilled = now;
        self.level = self.level.saturating_add(elapsed_ms.saturating_mul(self.per_ms)).min(self.full);
        let enough = self.level >= self.token;
        if enough {
            self.level -= self.token;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::scenario;
    use super::*;

    fn ms(ms: u64) -> Timestamp {
        start().plus(Duration::from_millis(ms))
    }

    fn accepted(provider: &mut Provider, times: impl Iterator<Item = u64>) -> usize {
        times.filter(|at| provider.receive(ms(*at)) == Answer::Accepted).count()
    }

    #[test]
    fn an_outage_begins_with_its_first_second_and_ends_before_its_last() {
        let mut provider = Provider::new(&scenario());
        for (at, answer) in [
            (4_999, Answer::Accepted),
            (5_000, Answer::Unavailable),
            (34_999, Answer::Unavailable),
            (35_000, Answer::Accepted),
        ] {
            assert_eq!(provider.receive(ms(at)), answer, "{at}");
        }
    }

    #[test]
    fn it_accepts_its_capacity_and_a_tenth_of_a_second_s_worth_at_once() {
        let mut provider = Provider::new(&Scenario { outage: None, ..scenario() });
        assert_eq!(accepted(&mut provider, std::iter::repeat_n(0, 1_000)), 300);
        // Ten requests a millisecond for a second: three of them are within 3000/s.
        assert_eq!(accepted(&mut provider, (1..=1_000).flat_map(|at| [at; 10])), 3_000);
        // An hour of rest leaves no more than a tenth of a second's worth.
        assert_eq!(accepted(&mut provider, std::iter::repeat_n(3_600_000, 1_000)), 300);
    }

    #[test]
    fn a_slow_provider_accepts_one_at_a_time_exactly_on_time() {
        let capacity = Rate::parse("7/min").expect("a rate");
        let mut provider = Provider::new(&Scenario { outage: None, capacity, ..scenario() });
        assert_eq!(accepted(&mut provider, 0..60_000), 7);
        assert_eq!(accepted(&mut provider, 60_000..6_000_000), 7 * 99);
    }

    #[test]
    fn refusals_alone_carry_the_retry_after() {
        let provider = Provider::new(&Scenario { retry_after_s: Some(60), ..scenario() });
        for (answer, status, retry_after) in [
            (Answer::Accepted, 201, None),
            (Answer::Limited, 429, Some("60")),
            (Answer::Unavailable, 503, Some("60")),
        ] {
            let Outcome::Response(response) = provider.outcome(answer, ms(0)) else { panic!("an answer") };
            assert_eq!((response.status, response.header("retry-after")), (status, retry_after));
        }
    }
}
