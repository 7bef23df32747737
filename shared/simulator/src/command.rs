//! `redial simulate`.

use std::{fs, io, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use redial_core::{
    policy::{Jitter, MAX_DELAY, Policy},
    time::Ttl,
};

use crate::{
    plot::check_name,
    simulate::{self, Contender, Outage, Rate, Scenario, Tenants, Workers},
};
use redial_console::{
    failure::Failure,
    policies::{named_or_file, usual_ttl},
    terminal::{bar, print, say, width},
};

/// Simulates an outage: what retry policies do to a provider, before a real outage shows it
///
/// Messages arrive evenly. The provider answers every request with 503 while it is out, and requests beyond its capacity with
/// 429. Each policy is simulated on its own, under the same conditions. What a failure means, what follows and where a message
/// waits is decided by the code that the functions run; only the clock is virtual, and the same seed gives the same result.
///
/// Compare policies by `after outage/s`, the most requests that arrive in any second after the outage: a policy that sends more
/// than the capacity keeps the provider down. `drained` is when the last message ended that ever failed or was held back,
/// `not sent` are dead letters by reason, `parked` is the share of waits longer than SQS can delay. In the JSON all times are in
/// seconds, `drained_at_s` from the start of the simulation, `p50_s` and `p99_s` from a message's arrival to its acceptance.
///
/// With --workers, messages are sent by that many workers, which protect the provider together as the functions do: each knows
/// what it saw itself and what it last read of the shared state. `in outage` counts the requests that arrive during the outage;
/// `deferrals` counts how often a message was held back, which uses no attempt. After an outage, the last line and `recovery` in the JSON
/// compare how the traffic came back with what the capacity allows.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial simulate --policy web-push --outage 5..35
  redial simulate --outage 5..35 --jitter full equal additive none -o herd.svg
  redial simulate --policy web-push otp ./mine.json --messages 100000 --rate 5000/s --outage 1m..5m --capacity 8000/s
  redial simulate --outage 10..20 --retry-after 60 --json | jq '.policies[0].peak_after_outage_per_second'
  redial simulate --workers 200 --breaker both --messages 100000 --rate 500/s --outage 0..10m --capacity 2000/s -o breaker.svg
  redial simulate --workers 50 --limit 50/s --tenants acme:1000,other:10")]
pub struct Simulate {
    /// Policies by name, or files: with a / in their path, or ending in .json
    #[arg(long = "policy", value_name = "NAME", num_args = 1.., default_value = "web-push")]
    policies: Vec<String>,
    /// Run every policy with each of these jitters instead of its own: full, equal, additive (by 0.3, or
    /// additive=FRACTION), bounded (by 1000, or bounded=MS), none
    #[arg(long, value_name = "KIND", num_args = 1.., value_parser = jitter)]
    jitter: Vec<Jitter>,
    /// Number of messages
    #[arg(long, value_name = "N", conflicts_with = "tenants", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=200_000_000))]
    messages: u32,
    /// Rate at which they arrive: 2000/s, 120/min, 90/h
    #[arg(long, value_name = "R/s", default_value = "2000/s", value_parser = Rate::parse)]
    rate: Rate,
    /// When the provider is out, counted from the start: 5..35, 1m..2m30s, 1h..2h [default: never]
    #[arg(long, value_name = "START..END", value_parser = Outage::parse)]
    outage: Option<Outage>,
    /// Rate of requests that the provider accepts, in bursts of at most a tenth of a second's worth
    #[arg(long, value_name = "C/s", default_value = "3000/s", value_parser = Rate::parse)]
    capacity: Rate,
    /// Seconds in the Retry-After header of its 503s and 429s [default: no header]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(0..=31_536_000))]
    retry_after: Option<u32>,
    /// TTL of each message, in seconds [default: that of its class: 60 for otp, 86400 for campaign, else 14400]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(0..=2_419_200))]
    ttl: Option<u32>,
    /// Time the provider takes to answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    latency: u64,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of workers that send and protect the provider together [default: no protection]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    workers: Option<u32>,
    /// Whether the workers spare a failing provider, by circuit breaker, pace and retry budget; both compares [default: on]
    #[arg(long, requires = "workers", hide_possible_values = true, value_name = "on|off|both")]
    breaker: Option<Breaker>,
    /// The operator's limit for the provider, which the workers keep to: 50/s
    #[arg(long, value_name = "R/s", requires = "workers", value_parser = Rate::parse)]
    limit: Option<Rate>,
    /// Delay until workers see what others have counted and written: 2, 2s, 1m [default: 0]
    #[arg(long, value_name = "TIME", requires = "workers", value_parser = simulate::lag)]
    counter_lag: Option<Duration>,
    /// Tenants and the number of their messages, in the order of arrival, instead of --messages: acme:1000,other:10
    #[arg(long, value_name = "NAME:N,…", value_parser = Tenants::parse)]
    tenants: Option<Tenants>,
    /// Draw the load over time, policies side by side, into a file whose name ends in .svg
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Breaker {
    On,
    Off,
    Both,
}

impl Breaker {
    const fn runs(self) -> &'static [bool] {
        match self {
            Self::On => &[true],
            Self::Off => &[false],
            Self::Both => &[false, true],
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{} cannot be written", path.display())]
struct Unwritable {
    path: PathBuf,
    source: io::Error,
}

impl Simulate {
    pub fn run(self) -> Result<(), Failure> {
        self.output.as_deref().map_or(Ok(()), check_name)?;
        let scenario = self.scenario()?;
        let contenders = self.contenders()?;

        let bar = bar(u64::from(scenario.messages()) * contenders.len() as u64, "simulating");
        let figures = simulate::simulate(&scenario, &contenders, &|ended| bar.inc(ended));
        bar.finish_and_clear();

        if self.json {
            print(&simulate::to_json(&figures))?;
        } else {
            simulate::lines(&scenario, &figures, width()).iter().try_for_each(|line| print(line))?;
        }
        if let Some(path) = &self.output {
            let picture = simulate::picture(&scenario, &figures);
            fs::write(path, picture).map_err(|source| Unwritable { path: path.clone(), source })?;
            say(&format!("{} written", path.display()));
        }
        Ok(())
    }

    fn scenario(&self) -> Result<Scenario, Failure> {
        let scenario = Scenario {
            tenants: self.tenants.clone().unwrap_or_else(|| Tenants::one(self.messages)),
            rate: self.rate,
            outage: self.outage,
            capacity: self.capacity,
            retry_after_s: self.retry_after,
            latency: Duration::from_millis(self.latency),
            seed: self.seed,
            workers: self.workers.map(|number| Workers {
                number,
                limit: self.limit,
                counter_lag: self.counter_lag.unwrap_or_default(),
            }),
        };
        scenario.check().map_err(Failure::input)?;
        Ok(scenario)
    }

    /// Every policy as it is, or once with each of the jitters; each of these as often as the breaker is to be tried.
    fn contenders(&self) -> Result<Vec<Contender>, Failure> {
        let mut contenders = Vec::new();
        for (name, policy) in policies(&self.policies)? {
            let ttl = self.ttl.map_or_else(|| usual_ttl(&policy), Ttl::from_secs);
            if self.jitter.is_empty() {
                contenders.extend(self.with_breakers(name, policy, ttl));
                continue;
            }
            for jitter in &self.jitter {
                let name = format!("{name}+{}", word(*jitter));
                let mut policy = policy.clone();
                if let Some(retries) = &mut policy.retries {
                    retries.jitter = *jitter;
                }
                contenders.extend(self.with_breakers(name, policy, ttl));
            }
        }
        Ok(contenders)
    }

    fn with_breakers(&self, name: String, policy: Policy, ttl: Ttl) -> Vec<Contender> {
        if self.workers.is_none() {
            return vec![Contender { name, policy, ttl, breaker: false }];
        }
        let runs = self.breaker.unwrap_or(Breaker::On).runs().iter();
        let contender = |breaker: &bool| Contender {
            name: format!("{name}, breaker {}", if *breaker { "on" } else { "off" }),
            policy: policy.clone(),
            ttl,
            breaker: *breaker,
        };
        runs.map(contender).collect()
    }
}

/// The policies of these names and files, by their names; the error lists everything that is wrong with any of them.
fn policies(names: &[String]) -> Result<Vec<(String, Policy)>, Failure> {
    let mut policies = Vec::new();
    let mut wrong = Vec::new();
    for name in names {
        match named_or_file(name) {
            Ok(policy) => policies.push((policy.name.clone(), policy)),
            Err(Failure::Input(lines)) => wrong.extend(lines),
            Err(failure @ (Failure::Failed(_) | Failure::Reported)) => return Err(failure),
        }
    }
    if wrong.is_empty() { Ok(policies) } else { Err(Failure::Input(wrong)) }
}

fn jitter(text: &str) -> Result<Jitter, String> {
    const KINDS: &str =
        "expected full, equal, none, additive=FRACTION (0 to 10) or bounded=MS (up to a year)";
    let (kind, size) = match text.split_once('=') {
        Some((kind, size)) => (kind, Some(size)),
        None => (text, None),
    };
    let jitter = match (kind, size) {
        ("full", None) => Some(Jitter::Full),
        ("equal", None) => Some(Jitter::Equal),
        ("none", None) => Some(Jitter::None),
        ("additive", size) => size
            .map_or(Ok(0.3), str::parse)
            .ok()
            .filter(|fraction| (0.0..=10.0).contains(fraction))
            .map(|fraction| Jitter::Additive { fraction }),
        ("bounded", size) => size
            .map_or(Ok(1_000), str::parse)
            .ok()
            .filter(|ms| Duration::from_millis(*ms) <= MAX_DELAY)
            .map(|ms| Jitter::Bounded { ms }),
        _ => None,
    };
    jitter.ok_or_else(|| KINDS.to_owned())
}

/// A jitter as the option writes it.
fn word(jitter: Jitter) -> String {
    match jitter {
        Jitter::Full => "full".to_owned(),
        Jitter::Equal => "equal".to_owned(),
        Jitter::Additive { fraction } => format!("additive={fraction}"),
        Jitter::Bounded { ms } => format!("bounded={ms}"),
        Jitter::WholeSeconds { most } => format!("whole-seconds={most}"),
        Jitter::None => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jitter_is_written_as_it_is_read() {
        for text in ["full", "equal", "none", "additive=0.3", "additive=10", "bounded=0", "bounded=1000"] {
            assert_eq!(jitter(text).map(word).as_deref(), Ok(text));
        }
        assert_eq!(jitter("additive"), Ok(Jitter::Additive { fraction: 0.3 }));
        assert_eq!(jitter("bounded"), Ok(Jitter::Bounded { ms: 1_000 }));
        for text in
            ["", "Full", "full=1", "additive=", "additive=-1", "additive=11", "additive=NaN", "bounded=1.5"]
        {
            assert!(jitter(text).expect_err(text).contains("additive=FRACTION"), "{text}");
        }
    }

    #[test]
    fn all_errors_of_the_policies_are_reported_at_once() {
        let names = ["web-push", "web_push", "./none.json", "nothing"].map(str::to_owned);
        let Err(Failure::Input(lines)) = policies(&names) else { panic!("three of them are unfit") };
        assert_eq!(lines.len(), 3, "{lines:?}");
    }
}
