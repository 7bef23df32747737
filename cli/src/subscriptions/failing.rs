//! Webhooks that fail, `redial subscriptions list --failing`, and webhooks that are switched on again, `redial subscriptions enable`.

use clap::Args;
use redial_adapters::system::System;
use redial_core::{identity::Tenant, subscription::Subscription, time::Timestamp};
use redial_engine::ports::Clock as _;
use serde_json::json;

use super::{tone::tone, which::Id};
use crate::{
    arguments,
    duration::relative,
    failure::Failure,
    stack::{OnStack, Target},
    table::{Column, Narrow, Table},
    terminal::{self, print_lines, say},
};

/// Enables a subscription that was disabled for any reason, or is suspect
///
/// Its failures and the dead letters against it are reset. Messages that became dead letters in the meantime are not sent. Exit status 1 means that there is no such
/// subscription.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  redial subscriptions enable hooks --tenant acme")]
pub(crate) struct Enable {
    #[command(flatten)]
    id: Id,
    /// The tenant that it belongs to
    #[arg(long, value_parser = arguments::tenant)]
    tenant: Tenant,
    #[command(flatten)]
    on: OnStack,
}

/// Prints a tenant's webhooks that fail or are disabled, those first that have failed longest.
pub(super) async fn print(target: &Target, tenant: &Tenant, as_json: bool) -> Result<(), Failure> {
    let store = target.subscriptions().await?;
    let failing = store.failing(tenant).await?;
    let json_of = |it: &Subscription| {
        json!({
            "tenant": it.key.tenant.as_str(),
            "id": it.key.id.as_str(),
            "state": it.state.label(),
            "origin": it.recipient.endpoint().origin().as_str(),
            "failures": it.health.failures,
            "failing_since": it.health.failing_since.map(Timestamp::to_rfc3339),
        })
    };
    if as_json {
        let all: Vec<_> = failing.iter().map(json_of).collect();
        return Ok(terminal::print(&json!({"subscriptions": all}).to_string())?);
    }
    if failing.is_empty() {
        say(&format!("no failing webhooks of {tenant}"));
        return Ok(());
    }
    let now = System.now();
    let row = |it: &Subscription| {
        [
            it.key.id.to_string(),
            it.state.label().to_owned(),
            it.health.failures.to_string(),
            it.health.failing_since.map(|at| relative(at, now)).unwrap_or_default(),
            it.recipient.endpoint().origin().as_str().to_owned(),
        ]
    };
    let columns = [
        Column::text("ID").narrowed(2, Narrow::CutEnd),
        Column::text("STATE").toned(tone),
        Column::number("FAILURES"),
        Column::text("SINCE"),
        Column::text("RECEIVER").narrowed(1, Narrow::CutStart),
    ];
    Ok(print_lines(Table::new(columns).within(terminal::width()).with(failing.iter().map(row)).lines())?)
}

impl Enable {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let key = self.id.of(self.tenant);
        let store = self.on.target().await?.subscriptions().await?;
        if !store.enable(&key, System.now()).await? {
            return Err(Failure::reported(&format!("no subscription {key}")));
        }
        self.on.print(
            || json!({"tenant": key.tenant.as_str(), "id": key.id.as_str(), "state": "active"}),
            || vec![format!("{key}: active")],
        )
    }
}
