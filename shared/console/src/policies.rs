//! A policy given by name or file, with overrides for one command.

use std::path::Path;

use clap::Args;
use redial_core::{
    delivery_options::Class,
    policy::{Backoff, Jitter, Policy, WaitFactor, catalogue, parse},
    shape::ShapeError,
    slip::meant,
    time::Ttl,
};

use crate::{failure::Failure, input};

/// The longest policy, in bytes.
pub const MOST_BYTES: u64 = 16_384;

#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Overrides for this command")]
pub struct Overrides {
    /// Wait factor: 10 to 200
    #[arg(long, value_name = "FACTOR", value_parser = clap::value_parser!(u16).range(10..=200))]
    f: Option<u16>,
    /// Number of retries: 0 to 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    max_retries: Option<u32>,
    /// No randomness
    #[arg(long)]
    no_jitter: bool,
}

/// `given` is a path if it has a `/`, ends in `.json`, or is `-`.
pub fn named_or_file(given: &str) -> Result<Policy, Failure> {
    if given == input::STDIN || given.contains('/') || given.ends_with(".json") {
        let path = Path::new(given);
        let text = input::read_text(path, MOST_BYTES)?;
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or(given);
        return parse::document(&text, name).map_err(|errors| Failure::Input(lines_of(given, &errors)));
    }
    let named = catalogue::packaged().get(given);
    named.map(|policy| Policy::clone(policy)).ok_or_else(|| {
        let names: Vec<_> = catalogue::packaged().names().collect();
        let expected = format!("one of {}, or a file such as ./mine.json", names.join(", "));
        let meant = meant(given, names).map(|name| format!(" (did you mean {name}?)")).unwrap_or_default();
        Failure::input(format!("no policy is named {given}{meant}: expected {expected}"))
    })
}

/// The TTL of messages that name none: that of the class whose own policy this is, or of the default class.
pub fn usual_ttl(policy: &Policy) -> Ttl {
    let class = Class::ALL.into_iter().find(|class| class.label() == policy.name).unwrap_or_default();
    class.web_push_ttl()
}

/// One line for each error in the policy of `source`.
pub fn lines_of(source: &str, errors: &[ShapeError]) -> Vec<String> {
    let source = if source == input::STDIN { "standard input" } else { source };
    errors.iter().map(|error| format!("{source}: {error}")).collect()
}

impl Overrides {
    pub fn apply(self, mut policy: Policy) -> Result<Policy, Failure> {
        let Some(retries) = &mut policy.retries else {
            return match (self.f, self.max_retries) {
                (None, None) => Ok(policy),
                (_, _) => Err(Failure::input(format!("{} has no retries to override", policy.name))),
            };
        };
        if let Some(f) = self.f {
            let Backoff::WaitFactor(factor) = &mut retries.backoff else {
                let unlike = "unlike the policy wait-factor";
                return Err(Failure::input(format!("--f: {} has no wait_factor, {unlike}", policy.name)));
            };
            *factor = WaitFactor::new(f).expect("invariant: the option has the range of a factor");
        }
        if let Some(max_retries) = self.max_retries {
            if let Backoff::Schedule(schedule) = &retries.backoff
                && max_retries > schedule.retries()
            {
                let (name, delays) = (&policy.name, schedule.retries());
                return Err(Failure::input(format!("--max-retries: {name} has only {delays} delays")));
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

    #[test]
    fn overrides_change_what_a_policy_has() {
        let apply =
            |name: &str, overrides: Overrides| overrides.apply(named_or_file(name).expect("a preset"));
        let [f, more, flat] = [
            Overrides { f: Some(150), ..Overrides::default() },
            Overrides { max_retries: Some(4), ..Overrides::default() },
            Overrides { no_jitter: true, ..Overrides::default() },
        ];
        for (name, overrides, wrong) in [
            ("wait-factor", f, None),
            ("web-push", f, Some("--f: web-push has no wait_factor, unlike the policy wait-factor")),
            ("schedule-standard", more, Some("--max-retries: schedule-standard has only 3 delays")),
            ("none", more, Some("none has no retries to override")),
            ("none", flat, None),
        ] {
            match apply(name, overrides) {
                Ok(_) => assert_eq!(None, wrong, "{name} {overrides:?}"),
                Err(Failure::Input(lines)) => assert_eq!(Some(&*lines.concat()), wrong),
                Err(failure) => panic!("{failure:?}"),
            }
        }
        let retries = |overrides| apply("otp", overrides).expect("fine").retries.expect("enabled");
        assert_eq!((retries(more).max_retries, retries(flat).jitter), (4, Jitter::None));
    }
}
