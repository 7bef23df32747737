//! `redial hash-key rotate`.

use clap::Args;
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;
use serde_json::json;

use super::{id, keys_json, lines};
use crate::{
    failure::Failure,
    rotation::{
        hash_document::{HashDocument, Step},
        hashes::HashSecret,
    },
    target::TargetArgs,
    terminal::{print, say},
};

/// Exchanges the key that endpoints are hashed with, while the stack works
///
/// The new key is made known and all workers start anew; then it is made the current one and they start anew once more: no
/// worker ever meets a hash of a key that it does not know. That takes about a minute, most of which is waited for what is
/// under way. Interrupted, it goes on where it stopped when it is run again. Workers are started anew by a variable of the
/// functions' environment, KEYS_AS_OF, that nothing reads.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial hash-key rotate
  redial hash-key rotate --stack redial --dry-run")]
pub(crate) struct Rotate {
    /// Id of the new key, which stands in every hash [default: the time, such as 20261121T100500Z]
    #[arg(long, value_name = "ID", value_parser = id)]
    id: Option<String>,
    /// Change nothing, say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Rotate {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let target = self.target.resolve().await?;
        let secret = HashSecret::of(&target).await?;
        let document = secret.document().await?;
        self.refuse(&document)?;
        let new = self.id.clone().unwrap_or_else(|| System.now().to_compact());
        if document.step() != Step::Settled {
            say("a rotation was begun, and is ended now");
        }
        if self.dry_run {
            say(&plan(&document, &new));
            return self.tell(&document);
        }
        self.tell(&secret.rotate(&new).await?)
    }

    fn refuse(&self, document: &HashDocument) -> Result<(), Failure> {
        let Some(id) = self.id.as_deref() else { return Ok(()) };
        let is_known = document.roles().iter().any(|(known, _)| *known == id);
        match document.step() {
            Step::Settled if is_known => {
                Err(Failure::input(format!("--id {id}: a key of that id is there already")))
            }
            Step::Announced if document.next() != Some(id) => Err(Failure::input(format!(
                "--id {id}: a rotation to {} was begun; end it first, without --id",
                document.next().unwrap_or_default()
            ))),
            Step::Following if document.current() != id => Err(Failure::input(format!(
                "--id {id}: a rotation to {} was begun; end it first, without --id",
                document.current()
            ))),
            Step::Settled | Step::Announced | Step::Following => Ok(()),
        }
    }

    fn tell(&self, document: &HashDocument) -> Result<(), Failure> {
        if self.json {
            let line = json!({"dry_run": self.dry_run, "keys": keys_json(document)});
            return Ok(print(&line.to_string())?);
        }
        lines(document).iter().try_for_each(|line| print(line))?;
        Ok(())
    }
}

fn plan(document: &HashDocument, new: &str) -> String {
    match (document.step(), document.next()) {
        (Step::Settled, _) => format!(
            "a key {new} would be made known, all workers started anew, {new} made the current key in the place of {}, and all \
             workers started anew once more",
            document.current()
        ),
        (Step::Announced, next) => format!(
            "all workers would be started anew, {} made the current key, and all workers started anew once more",
            next.unwrap_or_default()
        ),
        (Step::Following, _) => "all workers would be started anew once more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use redial_adapters::secrets::Secret;
    use redial_core::time::Timestamp;

    use super::*;

    #[test]
    fn a_plan_begins_where_the_last_rotation_stopped() {
        let now = Timestamp::from_secs(1_800_000_000);
        let first = HashDocument::parse("k1:0123456789abcdef", now).expect("a document");
        let announced =
            first.clone().announcing("k2".to_owned(), &Secret::new("fedcba9876543210".to_owned()));
        let turned = announced.clone().turned();
        assert!(plan(&first, "k2").starts_with("a key k2 would be made known"));
        assert!(plan(&announced, "k3").contains(" k2 made the current key"));
        assert_eq!(plan(&turned, "k3"), "all workers would be started anew once more");
    }
}
