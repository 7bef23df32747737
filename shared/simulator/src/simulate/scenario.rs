//! What is simulated: how many messages come how fast, what befalls the provider, and under which policies.

use std::time::Duration;

use redial_core::{
    identity::Attempt,
    policy::Policy,
    rate::Rate,
    time::{Deadline, Timestamp, Ttl},
};

use super::{
    outage::{LONGEST_S, Outage},
    tenants::Tenants,
};
use redial_console::duration;

/// The moment at which every simulation begins, in seconds of the epoch: midnight, so that buckets of waits begin where one
/// expects them.
const START_S: i64 = 1_798_761_600;

/// Reads a lag, a year at most; the error says what would do.
pub(crate) fn lag(text: &str) -> Result<Duration, String> {
    let lag = duration::parse_or_seconds(text)
        .ok_or("expected whole seconds, or days, hours, minutes and seconds: 2, 2s, 1m30s, 1h")?;
    if lag > Duration::from_secs(LONGEST_S.into()) {
        return Err(format!("it lasts {} s: expected {LONGEST_S} s (a year) at most", lag.as_secs()));
    }
    Ok(lag)
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Scenario {
    /// How many messages come, and whose they are.
    pub(crate) tenants: Tenants,
    pub(crate) rate: Rate,
    /// When the provider answers nothing but 503.
    pub(crate) outage: Option<Outage>,
    /// What the provider accepts; beyond it, it answers 429.
    pub(crate) capacity: Rate,
    /// The Retry-After of its refusals, in seconds.
    pub(crate) retry_after_s: Option<u32>,
    pub(crate) latency: Duration,
    /// What the jitter is drawn from.
    pub(crate) seed: u64,
    /// The workers that protect the provider, if there are any.
    pub(crate) workers: Option<Workers>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) policy: Policy,
    pub(crate) ttl: Ttl,
    /// Whether the scenario's workers spare a provider that fails; if not, they only keep to the operator's limit.
    pub(crate) breaker: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Workers {
    pub(crate) number: u32,
    pub(crate) limit: Option<Rate>,
    /// How long it takes until a worker can see what others wrote.
    pub(crate) counter_lag: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    /// From 0, in the order of arrival.
    pub(super) number: u32,
    /// The attempt that comes next, or is under way.
    pub(super) attempt: Attempt,
    pub(super) due: Timestamp,
    /// Whether it was ever held back.
    pub(super) held: bool,
}

impl Scenario {
    /// Whether it ends within a time that is simulated.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (messages, rate) = (self.messages(), self.rate);
        if rate.moment_of(messages) <= u64::from(LONGEST_S) * 1000 {
            return Ok(());
        }
        Err(format!(
            "{messages} messages at {rate} would take longer than a year to arrive: expected fewer, or a higher rate"
        ))
    }

    pub(crate) fn messages(&self) -> u32 {
        self.tenants.messages()
    }

    /// When message `number` (from 0) comes.
    pub(super) fn arrival(&self, number: u32) -> Timestamp {
        start().plus(Duration::from_millis(self.rate.moment_of(number)))
    }

    /// When a message's TTL is over.
    pub(super) fn deadline(&self, message: Message, contender: &Contender) -> Deadline {
        contender.ttl.deadline_from(self.arrival(message.number))
    }

    /// In a line, for people.
    pub(super) fn words(&self) -> String {
        let mut words = format!("{} messages at {}", self.messages(), self.rate);
        match self.outage {
            Some(outage) => words.push_str(&format!(", outage from {outage}")),
            None => words.push_str(", no outage"),
        }
        words.push_str(&format!(", capacity {}", self.capacity));
        if let Some(seconds) = self.retry_after_s {
            words.push_str(&format!(", Retry-After: {seconds}"));
        }
        words.push_str(&format!(", answers after {} ms, seed {}", self.latency.as_millis(), self.seed));
        if let Some(Workers { number, limit, counter_lag }) = &self.workers {
            words.push_str(&format!(", {number} workers"));
            if let Some(limit) = limit {
                words.push_str(&format!(", limit {limit}"));
            }
            if !counter_lag.is_zero() {
                words.push_str(&format!(", counters {} s late", counter_lag.as_secs_f64()));
            }
        }
        words
    }
}

pub(super) fn start() -> Timestamp {
    Timestamp::from_secs(START_S)
}

pub(super) fn second_of(at: Timestamp) -> u32 {
    u32::try_from(at.since(start()).as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{super::fixtures::scenario, *};

    #[test]
    fn it_begins_at_the_beginning_of_a_day() {
        assert_eq!(start().to_rfc3339_seconds(), "2027-01-01T00:00:00Z");
        assert_eq!(second_of(scenario().arrival(3_999)), 1);
    }

    #[test]
    fn a_flow_of_more_than_a_year_is_refused() {
        assert_eq!(scenario().check(), Ok(()));
        let slow = Scenario { rate: Rate::parse("1/h").expect("a rate"), ..scenario() };
        assert!(slow.check().expect_err("27 months").contains("20000 messages at 1/h"));
    }

    #[test]
    fn a_lag_is_a_year_at_most() {
        for (text, seconds) in [("0", 0), ("2", 2), ("2s", 2), ("1m30s", 90), ("365d", 31_536_000)] {
            assert_eq!(lag(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for (text, said) in [("2.5s", "1m30s"), ("", "1m30s"), ("9000h", "a year"), ("31536001", "a year")] {
            assert!(lag(text).expect_err(text).contains(said), "{text}");
        }
    }

    #[test]
    fn its_description_names_every_option() {
        let scenario = Scenario { retry_after_s: Some(60), ..scenario() };
        assert_eq!(
            scenario.words(),
            "20000 messages at 2000/s, outage from 5 s to 35 s, capacity 3000/s, Retry-After: 60, \
             answers after 100 ms, seed 1"
        );
        let mut workers = Workers { number: 200, limit: None, counter_lag: Duration::ZERO };
        let with =
            |workers: &Workers| Scenario { workers: Some(workers.clone()), ..scenario.clone() }.words();
        assert!(with(&workers).ends_with(", seed 1, 200 workers"));
        (workers.limit, workers.counter_lag) = (Rate::parse("50/s").ok(), Duration::from_secs(2));
        assert!(with(&workers).ends_with(", 200 workers, limit 50/s, counters 2 s late"));
        assert!(Scenario { outage: None, ..scenario }.words().contains("no outage"));
    }
}
