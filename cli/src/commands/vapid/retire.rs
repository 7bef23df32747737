//! `redial vapid retire`.

use clap::Args;
use redial_adapters::vapid::{NotRetired, VapidKeys};
use redial_core::identity::VapidKeyId;
use serde_json::json;

use super::super::ids;
use crate::{
    agreement,
    failure::Failure,
    rotation::{
        standing::{Count, Standing},
        vapid::{VapidSecret, not_retired},
    },
    target::TargetArgs,
    terminal::{print, say},
};

/// Takes a VAPID key away that no active subscription stands on
///
/// It reads the whole table of subscriptions, consistently (twice what redial vapid status costs), and takes nothing away while
/// one active subscription needs the key. Subscriptions that are off and need it can never be sent to again. The table
/// does not know of subscriptions that your messages carry themselves: those that name no key are signed with the default,
/// so retire a default only if none of them is older than the current key. The current key stays in any case. A key
/// that was taken away stands in the secret's version AWSPREVIOUS until the secret is changed again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial vapid retire 2025
  redial vapid retire 2025 --stack redial --yes --json")]
pub(crate) struct Retire {
    /// Which
    #[arg(value_name = "ID", value_parser = ids::vapid_key)]
    id: VapidKeyId,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// It is needed.
#[derive(Debug, thiserror::Error)]
enum Needed {
    #[error("{id} stays: {active} active subscriptions stand on it")]
    Named { id: VapidKeyId, active: u64 },
    #[error(
        "{id} stays: it is the default, and {unnamed} active subscriptions that name no key stand on it, beside {named} that \
         name it"
    )]
    Default { id: VapidKeyId, named: u64, unnamed: u64 },
}

impl Retire {
    pub(super) async fn run(self) -> Result<(), Failure> {
        agreement::can_be_had(self.yes, "take it away")?;
        let target = self.target.resolve().await?;
        let secret = VapidSecret::to_change(&target).await?;
        let keys = secret.keys().await?;
        may_go(&self.id, &keys)?;
        let standing = Standing::read(&target, true).await?;
        let count = unneeded(&self.id, &keys, &standing)?;
        if count.off > 0 {
            say(&format!("{} subscriptions that are off need it, and could not be sent to again", count.off));
        }
        let question = format!("Take the VAPID key {} away from {}?", self.id, target.name);
        if !agreement::is_given(self.yes, &question)? {
            say("nothing was changed");
            return Err(Failure::Reported);
        }
        let keys = secret.remove(&self.id).await?;
        if self.json {
            let left: Vec<&str> = keys.ids().map(VapidKeyId::as_str).collect();
            let line = json!({
                "retired": self.id.as_str(),
                "default": keys.default_id().as_str(),
                "current": keys.current_id().as_str(),
                "keys": left,
            });
            return Ok(print(&line.to_string())?);
        }
        Ok(print(&format!(
            "{} retired; the default is {}, the current key {}",
            self.id,
            keys.default_id(),
            keys.current_id()
        ))?)
    }
}

/// What can be told without reading the table.
fn may_go(id: &VapidKeyId, keys: &VapidKeys) -> Result<(), Failure> {
    if keys.get(Some(id)).is_none() {
        return Err(not_retired(id, NotRetired::Unknown));
    }
    if id == keys.current_id() {
        return Err(not_retired(id, NotRetired::Current));
    }
    Ok(())
}

fn unneeded(id: &VapidKeyId, keys: &VapidKeys, standing: &Standing) -> Result<Count, Needed> {
    let is_default = id == keys.default_id();
    let (named, all) = (standing.on(id.as_str(), false), standing.on(id.as_str(), is_default));
    match (all.active, standing.unnamed.active) {
        (0, _) => Ok(all),
        (_, unnamed @ 1..) if is_default => {
            Err(Needed::Default { id: id.clone(), named: named.active, unnamed })
        }
        (active, _) => Err(Needed::Named { id: id.clone(), active }),
    }
}

#[cfg(test)]
mod tests {
    use redial_adapters::vapid::VapidDocument;

    use super::*;
    use crate::rotation::new_key::NewKey;

    fn id(text: &str) -> VapidKeyId {
        VapidKeyId::parse(text).expect("an id")
    }

    #[test]
    fn what_is_needed_stays() {
        let mut document = VapidDocument::parse(NewKey::generate().private().expose()).expect("a key");
        for next in ["k1", "k2"] {
            document = document.with_current(id(next), NewKey::generate().private()).expect("it is new");
        }
        let keys = document.keys().expect("keys");
        assert!(may_go(&id("k1"), &keys).is_ok() && may_go(&id("default"), &keys).is_ok());
        assert!(matches!(may_go(&id("k2"), &keys), Err(Failure::Failed(_))));
        assert!(matches!(may_go(&id("k9"), &keys), Err(Failure::Input(_))));

        let on = |active| Count { active, flagged: 0, off: 1 };
        let standing = |named: &[(&str, u64)], unnamed| Standing {
            named: named.iter().map(|(id, active)| ((*id).to_owned(), on(*active))).collect(),
            unnamed: on(unnamed),
        };
        let told = |of: &str, standing| match unneeded(&id(of), &keys, &standing) {
            Ok(count) => Ok(count.off),
            Err(needed) => Err(needed.to_string()),
        };
        assert_eq!(told("k1", standing(&[("k1", 0)], 7)), Ok(1));
        assert_eq!(told("default", standing(&[("default", 0), ("k1", 4)], 0)), Ok(2));
        assert!(told("k1", standing(&[("k1", 3)], 0)).expect_err("needed").contains("3 active"));
        let of_the_default = told("default", standing(&[("default", 2)], 5)).expect_err("needed");
        assert!(of_the_default.contains("5 active subscriptions that name no key"), "{of_the_default}");
        assert!(told("default", standing(&[("default", 2)], 0)).expect_err("needed").contains("2 active"));
    }
}
