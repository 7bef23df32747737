use clap::Args;
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;
use serde_json::json;

use super::{
    document::{HashDocument, Step},
    secret::HashSecret,
    status::{id, keys_json, lines},
};
use crate::{failure::Failure, stack::OnStack, terminal::say};

/// Rotates the key that endpoints are hashed with, while the stack runs
///
/// The new key is announced and all workers restart; then it becomes the current key and they restart again: no worker ever
/// meets a hash of a key that it does not know. That takes about a minute, most of it waiting for invocations in progress. If
/// the command is interrupted, run it again to continue. Workers are restarted by a change of KEYS_AS_OF, a variable
/// of the functions' environment that nothing reads.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial hash-key rotate
  redial hash-key rotate --stack redial --dry-run")]
pub(crate) struct Rotate {
    /// Id of the new key, which is part of every hash [default: the time, such as 20261121T100500Z]
    #[arg(long, value_name = "ID", value_parser = id)]
    id: Option<String>,
    /// Print what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    on: OnStack,
}

impl Rotate {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let target = self.on.target().await?;
        let secret = HashSecret::of(&target).await?;
        let document = secret.document().await?;
        self.refuse(&document)?;
        let new = self.id.clone().unwrap_or_else(|| System.now().to_compact());
        if document.step() != Step::Settled {
            say("completing the rotation that was begun");
        }
        if self.dry_run {
            say(&plan(&document, &new));
            return self.print(&document);
        }
        self.print(&secret.rotate(&new).await?)
    }

    fn refuse(&self, document: &HashDocument) -> Result<(), Failure> {
        let Some(id) = self.id.as_deref() else { return Ok(()) };
        let begun = |to: &str| {
            Err(Failure::input(format!(
                "--id {id}: a rotation to {to} is in progress; complete it first, without --id"
            )))
        };
        match document.step() {
            Step::Settled if document.roles().iter().any(|(known, _)| *known == id) => {
                Err(Failure::input(format!("--id {id}: a key with that id exists")))
            }
            Step::Announced if document.next() != Some(id) => begun(document.next().unwrap_or_default()),
            Step::Following if document.current() != id => begun(document.current()),
            Step::Settled | Step::Announced | Step::Following => Ok(()),
        }
    }

    fn print(&self, document: &HashDocument) -> Result<(), Failure> {
        let json = || json!({"dry_run": self.dry_run, "keys": keys_json(document)});
        self.on.print(json, || lines(document))
    }
}

fn plan(document: &HashDocument, new: &str) -> String {
    let current = document.current();
    match (document.step(), document.next()) {
        (Step::Settled, _) => format!(
            "would announce a key {new}, restart all workers, make {new} the current key in place of {current}, and restart all \
             workers again"
        ),
        (Step::Announced, next) => format!(
            "would restart all workers, make {} the current key, and restart all workers again",
            next.unwrap_or_default()
        ),
        (Step::Following, _) => "would restart all workers again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::document::tests::rotation, *};

    #[test]
    fn a_plan_continues_where_the_last_rotation_stopped() {
        let [first, announced, turned, _] = rotation();
        assert!(plan(&first, "k2").starts_with("would announce a key k2"));
        assert!(plan(&announced, "k3").contains("make k2 the current key"));
        assert_eq!(plan(&turned, "k3"), "would restart all workers again");
    }
}
