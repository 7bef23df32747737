//! `redial hash-key retire`.

use clap::Args;
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use serde_json::json;

use super::{id, keys_json};
use crate::{
    failure::Failure,
    rotation::{
        hash_document::{HashDocument, Role},
        hashes::{HashSecret, needed_until},
    },
    target::TargetArgs,
    terminal::print,
};

/// Forgets a former key of endpoints' hashes
///
/// Until 15 days after it was used for the last time something may still be compared with a hash under it: a dead letter that
/// waits, a candidate for removal. After that it is of no use. With --force it is forgotten at once, as it should if it has
/// become known; then a 404 or 410 from before the rotation that has not been dealt with yet is not acted on, until the push
/// service says it again. The current key stays in any case.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial hash-key retire k1
  redial hash-key retire k1 --force --json")]
pub(crate) struct Retire {
    /// Which
    #[arg(value_name = "ID", value_parser = id)]
    id: String,
    /// Though it may still be needed
    #[arg(long)]
    force: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// It is needed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Needed {
    #[error("it is the current key")]
    Current,
    #[error("a rotation was begun and not ended: run redial hash-key rotate first")]
    Unsettled,
    #[error("it may be needed until {}; --force forgets it all the same", .0.to_rfc3339_seconds())]
    Until(Timestamp),
}

impl Retire {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let target = self.target.resolve().await?;
        let secret = HashSecret::of(&target).await?;
        let document = secret.document().await?;
        let Some(role) = role(&document, &self.id) else {
            return Err(Failure::input(format!("{}: there is no key of that id", self.id)));
        };
        unneeded(role, self.force, System.now())
            .map_err(|needed| Failure::Failed(format!("{} stays: {needed}", self.id).into()))?;
        let document = secret.forget(&self.id).await?;
        if self.json {
            let line = json!({"retired": self.id, "keys": keys_json(&document)});
            return Ok(print(&line.to_string())?);
        }
        Ok(print(&format!("{} retired; the current key is {}", self.id, document.current()))?)
    }
}

fn role(document: &HashDocument, id: &str) -> Option<Role> {
    document.roles().into_iter().find(|(known, _)| *known == id).map(|(_, role)| role)
}

fn unneeded(role: Role, is_forced: bool, now: Timestamp) -> Result<(), Needed> {
    match role {
        Role::Current => Err(Needed::Current),
        // Workers are being brought to use it, or away from it.
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
    use crate::rotation::hashes::NEEDED_FOR;

    #[test]
    fn a_former_key_goes_when_nothing_can_carry_it_any_more() {
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
