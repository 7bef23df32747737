use clap::Args;
use redial_adapters::{
    system::System,
    vapid::{RELOAD_INTERVAL, VapidKeyPair, VapidKeys},
};
use redial_core::identity::VapidKeyId;
use redial_engine::ports::Clock as _;
use serde_json::json;

use super::{
    generate::SUBSCRIBE,
    secret::VapidSecret,
    standing::{Report, Standing},
};
use crate::{
    arguments,
    failure::Failure,
    stack::{OnStack, Target},
    terminal::{print, print_lines, say},
};

/// Adds a new VAPID key to a stack, and prints its public key
///
/// Browsers that subscribe from now on should use the new key, and their subscriptions be stored with its id, as
/// vapid_key_id. Existing subscriptions stay with their key, which is kept and goes on signing for them. The default key, which
/// subscriptions without an id belong to, stays the same. Functions read the new key when they first meet its id. The
/// command then reports what is left on the older keys, for which it reads the whole table of subscriptions (see redial vapid
/// status --help for the cost).
///
/// A secret that the stack itself manages (VapidPrivateKey was given) is refused: a deployment with another key would overwrite the
/// rotated keys. The error shows the one deployment that makes the stack release the secret.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial vapid rotate
  redial vapid rotate --stack redial --id 2027 --json | jq -r .public_key
  redial vapid rotate --dry-run")]
pub(crate) struct Rotate {
    /// Id of the new key [default: the time, such as 20261121T100500Z]
    #[arg(long, value_name = "ID", value_parser = arguments::vapid_key)]
    id: Option<VapidKeyId>,
    /// Print what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not read the table of subscriptions
    #[arg(long)]
    no_report: bool,
    #[command(flatten)]
    on: OnStack,
}

impl Rotate {
    pub(crate) async fn run(mut self) -> Result<(), Failure> {
        let id = self.id.take().unwrap_or_else(id_of_now);
        let target = self.on.target().await?;
        let secret = VapidSecret::to_change(&target).await?;
        if self.dry_run {
            let keys = secret.keys().await?;
            if keys.ids().any(|it| *it == id) {
                return Err(Failure::input(format!("--id {id}: a key with that id exists")));
            }
            say(&format!(
                "would add a key {id} to {} in {}, as the current one; {} would stay the default",
                keys.ids().map(VapidKeyId::as_str).collect::<Vec<_>>().join(", "),
                secret.id(),
                keys.default_id()
            ));
            return self.print(&target, &id, None, &keys).await;
        }
        let key = VapidKeyPair::generate();
        let keys = secret.add(&id, key.private()).await?;
        self.print(&target, &id, Some(key.public()), &keys).await
    }

    /// Prints the key before the table is read, which may take long, and may fail.
    async fn print(
        &self,
        target: &Target,
        id: &VapidKeyId,
        public_key: Option<&str>,
        keys: &VapidKeys,
    ) -> Result<(), Failure> {
        if let (Some(public_key), false) = (public_key, self.on.json) {
            print(&format!("id          {id}"))?;
            print(&format!("public key  {public_key}"))?;
        }
        if public_key.is_some() {
            say(&format!(
                "Use it in browsers from {} on, when every worker can read it:",
                System.now().plus(RELOAD_INTERVAL).to_rfc3339_seconds()
            ));
            say(SUBSCRIBE);
            say(&format!(
                "and store their subscriptions with \"vapid_key_id\": \"{id}\" (redial subscriptions put --vapid-key-id {id})."
            ));
        }
        let standing = if self.no_report { None } else { Some(Standing::read(target, false).await) };
        let report = standing.iter().flatten().next().map(|standing| Report::of(keys, standing));
        if self.on.json {
            let line = json!({
                "id": id.as_str(),
                "public_key": public_key,
                "dry_run": self.dry_run,
                "default": keys.default_id().as_str(),
                "current": keys.current_id().as_str(),
                "keys": report,
            });
            print(&line.to_string())?;
        } else if let Some(report) = &report {
            print_lines(report.lines())?;
            if public_key.is_some() {
                say(&format!(
                    "{} active subscriptions use other keys; each moves when its browser subscribes again: redial vapid \
                     status shows the progress",
                    report.left()
                ));
            }
        }
        standing.transpose().map(|_| ())
    }
}

fn id_of_now() -> VapidKeyId {
    VapidKeyId::parse(&System.now().to_compact()).expect("invariant: digits and two letters are an id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_an_id_is_named_by_the_time() {
        let id = id_of_now();
        assert!(id.as_str().len() == 16 && id.as_str().ends_with('Z'), "{id}");
    }
}
