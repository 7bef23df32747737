use clap::Args;
use redial_adapters::vapid::{NotRetired, VapidKeys};
use redial_core::identity::VapidKeyId;
use serde_json::json;

use super::{
    secret::{VapidSecret, not_retired},
    standing::{Count, Standing},
};
use crate::{arguments, confirm::Confirm, failure::Failure, stack::OnStack, terminal::say};

/// Removes a VAPID key that no active subscription uses
///
/// The command reads the whole table of subscriptions with consistent reads (twice the cost of redial vapid status), and refuses
/// if an active subscription uses the key. Subscriptions that are off and use it can never be sent to again. The table does not
/// have the subscriptions that your messages carry themselves: those that name no key are signed with the default, so
/// retire a default only if none of them is older than the current key. The current key always stays. A key that was removed
/// stays in the secret's version AWSPREVIOUS until the secret is changed again.
///
/// The command asks for confirmation. Any answer but yes removes nothing, with exit status 1. Without a terminal it requires --yes, else the
/// exit status is 2. Exit status 1: there is no such key, or it stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial vapid retire 2025
  redial vapid retire 2025 --stack redial --yes --json")]
pub(crate) struct Retire {
    /// The id of the key
    #[arg(value_name = "ID", value_parser = arguments::vapid_key)]
    id: VapidKeyId,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    on: OnStack,
}

impl Retire {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        self.confirm.is_possible("remove the key")?;
        let target = self.on.target().await?;
        let secret = VapidSecret::to_change(&target).await?;
        let keys = secret.keys().await?;
        may_go(&self.id, &keys)?;
        let standing = Standing::read(&target, true).await?;
        let count = unneeded(&self.id, &keys, &standing).map_err(|needed| Failure::Failed(needed.into()))?;
        if count.off > 0 {
            say(&format!("{} subscriptions that are off use it, and can never be sent to again", count.off));
        }
        let question = format!("Remove the VAPID key {} from {}?", self.id, target.name);
        self.confirm.ask(&question, "nothing was changed")?;
        let keys = secret.remove(&self.id).await?;
        let (default, current) = (keys.default_id(), keys.current_id());
        let json = || {
            json!({
                "retired": self.id.as_str(),
                "default": default.as_str(),
                "current": current.as_str(),
                "keys": keys.ids().map(VapidKeyId::as_str).collect::<Vec<_>>(),
            })
        };
        let line = || format!("{} retired; the default is {default}, the current key {current}", self.id);
        self.on.print(json, || vec![line()])
    }
}

/// What is known before the table is read.
fn may_go(id: &VapidKeyId, keys: &VapidKeys) -> Result<(), Failure> {
    if keys.get(Some(id)).is_none() {
        let ids: Vec<&str> = keys.ids().map(VapidKeyId::as_str).collect();
        let words = format!("{id}: {}; there are {}", NotRetired::Unknown, ids.join(", "));
        return Err(Failure::Failed(words.into()));
    }
    if id == keys.current_id() {
        return Err(not_retired(id, NotRetired::Current));
    }
    Ok(())
}

/// The subscriptions that use the key, or why it stays.
fn unneeded(id: &VapidKeyId, keys: &VapidKeys, standing: &Standing) -> Result<Count, String> {
    let is_default = id == keys.default_id();
    let (named, all) = (standing.on(id.as_str(), false), standing.on(id.as_str(), is_default));
    match (all.active, standing.unnamed.active) {
        (0, _) => Ok(all),
        (_, unnamed @ 1..) if is_default => Err(format!(
            "{id} stays: it is the default, and {unnamed} active subscriptions that name no key use it, besides {} that \
             name it",
            named.active
        )),
        (active, _) => Err(format!("{id} stays: {active} active subscriptions use it")),
    }
}

#[cfg(test)]
mod tests {
    use redial_adapters::vapid::{VapidDocument, VapidKeyPair};

    use super::*;

    fn id(text: &str) -> VapidKeyId {
        VapidKeyId::parse(text).expect("an id")
    }

    #[test]
    fn a_key_in_use_is_not_retired() {
        let mut document = VapidDocument::parse(VapidKeyPair::generate().private().expose()).expect("a key");
        for next in ["k1", "k2"] {
            document = document
                .with_current(id(next), VapidKeyPair::generate().private().clone())
                .expect("it is new");
        }
        let keys = document.keys().expect("keys");
        assert!(may_go(&id("k1"), &keys).is_ok() && may_go(&id("default"), &keys).is_ok());
        assert!(matches!(may_go(&id("k2"), &keys), Err(Failure::Failed(_))));
        let Err(Failure::Failed(unknown)) = may_go(&id("k9"), &keys) else { panic!("there is no such key") };
        assert_eq!(unknown.to_string(), "k9: there is no key with this id; there are default, k1, k2");

        let on = |active| Count { active, flagged: 0, off: 1 };
        let standing = |named: &[(&str, u64)], unnamed| Standing {
            named: named.iter().map(|(id, active)| ((*id).to_owned(), on(*active))).collect(),
            unnamed: on(unnamed),
        };
        let retired = |of: &str, standing| unneeded(&id(of), &keys, &standing).map(|count| count.off);
        assert_eq!(retired("k1", standing(&[("k1", 0)], 7)), Ok(1));
        assert_eq!(retired("default", standing(&[("default", 0), ("k1", 4)], 0)), Ok(2));
        assert!(retired("k1", standing(&[("k1", 3)], 0)).expect_err("needed").contains("3 active"));
        let of_the_default = retired("default", standing(&[("default", 2)], 5)).expect_err("needed");
        assert!(of_the_default.contains("5 active subscriptions that name no key"), "{of_the_default}");
        assert!(retired("default", standing(&[("default", 2)], 0)).expect_err("needed").contains("2 active"));
    }
}
