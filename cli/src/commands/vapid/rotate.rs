//! `redial vapid rotate`.

use clap::Args;
use redial_adapters::{
    system::System,
    vapid::{RELOAD_INTERVAL, VapidKeys},
};
use redial_core::identity::VapidKeyId;
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::{super::ids, report::Report};
use crate::{
    failure::Failure,
    rotation::{new_key::NewKey, standing::Standing, vapid::VapidSecret},
    target::{Target, TargetArgs},
    terminal::{print, say},
};

/// Puts a new VAPID key beside a stack's others, and prints its public key
///
/// Browsers that subscribe from now on are to be given the new key, and their subscriptions stored with its id, as
/// vapid_key_id. Those that have subscribed before stay with the key that they have: it is kept, and goes on signing for them.
/// The key that subscriptions without an id belong to (the default) stays the same, too. Functions learn of the new
/// key by themselves when they meet its id. Then it tells what is left on the older keys, for which it reads the whole table
/// of subscriptions (redial vapid status --help says what that costs).
///
/// A secret that the stack itself manages (VapidPrivateKey was given) is refused: a deployment with another key would write over
/// what is rotated. The refusal names the one deployment that makes the stack give the secret up.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial vapid rotate
  redial vapid rotate --stack redial --id 2027 --json | jq -r .public_key
  redial vapid rotate --dry-run")]
pub(crate) struct Rotate {
    /// Id of the new key [default: the time, such as 20261121T100500Z]
    #[arg(long, value_name = "ID", value_parser = ids::vapid_key)]
    id: Option<VapidKeyId>,
    /// Change nothing, say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Do not read the table of subscriptions
    #[arg(long)]
    no_report: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Rotate {
    pub(super) async fn run(mut self) -> Result<(), Failure> {
        let id = self.id.take().unwrap_or_else(id_of_now);
        let target = self.target.resolve().await?;
        let secret = VapidSecret::to_change(&target).await?;
        if self.dry_run {
            let keys = secret.keys().await?;
            if keys.ids().any(|it| *it == id) {
                return Err(Failure::input(format!("--id {id}: a key of that id is there already")));
            }
            say(&format!(
                "a new key {id} would be put beside {} in {}, and be the current one; {} would stay the default",
                words(keys.ids()),
                secret.id(),
                keys.default_id()
            ));
            return self.tell(&target, &id, None, &keys).await;
        }
        let key = NewKey::generate();
        let keys = secret.add(&id, &key.private()).await?;
        self.tell(&target, &id, Some(key.public()), &keys).await
    }

    /// The key at once, what is left on the others when that is known: to read the table may take long, and may fail.
    async fn tell(
        &self,
        target: &Target,
        id: &VapidKeyId,
        public_key: Option<String>,
        keys: &VapidKeys,
    ) -> Result<(), Failure> {
        if let (Some(public_key), false) = (&public_key, self.json) {
            print(&format!("id          {id}"))?;
            print(&format!("public key  {public_key}"))?;
        }
        if public_key.is_some() {
            say(&format!(
                "Give it to browsers from {} on, when every worker can learn of it:",
                System.now().plus(RELOAD_INTERVAL).to_rfc3339_seconds()
            ));
            say(
                "  registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: PUBLIC_KEY })",
            );
            say(&format!(
                "and store what they give with \"vapid_key_id\": \"{id}\" (redial subscriptions put --vapid-key-id {id})."
            ));
        }
        let mut line = json!({
            "id": id.as_str(),
            "public_key": public_key,
            "dry_run": self.dry_run,
            "default": keys.default_id().as_str(),
            "current": keys.current_id().as_str(),
            "keys": Value::Null,
        });
        if self.no_report {
            return if self.json { Ok(print(&line.to_string())?) } else { Ok(()) };
        }
        let standing = match Standing::read(target, false).await {
            Ok(standing) => standing,
            Err(error) => {
                if self.json {
                    print(&line.to_string())?;
                }
                return Err(error.into());
            }
        };
        let report = Report::of(keys, &standing);
        if self.json {
            line["keys"] = report.json().into();
            return Ok(print(&line.to_string())?);
        }
        report.lines().iter().try_for_each(|line| print(line))?;
        if public_key.is_some() {
            say(&format!(
                "{} active subscriptions are left on other keys; each moves when its browser subscribes anew, and redial \
                 vapid status tells how far that is",
                report.left()
            ));
        }
        Ok(())
    }
}

fn id_of_now() -> VapidKeyId {
    VapidKeyId::parse(&System.now().to_compact()).expect("invariant: digits and two letters are an id")
}

fn words<'a>(ids: impl Iterator<Item = &'a VapidKeyId>) -> String {
    ids.map(VapidKeyId::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_a_key_is_called_by_the_time() {
        let id = id_of_now();
        assert!(id.as_str().len() == 16 && id.as_str().ends_with('Z'), "{id}");
    }
}
