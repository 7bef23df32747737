use clap::Args;
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use serde_json::json;

use super::{
    document::{HashDocument, Role, needed_until},
    secret::HashSecret,
    shown::{id, keys_json},
};
use crate::{failure::Failure, stack::OnStack};

/// Removes a former key of endpoints' hashes
///
/// For 15 days after its last use, dead letters and candidates for removal may still be compared with hashes of this key. After that
/// it is not needed. With --force it is removed at once, as it should be if it has leaked; a 404 or 410 from before the
/// rotation that is still pending is then not acted on, until the push service answers so again. The current key always stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial hash-key retire k1
  redial hash-key retire k1 --force --json")]
pub(crate) struct Retire {
    /// The id of the key
    #[arg(value_name = "ID", value_parser = id)]
    id: String,
    /// Remove it even if it may still be needed
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    on: OnStack,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Needed {
    #[error("it is the current key")]
    Current,
    #[error("a rotation is in progress: run redial hash-key rotate first")]
    Unsettled,
    #[error("it may be needed until {}; --force removes it anyway", .0.to_rfc3339_seconds())]
    Until(Timestamp),
}

impl Retire {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let target = self.on.target().await?;
        let secret = HashSecret::of(&target).await?;
        let document = secret.document().await?;
        let Some(role) = role(&document, &self.id) else {
            return Err(Failure::input(format!("{}: no key has that id", self.id)));
        };
        unneeded(role, self.force, System.now())
            .map_err(|needed| Failure::Failed(format!("{} stays: {needed}", self.id).into()))?;
        let document = secret.forget(&self.id).await?;
        let json = || json!({"retired": self.id, "keys": keys_json(&document)});
        self.on
            .print(json, || vec![format!("{} retired; the current key is {}", self.id, document.current())])
    }
}

fn role(document: &HashDocument, id: &str) -> Option<Role> {
    document.roles().into_iter().find(|(known, _)| *known == id).map(|(_, role)| role)
}

fn unneeded(role: Role, is_forced: bool, now: Timestamp) -> Result<(), Needed> {
    match role {
        Role::Current => Err(Needed::Current),
        // Some workers use it, or will.
        Role::Next | Role::Former { until: None } => Err(Needed::Unsettled),
        Role::Former { until: Some(_) } => match needed_until(role) {
            Some(until) if until > now && !is_forced => Err(Needed::Until(until)),
            Some(_) | None => Ok(()),
        },
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
        for is_forced in [false, true] {
            assert_eq!(unneeded(Role::Current, is_forced, now), Err(Needed::Current));
            assert_eq!(unneeded(Role::Next, is_forced, now), Err(Needed::Unsettled));
            assert_eq!(unneeded(former(None), is_forced, now), Err(Needed::Unsettled));
        }
        let long_ago = now.minus(NEEDED_FOR);
        assert_eq!(unneeded(former(Some(long_ago)), false, now), Ok(()));
        assert_eq!(unneeded(former(Some(now)), false, now), Err(Needed::Until(now.plus(NEEDED_FOR))));
        assert_eq!(unneeded(former(Some(now)), true, now), Ok(()));
    }
}
