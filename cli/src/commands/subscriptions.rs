//! `redial subscriptions put | get`.

use std::path::PathBuf;

use aws_sdk_dynamodb::Client;
use clap::{Args, Subcommand};
use redial_adapters::{
    control_dynamo::DynamoControl, subscriptions_dynamo::DynamoSubscriptions, system::System,
};
use redial_core::{
    identity::{SubscriptionId, SubscriptionKey, Tenant, VapidKeyId},
    message::{Inbound, QueueKind, To, parse},
    ports::{Clock as _, SubscriptionHealth as _},
    push_target::PushTarget,
    subscription::{State, Subscription},
};
use serde_json::{Value, json, value::RawValue};

use super::ids;
use crate::{
    failure::Failure,
    input,
    target::{Target, TargetArgs},
    terminal::{print, say},
};

/// No subscription is longer, in bytes: an endpoint has 2,048 at most, its keys a hundred.
const MOST_BYTES: u64 = 16_384;

/// Stores the subscriptions of browsers, and looks them up
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial subscriptions put --tenant acme --id s1 subscription.json
  redial subscriptions get --tenant acme --id s1")]
pub(crate) enum Subscriptions {
    Put(Put),
    Get(Get),
}

/// Which subscription.
#[derive(Debug, Args)]
struct Which {
    /// Whose it is
    #[arg(long, value_parser = ids::tenant)]
    tenant: Tenant,
    /// Its id within the tenant: 1 to 64 letters, digits, _ and -
    #[arg(long, value_parser = ids::subscription)]
    id: SubscriptionId,
}

/// Stores a subscription, in place of one of the same id
///
/// FILE holds what a browser gives: JSON.stringify(subscription), that is {"endpoint", "keys": {"p256dh", "auth"}}. A
/// message that names the id in `to.subscription` is then sent there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial subscriptions put --tenant acme --id s1 subscription.json
  curl -s https://shop.example/me/subscription | redial subscriptions put --tenant acme --id s1")]
pub(crate) struct Put {
    #[command(flatten)]
    which: Which,
    /// File with the subscription; - for standard input
    #[arg(value_name = "FILE", default_value = input::STDIN)]
    file: PathBuf,
    /// The VAPID key that the browser subscribed with, where there are several [default: the default key]
    #[arg(long, value_name = "ID", value_parser = ids::vapid_key)]
    vapid_key_id: Option<VapidKeyId>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// Shows a subscription, without its endpoint and keys unless they are asked for
///
/// Who knows endpoint and keys can push to that browser: print them for a reason only. Exit status 1 says that there is
/// no such subscription.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial subscriptions get --tenant acme --id s1
  redial subscriptions get --tenant acme --id s1 --json | jq -r .state")]
pub(crate) struct Get {
    #[command(flatten)]
    which: Which,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Print the endpoint as well
    #[arg(long)]
    show_endpoint: bool,
    /// Print the keys as well
    #[arg(long)]
    show_keys: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Subscriptions {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Put(put) => put.run().await,
            Self::Get(get) => get.run().await,
        }
    }
}

impl Put {
    async fn run(self) -> Result<(), Failure> {
        let mut target = push_target(&input::read_text(&self.file, MOST_BYTES)?, &self.which.tenant)?;
        target.vapid_key_id = self.vapid_key_id.or(target.vapid_key_id);
        let key = self.which.key();
        let subscription = Subscription { key: key.clone(), target, state: State::Active, flagged_at: None };
        let store = store(&self.target.resolve().await?);
        let is_new = store.put(&subscription, System.now()).await?;
        if self.json {
            let line = json!({"tenant": key.tenant.as_str(), "id": key.id.as_str(), "new": is_new});
            return Ok(print(&line.to_string())?);
        }
        print(&format!("{key} {}", if is_new { "stored" } else { "replaced" }))?;
        Ok(())
    }
}

impl Get {
    async fn run(self) -> Result<(), Failure> {
        let key = self.which.key();
        let Some(found) = store(&self.target.resolve().await?).get(&key).await? else {
            say(&format!("no subscription {key}"));
            return Err(Failure::Told);
        };
        let shown = self.shown(&found);
        if self.json {
            return Ok(print(&shown.to_string())?);
        }
        print(&format!("{key}: {}", found.state.label()))?;
        for (name, value) in shown.as_object().into_iter().flatten() {
            if let (Some(text), false) = (value.as_str(), matches!(name.as_str(), "tenant" | "id" | "state"))
            {
                print(&format!("  {:<14}{text}", name.replace('_', " ")))?;
            }
        }
        if self.show_keys {
            let (p256dh, auth) = found.target.keys.expose_base64url();
            print(&format!("  {:<14}{p256dh}", "p256dh"))?;
            print(&format!("  {:<14}{auth}", "auth"))?;
        }
        Ok(())
    }

    fn shown(&self, found: &Subscription) -> Value {
        let PushTarget { endpoint, keys, vapid_key_id } = &found.target;
        let mut shown = json!({
            "tenant": found.key.tenant.as_str(),
            "id": found.key.id.as_str(),
            "state": found.state.label(),
            "push_service": endpoint.origin().as_str(),
            "vapid_key_id": vapid_key_id.as_ref().map(VapidKeyId::as_str),
            "flagged_at": found.flagged_at.map(|at| at.to_rfc3339()),
        });
        if self.show_endpoint {
            shown["endpoint"] = endpoint.expose().as_str().into();
        }
        if self.show_keys {
            let (p256dh, auth) = keys.expose_base64url();
            shown["keys"] = json!({"p256dh": p256dh, "auth": auth});
        }
        shown
    }
}

impl Which {
    fn key(&self) -> SubscriptionKey {
        SubscriptionKey { tenant: self.tenant.clone(), id: self.id.clone() }
    }
}

fn store(target: &Target) -> DynamoSubscriptions {
    let client = Client::new(&target.sdk);
    let control = DynamoControl::new(client.clone(), target.tables.control.clone());
    DynamoSubscriptions::new(client, target.tables.subscriptions.clone(), control)
}

/// Reads a browser's subscription as a message's recipient: there is one parser for both.
fn push_target(text: &str, tenant: &Tenant) -> Result<PushTarget, Failure> {
    const WITHIN: &str = "to.web_push";
    let whole: &RawValue = serde_json::from_str(text.trim_start_matches('\u{FEFF}')).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Failure::input(format!(
            "expected a subscription as JSON, found no valid JSON (line {line}, column {column})"
        ))
    })?;
    let message = format!(r#"{{"tenant":"{tenant}","to":{{"web_push":{}}}}}"#, whole.get());
    match parse(&message, QueueKind::Ingest, "", System.now()) {
        Ok(Inbound::Message(message, _)) => match message.to {
            To::WebPush(target) => Ok(target),
            To::Subscription(_) => Err(Failure::input("expected a browser's subscription")),
        },
        Ok(Inbound::Release(_)) => Err(Failure::input("expected a browser's subscription")),
        Err(refusal) => Err(Failure::Input(
            refusal
                .errors
                .into_iter()
                .map(|error| {
                    let error = error.to_string();
                    let within =
                        error.strip_prefix(WITHIN).map(|rest| rest.trim_start_matches(['.', ':', ' ']));
                    within.map_or(error.clone(), str::to_owned)
                })
                .collect(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 8291, Appendix A.
    const KEYS: &str = r#"{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}"#;

    fn read(text: &str) -> Result<PushTarget, Vec<String>> {
        match push_target(text, &Tenant::parse("acme").expect("valid")) {
            Ok(target) => Ok(target),
            Err(Failure::Input(lines)) => Err(lines),
            Err(failure) => panic!("{failure:?}"),
        }
    }

    #[test]
    fn a_browser_s_subscription_is_read_as_it_is() {
        let text = format!(
            "\u{FEFF}{{\"endpoint\":\"https://push.example/x\",\n\"expirationTime\":null,\"keys\":{KEYS}}}\n"
        );
        assert_eq!(read(&text).expect("valid").endpoint.origin().as_str(), "https://push.example");
    }

    #[test]
    fn errors_name_the_field_within_the_subscription_and_no_value() {
        let text = format!(r#"{{"endpoint":"http://s3cret.example","keys":{KEYS},"colour":"s3cret"}}"#);
        let expected = [
            "endpoint: expected an https URL without userinfo, found a string",
            "colour: expected no such field, found a string",
        ];
        assert_eq!(read(&text).expect_err("wrong"), expected);
        assert_eq!(read("[]").expect_err("wrong"), ["expected a JSON object, found an array"]);
        let smuggled = format!(r#"{{"endpoint":"https://a.example","keys":{KEYS}}}}},"x":{{"y":1"#);
        assert!(read(&smuggled).expect_err("wrong")[0].contains("no valid JSON"));
    }
}
