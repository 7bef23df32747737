use clap::Args;
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use serde_json::json;

use super::{
    document::{Role, needed_until},
    secret::HashSecret,
    status::{id, keys_json},
};
use crate::{confirm::Confirm, failure::Failure, stack::OnStack};

/// Removes a former key of endpoints' hashes
///
/// For 15 days after its last use, dead letters and candidates for removal may still be compared with hashes of this key. After that
/// it is not needed. With --force it is removed at once, as it should be if it has leaked; a 404 or 410 from before the
/// rotation that is still pending is then not acted on, until the push service answers so again. The current key always stays.
///
/// The command asks for confirmation. Any answer but yes removes nothing, with exit status 1. Without a terminal it requires --yes, else the
/// exit status is 2. Exit status 1: there is no such key, or it stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial hash-key retire k1
  redial hash-key retire k1 --force --yes --json")]
pub(crate) struct Retire {
    /// The id of the key
    #[arg(value_name = "ID", value_parser = id)]
    id: String,
    /// Remove it even if it may still be needed
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    on: OnStack,
}

impl Retire {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        self.confirm.is_possible("remove the key")?;
        let target = self.on.target().await?;
        let secret = HashSecret::of(&target).await?;
        let document = secret.document().await?;
        let roles = document.roles();
        let Some((_, role)) = roles.iter().find(|(known, _)| *known == self.id) else {
            let ids: Vec<&str> = roles.iter().map(|(id, _)| *id).collect();
            let words = format!("{}: no key has that id; there are {}", self.id, ids.join(", "));
            return Err(Failure::Failed(words.into()));
        };
        if let Some(why) = needed(*role, self.force, System.now()) {
            return Err(Failure::Failed(format!("{} stays: {why}", self.id).into()));
        }
        let question = format!("Remove the key {} of endpoints' hashes from {}?", self.id, target.name);
        self.confirm.ask(&question, "nothing was changed")?;
        let document = secret.forget(&self.id).await?;
        let json = || json!({"retired": self.id, "keys": keys_json(&document)});
        self.on
            .print(json, || vec![format!("{} retired; the current key is {}", self.id, document.current())])
    }
}

/// Why the key stays.
fn needed(role: Role, is_forced: bool, now: Timestamp) -> Option<String> {
    match (role, needed_until(role)) {
        (Role::Current, _) => Some("it is the current key".to_owned()),
        (_, Some(until)) => (until > now && !is_forced).then(|| {
            format!("it may be needed until {}; --force removes it anyway", until.to_rfc3339_seconds())
        }),
        // Some workers use it, or will.
        (Role::Next | Role::Former { .. }, None) => {
            Some("a rotation is in progress: run redial hash-key rotate first".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_key::document::NEEDED_FOR;

    #[test]
    fn a_former_key_is_retired_when_it_is_not_needed() {
        let now = Timestamp::from_secs(1_800_000_000);
        let former = |until| Role::Former { until };
        let (current, unsettled) = ("it is the current key", "a rotation is in progress");
        for (role, unforced, forced) in [
            (Role::Current, Some(current), Some(current)),
            (Role::Next, Some(unsettled), Some(unsettled)),
            (former(None), Some(unsettled), Some(unsettled)),
            (former(Some(now.minus(NEEDED_FOR))), None, None),
            (former(Some(now)), Some("it may be needed until 2027-01-30T08:00:00Z; --force"), None),
        ] {
            for (is_forced, expected) in [(false, unforced), (true, forced)] {
                let needed = needed(role, is_forced, now);
                assert_eq!(needed.is_some(), expected.is_some(), "{role:?} {is_forced}");
                assert!(needed.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{role:?}");
            }
        }
    }
}
