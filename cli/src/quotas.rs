//! `redial limits quotas`, `set-quota` and `unset-quota`: how much of what lasts a tenant has, and may have.

use clap::Args;
use redial_adapters::system::System;
use redial_core::{
    identity::Tenant,
    quota::{Limit, Limits, Quota},
};
use redial_engine::ports::{Clock as _, Quotas as _, Usage};
use serde_json::{Value, json};

use crate::{
    arguments,
    failure::Failure,
    stack::{Configuration, OnStack, Target, WORKERS_FOLLOW, variable},
    table::{Column, Table},
    terminal::say,
};

/// Shows what a tenant uses of its quotas
///
/// USED: its stored subscriptions; its messages that wait longer than 15 minutes; its dead letters whose bodies are kept. The last two
/// are counted when they are stored, and until the quarter of an hour, or the day, in which they are gone has ended: a purge does not
/// lower them. SET is `tenant` for a quota of its own, and `stack` for the template's parameter. In JSON, a limit that is off or unknown is
/// null, and `off` tells them apart.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial limits quotas acme
  redial limits quotas acme --json \\
    | jq '.quotas[] | select(.limit != null and .used >= .limit)'")]
pub(crate) struct Show {
    /// The tenant
    #[arg(value_name = "TENANT", value_parser = arguments::tenant)]
    tenant: Tenant,
    #[command(flatten)]
    on: OnStack,
}

/// Gives a tenant a quota of its own, or replaces it
///
/// Over its quota of subscriptions, the HTTP API answers 403; renewals pass. Over that of parked messages it answers 403 to scheduled ones,
/// and messages from a queue end as dead letters `quota_exceeded`. Dead letters over their quota are listed without a body, and cannot be
/// replayed. Workers follow within 30 seconds. A quota that the template switches off is not counted, also not for one tenant.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial limits set-quota acme subscriptions 5000000
  redial limits set-quota acme parked 50000 --json
  redial limits set-quota acme dead_letters off")]
pub(crate) struct Set {
    #[command(flatten)]
    whose: Whose,
    /// The most there may be: a whole number, or `off` for any number
    #[arg(value_name = "LIMIT", allow_negative_numbers = true, value_parser = Limit::parse)]
    limit: Limit,
    #[command(flatten)]
    on: OnStack,
}

/// Removes a tenant's own quota: the stack's holds again
///
/// Workers follow within 30 seconds. Exit status 1 means that it had none.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial limits unset-quota acme parked")]
pub(crate) struct Unset {
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    on: OnStack,
}

#[derive(Debug, Args)]
struct Whose {
    /// The tenant
    #[arg(value_name = "TENANT", value_parser = arguments::tenant)]
    tenant: Tenant,
    /// What is limited: subscriptions, parked or dead_letters
    #[arg(value_name = "QUOTA", value_parser = quota)]
    quota: Quota,
}

fn quota(text: &str) -> Result<Quota, &'static str> {
    Quota::from_label(text).ok_or("expected subscriptions, parked or dead_letters")
}

/// A quota as a tenant has it.
struct Row {
    quota: Quota,
    usage: Usage,
    /// The stack's; `None` if it cannot be read.
    of_stack: Option<Limit>,
}

impl Row {
    /// What holds: without the stack's, nothing is counted.
    fn limit(&self) -> Option<Limit> {
        if self.of_stack == Some(Limit::Off) { Some(Limit::Off) } else { self.usage.limit.or(self.of_stack) }
    }

    fn set_by(&self) -> &'static str {
        let is_own = self.usage.limit.is_some() && self.of_stack != Some(Limit::Off);
        if is_own { "tenant" } else { "stack" }
    }

    fn json(&self) -> Value {
        json!({
            "quota": self.quota.label(),
            "used": self.usage.used,
            "limit": self.limit().and_then(Limit::number),
            "off": self.limit() == Some(Limit::Off),
            "set": self.set_by(),
        })
    }

    fn cells(&self) -> [String; 4] {
        let limit = self.limit().map_or_else(|| "unknown".to_owned(), |limit| limit.to_string());
        [self.quota.label().to_owned(), self.usage.used.to_string(), limit, self.set_by().to_owned()]
    }
}

impl Show {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let target = self.on.target().await?;
        let function = target.whole_configuration(&target.dispatch).await;
        let (quotas, now) = (target.quotas(), System.now());
        let mut rows = Vec::new();
        for quota in Quota::ALL {
            let usage = quotas.usage(&self.tenant, quota, now).await?;
            let of_stack = function.as_ref().ok().map(|function| of_stack(function, quota));
            rows.push(Row { quota, usage, of_stack });
        }
        let columns =
            [Column::text("QUOTA"), Column::number("USED"), Column::number("LIMIT"), Column::text("SET")];
        let table = Table::new(columns).with(rows.iter().map(Row::cells));
        let json = || {
            let quotas: Vec<Value> = rows.iter().map(Row::json).collect();
            json!({"tenant": self.tenant.as_str(), "quotas": quotas})
        };
        self.on.print(json, || table.lines())
    }
}

/// As the function reads it.
fn of_stack(function: &Configuration, quota: Quota) -> Limit {
    let name = match quota {
        Quota::Subscriptions => "QUOTA_SUBSCRIPTIONS",
        Quota::Parked => "QUOTA_PARKED",
        Quota::DeadLetters => "QUOTA_DEAD_LETTERS",
    };
    variable(function, name).and_then(|text| Limit::parse(text).ok()).unwrap_or(Limits::DEFAULT)
}

impl Set {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let Whose { tenant, quota } = &self.whose;
        let target = self.on.target().await?;
        let before = target.quotas().set(tenant, *quota, self.limit).await?;
        report(&self.on, &self.whose, Some(self.limit), before)?;
        warn(&target, *quota).await;
        Ok(())
    }
}

impl Unset {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let Whose { tenant, quota } = &self.whose;
        let before = self.on.target().await?.quotas().unset(tenant, *quota).await?;
        if before.is_none() {
            return Err(Failure::reported(&format!("{tenant} has no quota of its own of {}", quota.noun())));
        }
        report(&self.on, &self.whose, None, before)
    }
}

fn report(on: &OnStack, whose: &Whose, after: Option<Limit>, before: Option<Limit>) -> Result<(), Failure> {
    let Whose { tenant, quota } = whose;
    let [after, before] = [after, before].map(|limit| limit.map(|limit| limit.to_string()));
    let words = |limit: &Option<String>| limit.as_deref().unwrap_or("the stack's").to_owned();
    let json =
        || json!({"tenant": tenant.as_str(), "quota": quota.label(), "limit": after, "before": before});
    on.print(json, || vec![format!("{tenant} {quota}: {}; was {}", words(&after), words(&before))])?;
    say(WORKERS_FOLLOW);
    Ok(())
}

/// A quota that is not counted holds nothing back.
async fn warn(target: &Target, quota: Quota) {
    let function = target.whole_configuration(&target.dispatch).await;
    if function.is_ok_and(|function| of_stack(&function, quota) == Limit::Off) {
        say("warning: the template switches this quota off, so it is not counted and holds nothing back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::configuration;

    fn row(own: Option<Limit>, of_stack: Option<Limit>) -> Row {
        Row { quota: Quota::Parked, usage: Usage { used: 7, limit: own }, of_stack }
    }

    #[test]
    fn a_tenant_s_own_quota_stands_before_the_stack_s_unless_that_is_off() {
        let most = |number| Some(Limit::Most(number));
        for (own, of_stack, limit, set) in [
            (None, most(9), "9", "stack"),
            (most(5), most(9), "5", "tenant"),
            (Some(Limit::Off), most(9), "off", "tenant"),
            (most(5), Some(Limit::Off), "off", "stack"),
            (most(5), None, "5", "tenant"),
            (None, None, "unknown", "stack"),
        ] {
            assert_eq!(row(own, of_stack).cells(), ["parked", "7", limit, set].map(str::to_owned));
        }
        let shown = json!({"quota": "parked", "used": 7, "limit": 5, "off": false, "set": "tenant"});
        assert_eq!(row(most(5), most(9)).json(), shown);
        for (of_stack, off) in [(Some(Limit::Off), true), (None, false)] {
            let shown = json!({"quota": "parked", "used": 7, "limit": null, "off": off, "set": "stack"});
            assert_eq!(row(None, of_stack).json(), shown);
        }
    }

    #[test]
    fn the_stack_s_quotas_are_read_as_its_functions_read_them() {
        let function = configuration(30, &[("QUOTA_PARKED", "off"), ("QUOTA_DEAD_LETTERS", "12")]);
        let read = Quota::ALL.map(|quota| of_stack(&function, quota));
        assert_eq!(read, [Limits::DEFAULT, Limit::Off, Limit::Most(12)]);
    }
}
