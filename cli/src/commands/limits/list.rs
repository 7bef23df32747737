//! `redial limits list`.

use clap::Args;
use redial_core::rate::Rate;
use redial_engine::ports::Limited;
use serde_json::{Value, json};

use super::{super::breakers, parts};
use crate::{
    failure::Failure,
    table::{Column, Table},
    target::TargetArgs,
    terminal::{print, say},
};

/// Lists the limits that were set for origins and tenants
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial limits list
  redial limits list --json | jq -r '.limits[] | select(.of == \"tenant\") | .name'")]
pub(crate) struct List {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl List {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let mut limits = breakers::protection(&self.target.resolve().await?).limits().await?;
        limits.sort_by(|(a, _), (b, _)| a.cmp(b));
        if self.json {
            let limits: Vec<Value> = limits.iter().map(json_of).collect();
            return Ok(print(&json!({"limits": limits}).to_string())?);
        }
        if limits.is_empty() {
            say("no limit is set");
            return Ok(());
        }
        table(&limits).lines().iter().try_for_each(|line| print(line))?;
        Ok(())
    }
}

fn json_of((limited, rate): &(Limited, Rate)) -> Value {
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

#[cfg(test)]
mod tests {
    use redial_core::{endpoint::Origin, identity::Tenant};

    use super::*;

    fn limits() -> [(Limited, Rate); 2] {
        let rate = |text| Rate::parse(text).expect("a rate");
        let origin = Origin::parse("https://partner.example").expect("an origin");
        let tenant = Tenant::parse("acme").expect("a tenant");
        [(Limited::Origin(origin), rate("50")), (Limited::Tenant(tenant), rate("90/h"))]
    }

    #[test]
    fn they_stand_below_each_other() {
        assert_eq!(
            table(&limits()).lines(),
            [
                "OF      NAME                     RATE",
                "origin  https://partner.example  50/s",
                "tenant  acme                     90/h",
            ]
        );
    }

    #[test]
    fn a_script_gets_the_rate_as_written_and_in_a_second() {
        let expected = json!({"of": "tenant", "name": "acme", "rate": "90/h", "per_second": 0.025});
        assert_eq!(json_of(&limits()[1]), expected);
    }
}
