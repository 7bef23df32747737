//! `redial callbacks`: the webhook that a tenant's events are posted to.

use clap::Args;
use redial_core::{
    channel::Channel,
    identity::{SubscriptionId, SubscriptionKey, Tenant},
    subscription::State,
};
use redial_engine::ports::SubscriptionHealth as _;
use serde_json::json;

use crate::{
    arguments,
    failure::Failure,
    stack::{OnStack, Target, WORKERS_FOLLOW, variable},
    table::{Column, Narrow, Table},
    terminal::{say, width},
};

subcommands! {
    /// Posts the events of a tenant, signed, to a stored webhook of it
    ///
    /// Each event is a delivery of its own, with the retries, the breaker, the secrets and the dead letters of a webhook. Its own end makes
    /// no event. It needs a stack whose template's parameter Callbacks is on.
    #[command(after_help = "\
Examples:
  redial callbacks set --tenant acme --to hooks
  redial callbacks list
  redial callbacks clear --tenant acme")]
    Callbacks { Set(Set), Clear(Clear), List(List) }
}

/// Sets the webhook that a tenant's events are posted to, or replaces it
///
/// It is a stored subscription of the tenant, and a webhook's. Workers follow within 30 seconds. Events that are on their way go where the
/// callback was set to before.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial callbacks set --tenant acme --to hooks
  redial callbacks set --tenant acme --to hooks --json")]
pub(crate) struct Set {
    /// The tenant
    #[arg(long, value_parser = arguments::tenant)]
    tenant: Tenant,
    /// The id of the webhook's subscription
    #[arg(long, value_name = "SUBSCRIPTION", value_parser = arguments::subscription)]
    to: SubscriptionId,
    #[command(flatten)]
    on: OnStack,
}

/// Posts a tenant's events no longer
///
/// Workers follow within 30 seconds. Events that are on their way still go to the webhook. Exit status 1 means that none was set.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial callbacks clear --tenant acme")]
pub(crate) struct Clear {
    /// The tenant
    #[arg(long, value_parser = arguments::tenant)]
    tenant: Tenant,
    #[command(flatten)]
    on: OnStack,
}

/// Lists the callbacks of all tenants
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial callbacks list
  redial callbacks list --json | jq -r '.callbacks[] | .tenant'")]
pub(crate) struct List {
    #[command(flatten)]
    on: OnStack,
}

impl Set {
    async fn run(self) -> Result<(), Failure> {
        let target = self.on.target().await?;
        let key = SubscriptionKey { tenant: self.tenant.clone(), id: self.to.clone() };
        let found = target.subscriptions_without_secrets().get(&key).await?;
        let Some(found) = found else {
            return Err(Failure::reported(&format!("no subscription {key}: store the webhook first")));
        };
        if found.recipient.channel() != Channel::Webhook {
            return Err(Failure::reported(&format!(
                "{key} is a browser's subscription: a callback takes a webhook's"
            )));
        }
        let before = target.callbacks().set(&self.tenant, &self.to).await?;
        report(&self.on, &self.tenant, Some(&self.to), before.as_ref())?;
        if found.state == State::Disabled {
            say(
                "warning: the webhook is switched off: events become dead letters (endpoint_disabled) until it is enabled",
            );
        }
        warn(&target).await;
        Ok(())
    }
}

impl Clear {
    async fn run(self) -> Result<(), Failure> {
        let before = self.on.target().await?.callbacks().clear(&self.tenant).await?;
        if before.is_none() {
            return Err(Failure::reported(&format!("{} has no callback", self.tenant)));
        }
        report(&self.on, &self.tenant, None, before.as_ref())
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let callbacks = self.on.target().await?.callbacks().list().await?;
        if callbacks.is_empty() && !self.on.json {
            say("no callbacks");
            return Ok(());
        }
        let json_of =
            |(tenant, to): &(Tenant, SubscriptionId)| json!({"tenant": tenant.as_str(), "to": to.as_str()});
        let row = |(tenant, to): &(Tenant, SubscriptionId)| [tenant.to_string(), to.to_string()];
        let table = Table::new(["TENANT", "TO"].map(|it| Column::text(it).narrowed(0, Narrow::CutEnd)))
            .within(width())
            .with(callbacks.iter().map(row));
        self.on.print(
            || json!({"callbacks": callbacks.iter().map(json_of).collect::<Vec<_>>()}),
            || table.lines(),
        )
    }
}

fn report(
    on: &OnStack,
    tenant: &Tenant,
    to: Option<&SubscriptionId>,
    before: Option<&SubscriptionId>,
) -> Result<(), Failure> {
    let [to, before] = [to, before].map(|id| id.map(SubscriptionId::as_str));
    let words = |id: Option<&str>| id.unwrap_or("none").to_owned();
    on.print(
        || json!({"tenant": tenant.as_str(), "to": to, "before": before}),
        || vec![format!("{tenant}: callback {}; was {}", words(to), words(before))],
    )?;
    say(WORKERS_FOLLOW);
    Ok(())
}

/// Without the template's parameter no event is posted.
async fn warn(target: &Target) {
    let function = target.whole_configuration(&target.cleanup).await;
    if function.is_ok_and(|function| variable(&function, "CALLBACKS") != Some("on")) {
        say("warning: the template's parameter Callbacks is off, so no event is posted");
    }
}
