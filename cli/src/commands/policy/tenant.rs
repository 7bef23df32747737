//! `redial policy set | unset`: a tenant's policies, which running functions follow within a minute.

use aws_sdk_dynamodb::Client;
use clap::Args;
use redial_adapters::policies_dynamo::DynamoPolicies;
use redial_core::{
    identity::Tenant,
    policy::{catalogue, parse, stored::Slot},
};
use serde_json::{Value, json};

use super::super::ids;
use crate::{
    failure::Failure,
    input,
    policy::{MOST_BYTES, lines_of},
    target::{Target, TargetArgs},
    terminal::{print, say},
};

/// Stores a policy for a tenant, or for one event type of it
///
/// FILE holds a policy as JSON; the name of a policy stands for that one. It is checked first: if anything is wrong with it, all
/// of that is told, and nothing is stored. Running functions follow it within a minute, for new messages and for those that
/// are being retried.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial policy set --tenant acme mine.json
  redial policy set --tenant acme --topic order.created schedule-patient
  echo '{\"retry_delays\": [5, 30, 120]}' | redial policy set --tenant acme -")]
pub(crate) struct Set {
    #[command(flatten)]
    whose: Whose,
    /// A file with a policy, - for standard input; or a policy's name
    #[arg(value_name = "FILE")]
    policy: String,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// Removes the policy that is stored for a tenant, or for one event type of it
///
/// Its messages then follow what is left: the tenant's policy, or that of their channel or class. Exit status 1 if nothing was stored.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial policy unset --tenant acme
  redial policy unset --tenant acme --topic order.created")]
pub(crate) struct Unset {
    #[command(flatten)]
    whose: Whose,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Debug, Args)]
struct Whose {
    /// Whose messages
    #[arg(long, value_parser = ids::tenant)]
    tenant: Tenant,
    /// Those of this event_type only
    #[arg(long, value_name = "EVENT_TYPE", value_parser = ids::topic)]
    topic: Option<String>,
}

impl Set {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let text = checked(&self.policy)?;
        let Whose { tenant, topic } = &self.whose;
        let slot = slot(topic.as_deref());
        let before = store(&self.target.resolve().await?).put(tenant, &slot, &text).await?;
        if self.json {
            return Ok(print(
                &json_of(tenant, topic.as_deref(), Some(&text), before.as_deref()).to_string(),
            )?);
        }
        print(&format!(
            "{}: {}",
            words(tenant, &slot),
            if before.is_some() { "policy replaced" } else { "policy stored" }
        ))?;
        say("running functions follow it within a minute");
        Ok(())
    }
}

impl Unset {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let Whose { tenant, topic } = &self.whose;
        let slot = slot(topic.as_deref());
        let Some(before) = store(&self.target.resolve().await?).remove(tenant, &slot).await? else {
            say(&format!("nothing is stored for {}", words(tenant, &slot)));
            return Err(Failure::Reported);
        };
        if self.json {
            return Ok(print(&json_of(tenant, topic.as_deref(), None, Some(&before)).to_string())?);
        }
        print(&format!("{}: policy removed", words(tenant, &slot)))?;
        say("running functions follow what is left within a minute");
        Ok(())
    }
}

fn json_of(tenant: &Tenant, topic: Option<&str>, policy: Option<&str>, before: Option<&str>) -> Value {
    let parsed = |text: Option<&str>| text.and_then(|text| serde_json::from_str::<Value>(text).ok());
    json!({"tenant": tenant.as_str(), "topic": topic, "policy": parsed(policy), "before": parsed(before)})
}

/// The text to be stored: compact JSON of a valid policy, or a policy's name.
fn checked(given: &str) -> Result<String, Failure> {
    if catalogue::packaged().get(given).is_some() {
        return Ok(Value::from(given).to_string());
    }
    let text = input::read_text(given.as_ref(), MOST_BYTES)?;
    parse::document(&text, given).map_err(|errors| Failure::Input(lines_of(given, &errors)))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| Failure::input(format!("{given}: {error}")))?;
    Ok(value.to_string())
}

/// What a policy is stored for.
pub(super) fn slot(topic: Option<&str>) -> Slot {
    topic.map_or(Slot::Tenant, |topic| Slot::Topic(topic.to_owned()))
}

/// Whose policy it is, in words.
pub(super) fn words(tenant: &Tenant, slot: &Slot) -> String {
    match slot {
        Slot::Tenant => tenant.to_string(),
        Slot::Topic(topic) => format!("{tenant}, topic {topic}"),
    }
}

/// Where a stack keeps its tenants' policies.
pub(super) fn store(target: &Target) -> DynamoPolicies {
    let client = Client::new(&target.sdk);
    DynamoPolicies::new(client, target.tables.control.clone(), std::time::Duration::ZERO)
}
