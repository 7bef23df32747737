//! `redial limits`: how many attempts an origin gets, or a tenant may make, as an operator sets it. What a tenant may have stored is in
//! [`crate::quotas`].

use clap::{Args, ValueEnum};
use redial_core::rate::Rate;
use redial_engine::ports::Limited;
use serde_json::json;

use crate::{
    arguments,
    failure::Failure,
    origin, quotas,
    stack::{OnStack, WORKERS_FOLLOW},
    table::{Column, Narrow, Table},
    terminal::{say, width},
};

subcommands! {
    /// Sets how many attempts a second, minute or hour an origin gets, or a tenant may make, and how much a tenant may have stored
    ///
    /// Running workers follow within 30 seconds, and keep to the limit together. Messages over a limit are held back without using an
    /// attempt. A webhook's receiver can have a limit of its own as well: `rate` in its subscription. Quotas are about subscriptions,
    /// messages that wait, and dead letters.
    #[command(after_help = "\
Examples:
  redial limits list
  redial limits set origin https://partner.example 50/s
  redial limits set tenant acme 6000/min
  redial limits unset tenant acme
  redial limits quotas acme
  redial limits set-quota acme parked 50000")]
    Limits { List(List), Set(Set), Unset(Unset), Quotas(quotas::Show), SetQuota(quotas::Set), UnsetQuota(quotas::Unset) }
}

/// Lists the limits that were set for origins and tenants
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial limits list
  redial limits list --json \\
    | jq -r '.limits[] | select(.of == \"tenant\") | .name'")]
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
            Of::Origin => origin::parse("NAME", &self.name).map(Limited::Origin),
            Of::Tenant => arguments::tenant(&self.name).map(Limited::Tenant).map_err(|expected| {
                let found = arguments::found(&self.name);
                Failure::input(format!("NAME: expected a tenant: {expected}, found {found}"))
            }),
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
        let json_of = |(limited, rate): &(Limited, Rate)| {
            let (of, name) = parts(limited);
            json!({"of": of, "name": name, "rate": rate.to_string(), "per_second": rate.per_second()})
        };
        let row = |(limited, rate): &(Limited, Rate)| {
            let (of, name) = parts(limited);
            [of.to_owned(), name.to_owned(), rate.to_string()]
        };
        let columns =
            [Column::text("OF"), Column::text("NAME").narrowed(0, Narrow::CutEnd), Column::text("RATE")];
        let table = Table::new(columns).within(width()).with(limits.iter().map(row));
        self.on.print(|| json!({"limits": limits.iter().map(json_of).collect::<Vec<_>>()}), || table.lines())
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
    let (of, name) = parts(limited);
    let [after, before] = [after, before].map(|rate| rate.map(|rate| rate.to_string()));
    let words = |rate: &Option<String>| rate.as_deref().unwrap_or("no limit").to_owned();
    on.print(
        || json!({"of": of, "name": name, "rate": after, "before": before}),
        || vec![format!("{of} {name}: {}; was {}", words(&after), words(&before))],
    )?;
    say(WORKERS_FOLLOW);
    Ok(())
}

fn parts(limited: &Limited) -> (&'static str, &str) {
    match limited {
        Limited::Origin(origin) => ("origin", origin.as_str()),
        Limited::Tenant(tenant) => ("tenant", tenant.as_str()),
    }
}
