//! A policy by its name, or from a file, and the changes that an option makes to it.

use std::path::Path;

use clap::Args;
use redial_core::{
    delivery_options::Class,
    policy::{Backoff, Jitter, Policy, WaitFactor, catalogue, parse},
    shape::ShapeError,
    time::Ttl,
};

use crate::{failure::Failure, input};

/// No policy is longer, in bytes.
pub const MOST_BYTES: u64 = 16_384;

/// Changes to a policy for one call.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "For this once")]
pub struct Overrides {
    /// Another wait factor: 10 to 200
    #[arg(long, value_name = "FACTOR", value_parser = clap::value_parser!(u16).range(10..=200))]
    f: Option<u16>,
    /// Another number of retries: 0 to 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    max_retries: Option<u32>,
    /// Without any randomness
    #[arg(long)]
    no_jitter: bool,
}

/// The policy of that name, or of that file where `given` is a path: with a `/` in it, ending in `.json`, or `-`.
pub fn named_or_file(given: &str) -> Result<Policy, Failure> {
    if is_path(given) {
        let path = Path::new(given);
        let text = input::read_text(path, MOST_BYTES)?;
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or(given);
        return parse::document(&text, name).map_err(|errors| Failure::Input(lines_of(given, &errors)));
    }
    let named = catalogue::packaged().get(given);
    named.map(|policy| Policy::clone(policy)).ok_or_else(|| {
        let names: Vec<_> = catalogue::packaged().names().collect();
        let would_do = format!("one of {}, or a file such as ./mine.json", names.join(", "));
        Failure::input(format!("no policy is named {given}: expected {would_do}"))
    })
}

/// The TTL that a policy's messages have unless they name one: its class's where the policy is a class's own.
pub fn usual_ttl(policy: &Policy) -> Ttl {
    let class = Class::ALL.into_iter().find(|class| class.label() == policy.name).unwrap_or_default();
    class.web_push_ttl()
}

fn is_path(given: &str) -> bool {
    given == input::STDIN || given.contains('/') || given.ends_with(".json")
}

/// One line for everything that is wrong with the policy of `source`.
pub fn lines_of(source: &str, errors: &[ShapeError]) -> Vec<String> {
    let source = if source == input::STDIN { "standard input" } else { source };
    errors.iter().map(|error| format!("{source}: {error}")).collect()
}

impl Overrides {
    /// Applies them.
    pub fn apply(self, mut policy: Policy) -> Result<Policy, Failure> {
        let nothing_to_change = self.f.is_none() && self.max_retries.is_none();
        let Some(retries) = &mut policy.retries else {
            if nothing_to_change {
                return Ok(policy);
            }
            return Err(Failure::input(format!("{} has no retries that could be changed", policy.name)));
        };
        if let Some(f) = self.f {
            let Backoff::WaitFactor(factor) = &mut retries.backoff else {
                return Err(Failure::input(format!(
                    "--f: {} has no wait_factor; wait-factor has",
                    policy.name
                )));
            };
            *factor = WaitFactor::new(f).expect("the option takes what a factor can be");
        }
        if let Some(max_retries) = self.max_retries {
            if let Backoff::Schedule(schedule) = &retries.backoff
                && max_retries > schedule.retries()
            {
                let (name, delays) = (&policy.name, schedule.retries());
                return Err(Failure::input(format!("--max-retries: {name} has {delays} delays and no more")));
            }
            retries.max_retries = max_retries;
        }
        if self.no_jitter {
            retries.jitter = Jitter::None;
        }
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input_errors(failure: Failure) -> Vec<String> {
        match failure {
            Failure::Input(lines) => lines,
            Failure::Failed(_) | Failure::Reported => panic!("{failure:?}"),
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_names() {
        let lines = input_errors(named_or_file("web_push").expect_err("no such name"));
        assert!(lines[0].contains("web-push") && lines[0].contains("./mine.json"), "{lines:?}");
    }

    #[test]
    fn all_errors_of_a_file_are_reported_with_its_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("mine.json");
        std::fs::write(&file, r#"{"max_retries": 101, "multiplier": 0}"#).expect("writable");
        let path = file.to_str().expect("a plain path");
        let lines = input_errors(named_or_file(path).expect_err("unfit"));
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.starts_with(path)), "{lines:?}");
        std::fs::write(&file, r#"{"retry_delays": [1, 2]}"#).expect("writable");
        assert_eq!(named_or_file(path).expect("valid").name, "mine");
    }

    #[test]
    fn a_change_that_does_not_fit_the_policy_is_refused() {
        let apply =
            |name: &str, overrides: Overrides| overrides.apply(named_or_file(name).expect("a preset"));
        let f = Overrides { f: Some(150), ..Overrides::default() };
        assert!(apply("wait-factor", f).is_ok());
        assert!(input_errors(apply("web-push", f).expect_err("no factor"))[0].contains("--f"));
        let more = Overrides { max_retries: Some(4), ..Overrides::default() };
        assert_eq!(apply("web-push", more).expect("fine").retries.expect("enabled").max_retries, 4);
        assert!(input_errors(apply("schedule-standard", more).expect_err("three"))[0].contains("3 delays"));
        assert!(input_errors(apply("none", more).expect_err("none"))[0].contains("no retries"));
        let flat = Overrides { no_jitter: true, ..Overrides::default() };
        assert!(apply("none", flat).is_ok());
        assert_eq!(apply("otp", flat).expect("fine").retries.expect("enabled").jitter, Jitter::None);
    }
}
