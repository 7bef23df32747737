//! `redial subscriptions list --failing | enable`: receivers that do not answer well, and those that are sent to again.

use clap::Args;
use redial_adapters::system::System;
use redial_core::{
    identity::{SubscriptionId, SubscriptionKey, Tenant},
    subscription::Subscription,
    time::Timestamp,
};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::super::ids;
use crate::{
    failure::Failure,
    table::{Column, Table},
    target::TargetArgs,
    terminal::{print, say},
};

/// Lists a tenant's webhooks that fail or are switched off, those first that have failed longest
///
/// A failure counts until the next success. A receiver that answers 410 is switched off (`disabled`) at once, and one that
/// has failed for five days without one success with the next message that is given up or the next failed probe of a breaker.
/// Messages to it are then dead letters, endpoint_disabled, until `redial subscriptions enable`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial subscriptions list --failing --tenant acme
  redial subscriptions list --failing --tenant acme --json | jq -r '.subscriptions[] | select(.state == \"disabled\") | .id'")]
pub(crate) struct List {
    /// Those that fail or are switched off: there is no other list
    #[arg(long, required = true)]
    failing: bool,
    /// Whose
    #[arg(long, value_parser = ids::tenant)]
    tenant: Tenant,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// Sends to a subscription again that was switched off, whatever for
///
/// Its receiver's failures are forgotten. Messages that were dead letters meanwhile are not sent by this. Exit status 1 says
/// that there is no such subscription.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  redial subscriptions enable hooks --tenant acme")]
pub(crate) struct Enable {
    /// Its id within the tenant
    #[arg(value_name = "ID", value_parser = ids::subscription)]
    id: SubscriptionId,
    /// Whose it is
    #[arg(long, value_parser = ids::tenant)]
    tenant: Tenant,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl List {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let store = self.target.resolve().await?.subscriptions().await?;
        let failing = store.failing(&self.tenant).await?;
        if self.json {
            let failing: Vec<Value> = failing.iter().map(json_of).collect();
            return Ok(print(&json!({"subscriptions": failing}).to_string())?);
        }
        if failing.is_empty() {
            say(&format!("no webhook of {} fails", self.tenant));
            return Ok(());
        }
        table(&failing).lines().iter().try_for_each(|line| print(line))?;
        Ok(())
    }
}

impl Enable {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let key = SubscriptionKey { tenant: self.tenant, id: self.id };
        let store = self.target.resolve().await?.subscriptions().await?;
        if !store.enable(&key, System.now()).await? {
            say(&format!("no subscription {key}"));
            return Err(Failure::Reported);
        }
        if self.json {
            let line = json!({"tenant": key.tenant.as_str(), "id": key.id.as_str(), "state": "active"});
            return Ok(print(&line.to_string())?);
        }
        print(&format!("{key}: active"))?;
        Ok(())
    }
}

fn json_of(failing: &Subscription) -> Value {
    json!({
        "tenant": failing.key.tenant.as_str(),
        "id": failing.key.id.as_str(),
        "state": failing.state.label(),
        "origin": failing.recipient.endpoint().origin().as_str(),
        "failures": failing.health.failures,
        "failing_since": failing.health.failing_since.map(Timestamp::to_rfc3339),
    })
}

fn table(failing: &[Subscription]) -> Table {
    let row = |it: &Subscription| {
        [
            it.key.id.to_string(),
            it.state.label().to_owned(),
            it.health.failures.to_string(),
            it.health.failing_since.map(Timestamp::to_rfc3339).unwrap_or_default(),
            it.recipient.endpoint().origin().as_str().to_owned(),
        ]
    };
    let [id, state, since, receiver] = ["ID", "STATE", "SINCE", "RECEIVER"].map(Column::text);
    Table::new([id, state, Column::number("FAILURES"), since, receiver]).with(failing.iter().map(row))
}

#[cfg(test)]
mod tests {
    use redial_core::{
        endpoint::Endpoint,
        recipient::Recipient,
        webhook::{Health, WebhookTarget},
    };

    use super::*;

    #[test]
    fn a_row_tells_since_when_and_how_often_and_no_path() {
        let key = SubscriptionKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: SubscriptionId::parse("hooks").expect("valid"),
        };
        let target = WebhookTarget::at(Endpoint::parse("https://a.example/s3cret").expect("valid"));
        let since = Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid");
        let failing = Subscription {
            health: Health { failures: 12, failing_since: Some(since) },
            ..Subscription::new(key, Recipient::Webhook(target))
        };
        assert_eq!(
            table(std::slice::from_ref(&failing)).lines(),
            [
                "ID     STATE   FAILURES  SINCE                     RECEIVER",
                "hooks  active        12  2026-11-21T10:05:00.000Z  https://a.example",
            ]
        );
        assert!(!json_of(&failing).to_string().contains("s3cret"));
    }
}
