//! `redial limits set | unset`.

use clap::{Args, ValueEnum};
use redial_core::rate::Rate;
use redial_engine::ports::Limited;
use serde_json::{Value, json};

use super::{
    super::{breakers, ids, origin},
    parts,
};
use crate::{
    failure::Failure,
    target::TargetArgs,
    terminal::{print, say},
};

/// Sets a limit, in place of one that was set before
///
/// All workers together keep to it. What is over it is held back without using an attempt, and comes back in order; where there
/// are several tenants, each in its turn. Workers follow within 30 seconds.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial limits set origin https://partner.example 50/s
  redial limits set tenant acme 6000/min --json")]
pub(crate) struct Set {
    #[command(flatten)]
    whose: Whose,
    /// At most so many attempts a second, minute or hour: 50/s, 120/min, 90/h
    #[arg(value_name = "RATE", value_parser = Rate::parse)]
    rate: Rate,
    #[command(flatten)]
    output: Output,
}

/// Takes a limit away
///
/// Workers follow within 30 seconds. Exit status 1 says that none was set.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial limits unset origin https://partner.example
  redial limits unset tenant acme")]
pub(crate) struct Unset {
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Whose {
    /// What the limit is about
    #[arg(value_name = "OF")]
    of: Of,
    /// The origin, https://host or https://host:port; or the tenant
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Of {
    /// All attempts to it
    Origin,
    /// All attempts of it
    Tenant,
}

#[derive(Debug, Args)]
struct Output {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Whose {
    fn limited(&self) -> Result<Limited, Failure> {
        let limited = match self.of {
            Of::Origin => origin::parse(&self.name).map(Limited::Origin),
            Of::Tenant => ids::tenant(&self.name)
                .map(Limited::Tenant)
                .map_err(|would_do| format!("expected a tenant: {would_do}")),
        };
        limited.map_err(|error| Failure::input(format!("NAME: {error}")))
    }
}

impl Set {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let limited = self.whose.limited()?;
        let store = breakers::protection(&self.output.target.resolve().await?);
        let before = store.set_limit(&limited, self.rate).await?;
        self.output.tell(&limited, Some(self.rate), before)
    }
}

impl Unset {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let limited = self.whose.limited()?;
        let store = breakers::protection(&self.output.target.resolve().await?);
        let before = store.remove_limit(&limited).await?;
        if before.is_none() {
            let (of, name) = parts(&limited);
            say(&format!("no limit is set for {of} {name}"));
            return Err(Failure::Reported);
        }
        self.output.tell(&limited, None, before)
    }
}

impl Output {
    fn tell(&self, limited: &Limited, after: Option<Rate>, before: Option<Rate>) -> Result<(), Failure> {
        if self.json {
            print(&json_of(limited, after, before).to_string())?;
        } else {
            print(&words(limited, after, before))?;
        }
        say("running workers follow within 30 seconds");
        Ok(())
    }
}

fn json_of(limited: &Limited, after: Option<Rate>, before: Option<Rate>) -> Value {
    let (of, name) = parts(limited);
    let text = |rate: Option<Rate>| rate.map(|rate| rate.to_string());
    json!({"of": of, "name": name, "rate": text(after), "before": text(before)})
}

fn words(limited: &Limited, after: Option<Rate>, before: Option<Rate>) -> String {
    let (of, name) = parts(limited);
    let text = |rate: Option<Rate>| rate.map_or("no limit".to_owned(), |rate| rate.to_string());
    format!("{of} {name}: {}; was {}", text(after), text(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(of: Of, name: &str) -> Result<Limited, String> {
        match (Whose { of, name: name.to_owned() }).limited() {
            Ok(limited) => Ok(limited),
            Err(Failure::Input(lines)) => Err(lines.concat()),
            Err(failure) => panic!("{failure:?}"),
        }
    }

    #[test]
    fn what_stood_there_is_told_beside_what_stands_there() {
        let rate = |text| Some(Rate::parse(text).expect("a rate"));
        let acme = limited(Of::Tenant, "acme").expect("a tenant");
        assert_eq!(words(&acme, rate("50"), None), "tenant acme: 50/s; was no limit");
        assert_eq!(words(&acme, None, rate("90/h")), "tenant acme: no limit; was 90/h");
        let partner = limited(Of::Origin, "https://Partner.example/").expect("an origin");
        let expected =
            json!({"of": "origin", "name": "https://partner.example", "rate": "50/s", "before": "120/min"});
        assert_eq!(json_of(&partner, rate("50/s"), rate("120/min")), expected);
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_what_would_do() {
        assert!(
            limited(Of::Tenant, "Acme")
                .expect_err("upper case")
                .starts_with("NAME: expected a tenant: 1 to 63")
        );
        let error = limited(Of::Origin, "https://a.example/s3cret").expect_err("a path");
        assert!(error.starts_with("NAME: expected an origin, ") && !error.contains("s3cret"), "{error}");
    }
}
