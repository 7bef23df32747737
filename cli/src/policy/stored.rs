//! `redial policy set | unset`: the policies of tenants, which running functions follow within a minute.

use std::path::Path;

use clap::Args;
use redial_console::policies::{MOST_BYTES, lines_of, named_or_file};
use redial_core::{
    identity::Tenant,
    policy::{catalogue, parse, stored::Slot},
};
use serde_json::{Value, json};

use crate::{arguments, failure::Failure, input, stack::OnStack, terminal::say};

/// Stores a policy for a tenant, or for one event type of it
///
/// FILE holds a policy as JSON, or is the name of a policy. It is validated first: an invalid policy is not stored, and all of its
/// errors are reported. Running functions follow it within a minute, for new messages and for those that are being retried.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial policy set --tenant acme mine.json
  redial policy set --tenant acme --topic order.created schedule-patient
  echo '{\"retry_delays\": [5, 30, 120]}' | redial policy set --tenant acme -")]
pub(crate) struct Set {
    #[command(flatten)]
    whose: Whose,
    /// A file with a policy, - for standard input, or the name of a policy
    #[arg(value_name = "FILE")]
    policy: String,
    #[command(flatten)]
    on: OnStack,
}

/// Removes the policy that is stored for a tenant, or for one event type of it
///
/// Its messages then follow the tenant's policy, or that of their channel or class. Exit status 1 if no policy was stored.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial policy unset --tenant acme
  redial policy unset --tenant acme --topic order.created")]
pub(crate) struct Unset {
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    on: OnStack,
}

#[derive(Debug, Args)]
struct Whose {
    /// The tenant
    #[arg(long, value_parser = arguments::tenant)]
    tenant: Tenant,
    /// Only for messages of this event_type
    #[arg(long, value_name = "EVENT_TYPE", value_parser = arguments::topic)]
    topic: Option<String>,
}

impl Set {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let text = checked(&self.policy)?;
        let (tenant, slot) = (&self.whose.tenant, self.whose.slot());
        let before = self.on.target().await?.policies().put(tenant, &slot, &text).await?;
        let done = if before.is_some() { "policy replaced" } else { "policy stored" };
        self.whose.report(&self.on, Some(&text), before.as_deref(), done)
    }
}

impl Unset {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let (tenant, slot) = (&self.whose.tenant, self.whose.slot());
        let Some(before) = self.on.target().await?.policies().remove(tenant, &slot).await? else {
            return Err(Failure::reported(&format!("no policy is stored for {}", words(tenant, &slot))));
        };
        self.whose.report(&self.on, None, Some(&before), "policy removed")
    }
}

impl Whose {
    fn slot(&self) -> Slot {
        slot(self.topic.as_deref())
    }

    fn report(
        &self,
        on: &OnStack,
        policy: Option<&str>,
        before: Option<&str>,
        done: &str,
    ) -> Result<(), Failure> {
        let Self { tenant, topic } = self;
        let [policy, before] =
            [policy, before].map(|text| text.and_then(|text| serde_json::from_str::<Value>(text).ok()));
        on.print(
            || json!({"tenant": tenant.as_str(), "topic": topic, "policy": policy, "before": before}),
            || vec![format!("{}: {done}", words(tenant, &self.slot()))],
        )?;
        if !on.json {
            say("running functions follow the change within a minute");
        }
        Ok(())
    }
}

/// The text to be stored: compact JSON of a valid policy, or a policy's name.
fn checked(given: &str) -> Result<String, Failure> {
    if catalogue::packaged().get(given).is_some() {
        return Ok(Value::from(given).to_string());
    }
    if given != input::STDIN && !Path::new(given).exists() {
        named_or_file(given)?;
    }
    let text = input::read_text(given.as_ref(), MOST_BYTES)?;
    parse::document(&text, given).map_err(|errors| Failure::Input(lines_of(given, &errors)))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| Failure::input(format!("{given}: {error}")))?;
    Ok(value.to_string())
}

pub(super) fn slot(topic: Option<&str>) -> Slot {
    topic.map_or(Slot::Tenant, |topic| Slot::Topic(topic.to_owned()))
}

pub(super) fn words(tenant: &Tenant, slot: &Slot) -> String {
    match slot {
        Slot::Tenant => tenant.to_string(),
        Slot::Topic(topic) => format!("{tenant}, topic {topic}"),
    }
}
