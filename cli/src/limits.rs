//! `redial limits`: how many attempts an origin gets, or a tenant may make, as an operator sets it.

use clap::{Args, ValueEnum};
use redial_core::rate::Rate;
use redial_engine::ports::Limited;
use serde_json::{Value, json};

use crate::{
    arguments,
    failure::Failure,
    stack::OnStack,
    table::{Column, Table},
    terminal::say,
};

subcommands! {
    /// Sets how many attempts a second, minute or hour an origin gets, or a tenant may make
    ///
    /// Running workers follow within 30 seconds, and keep to the limit together. Messages over a limit are held back without using an
    /// attempt. A webhook's receiver can have a limit of its own as well: `rate` in its subscription.
    #[command(after_help = "\
Examples:
  redial limits list
  redial limits set origin https://partner.example 50/s
  redial limits set tenant acme 6000/min
  redial limits unset tenant acme")]
    Limits { List(List), Set(Set), Unset(Unset) }
}

/// Lists the limits that were set for origins and tenants
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial limits list
  redial limits list --json | jq -r '.limits[] | select(.of == \"tenant\") | .name'")]
pub(crate) struct List {
    #[command(flatten)]
    on: OnStack,
}

/// Sets a limit, or replaces it
///
/// All workers keep to it together. Messages over the limit are held back without using an attempt, and come back in order, tenants
/// taking turns. Workers follow within 30 seconds.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial limits set origin https://partner.example 50/s
  redial limits set tenant acme 6000/min --json")]
pub(crate) struct Set {
    #[command(flatten)]
    whose: Whose,
    /// The most attempts a second, minute or hour: 50/s, 120/min, 90/h
    #[arg(value_name = "RATE", value_parser = Rate::parse)]
    rate: Rate,
    #[command(flatten)]
    on: OnStack,
}

/// Removes a limit
///
/// Workers follow within 30 seconds. Exit status 1 means that none was set.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial limits unset origin https://partner.example
  redial limits unset tenant acme")]
pub(crate) struct Unset {
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    on: OnStack,
}

#[derive(Debug, Args)]
struct Whose {
    /// What is limited
    #[arg(value_name = "OF")]
    of: Of,
    /// The origin, https://host or https://host:port, or the tenant
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Of {
    /// All attempts to an origin
    Origin,
    /// All attempts of a tenant
    Tenant,
}

impl Whose {
    fn limited(&self) -> Result<Limited, Failure> {
        match self.of {
            Of::Origin => arguments::origin("NAME", &self.name).map(Limited::Origin),
            Of::Tenant => arguments::tenant(&self.name)
                .map(Limited::Tenant)
                .map_err(|expected| Failure::input(format!("NAME: expected a tenant: {expected}"))),
        }
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let mut limits = self.on.target().await?.protection().limits().await?;
        limits.sort_by(|(a, _), (b, _)| a.cmp(b));
        if limits.is_empty() && !self.on.json {
            say("no limits");
            return Ok(());
        }
        let json = || json!({"limits": limits.iter().map(listed_json).collect::<Vec<_>>()});
        self.on.print(json, || table(&limits).lines())
    }
}

impl Set {
    async fn run(self) -> Result<(), Failure> {
        let limited = self.whose.limited()?;
        let before = self.on.target().await?.protection().set_limit(&limited, self.rate).await?;
        report(&self.on, &limited, Some(self.rate), before)
    }
}

impl Unset {
    async fn run(self) -> Result<(), Failure> {
        let limited = self.whose.limited()?;
        let before = self.on.target().await?.protection().remove_limit(&limited).await?;
        if before.is_none() {
            let (of, name) = parts(&limited);
            return Err(Failure::reported(&format!("no limit is set for {of} {name}")));
        }
        report(&self.on, &limited, None, before)
    }
}

fn report(on: &OnStack, limited: &Limited, after: Option<Rate>, before: Option<Rate>) -> Result<(), Failure> {
    let (json, words) = shown(limited, after, before);
    on.print(|| json, || vec![words])?;
    say("running workers follow within 30 seconds");
    Ok(())
}

fn parts(limited: &Limited) -> (&'static str, &str) {
    match limited {
        Limited::Origin(origin) => ("origin", origin.as_str()),
        Limited::Tenant(tenant) => ("tenant", tenant.as_str()),
    }
}

fn listed_json((limited, rate): &(Limited, Rate)) -> Value {
    let (of, name) = parts(limited);
    json!({"of": of, "name": name, "rate": rate.to_string(), "per_second": rate.per_second()})
}

fn table(limits: &[(Limited, Rate)]) -> Table {
    let row = |(limited, rate): &(Limited, Rate)| {
        let (of, name) = parts(limited);
        [of.to_owned(), name.to_owned(), rate.to_string()]
    };
    Table::new(["OF", "NAME", "RATE"].map(Column::text)).with(limits.iter().map(row))
}

/// A change as JSON and in words.
fn shown(limited: &Limited, after: Option<Rate>, before: Option<Rate>) -> (Value, String) {
    let (of, name) = parts(limited);
    let [after, before] = [after, before].map(|rate| rate.map(|rate| rate.to_string()));
    let json = json!({"of": of, "name": name, "rate": after, "before": before});
    let [after, before] = [after, before].map(|rate| rate.unwrap_or_else(|| "no limit".to_owned()));
    (json, format!("{of} {name}: {after}; was {before}"))
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
    fn a_change_is_shown_with_the_limit_before() {
        let rate = |text| Some(Rate::parse(text).expect("a rate"));
        let acme = limited(Of::Tenant, "acme").expect("a tenant");
        assert_eq!(shown(&acme, rate("50"), None).1, "tenant acme: 50/s; was no limit");
        assert_eq!(shown(&acme, None, rate("90/h")).1, "tenant acme: no limit; was 90/h");
        let partner = limited(Of::Origin, "https://Partner.example/").expect("an origin");
        let expected =
            json!({"of": "origin", "name": "https://partner.example", "rate": "50/s", "before": "120/min"});
        assert_eq!(shown(&partner, rate("50/s"), rate("120/min")).0, expected);
    }

    #[test]
    fn an_invalid_name_is_refused_with_the_expected_form() {
        let error = limited(Of::Tenant, "Acme").expect_err("upper case");
        assert!(error.starts_with("NAME: expected a tenant: 1 to 63"), "{error}");
        let error = limited(Of::Origin, "https://a.example/s3cret").expect_err("a path");
        assert!(error.starts_with("NAME: expected an origin, ") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn limits_are_aligned_and_json_has_the_rate_as_written_and_per_second() {
        let rate = |text| Rate::parse(text).expect("a rate");
        let partner = limited(Of::Origin, "https://partner.example").expect("an origin");
        let acme = limited(Of::Tenant, "acme").expect("a tenant");
        let limits = [(partner, rate("50")), (acme, rate("90/h"))];
        assert_eq!(
            table(&limits).lines(),
            [
                "OF      NAME                     RATE",
                "origin  https://partner.example  50/s",
                "tenant  acme                     90/h",
            ]
        );
        let expected = json!({"of": "tenant", "name": "acme", "rate": "90/h", "per_second": 0.025});
        assert_eq!(listed_json(&limits[1]), expected);
    }
}
