use std::path::PathBuf;

use clap::Args;
use redial_adapters::{replica_dynamo::At, system::System};
use redial_core::rate::Rate;
use redial_engine::ports::Clock as _;

use super::{
    keys::compare,
    rows::{FromStack, Position},
    taking::{Copied, Taking},
};
use crate::{
    checkpoint::{Checkpoint, Identity, path},
    failure::Failure,
    resumable,
    stack::Pair,
    terminal::{print, say},
};

/// Copies subscriptions and settings from one stack to another
///
/// Subscriptions are copied with everything that is kept about them: consent, tags, state, health, a webhook's sealed secrets; and so are the
/// marks of deleted and erased ones, tenants' policies, limits, quotas and callbacks, API keys, and refs that were erased. Deliveries, waiting
/// messages, dead letters and the state of breakers stay: they are each stack's own.
///
/// Of two copies of a subscription the newer is kept: that on which its browser or its sender decided last. A deleted subscription comes back only
/// if they decided so afterwards, an erased one only if it was stored again. A revoked API key stays revoked. Policies, limits, quotas and
/// callbacks have no time: those of --from are written, and what only --to has stays. So copy from the stack that sends, and do it regularly: what
/// was stored since the last copy is missing in the other stack.
///
/// Nothing is written to --from: a key that was revoked or a subscription that was erased in --to alone stays in --from as it was. Revoke and erase
/// in both stacks, or copy back.
///
/// Both stacks need the same keys (`redial replica keys`); else nothing is copied. Every table is read: half a read unit for every 2 KB. Ctrl-C
/// interrupts it, and the same command continues. Exit status 1 means that rows were refused.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial replica copy --from redial --from-region eu-central-1 \\
    --to redial --to-region eu-west-1
  redial replica copy --from local:a --to local:b --json")]
pub(crate) struct Copy {
    /// The most rows to read a second, minute or hour
    #[arg(long, default_value = "500/s", value_parser = Rate::parse)]
    rate: Rate,
    /// File with the progress [default: one in the user's state directory, named after both stacks]
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pair: Pair,
}

impl Copy {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let (from, to) = self.pair.both().await?;
        for one in compare(&from, &to).await?.into_iter().filter(|one| !one.is_same) {
            if one.kind.is_needed() && !one.missing.is_empty() {
                let words = format!(
                    "{} does not have the {} of {} ({}): run `redial replica keys` first",
                    to.name,
                    one.kind.in_words(),
                    from.name,
                    one.missing.join(", ")
                );
                return Err(Failure::Failed(words.into()));
            }
            say(&format!(
                "the stacks have different keys: {} (see `redial replica keys --dry-run`)",
                one.kind.in_words()
            ));
        }
        let identity =
            Identity { stack: to.queues.retry.clone(), options: format!("--from {}", from.queues.retry) };
        let path = path::<Copied>(self.checkpoint.as_deref(), &to.name, &identity)?;
        let replica = from.replica();
        let mut checkpoint = match Checkpoint::<Copied>::resume(&path, &identity)? {
            Some(checkpoint) => checkpoint,
            None => {
                let progress = Copied::begin(Position::Stack(At::start()), replica.items().await?);
                Checkpoint::begin(&path, &identity, System.now(), progress)
            }
        };
        let source = FromStack::new(replica, &checkpoint.progress.at);
        let work = Taking { source, to: to.replica_to_write().await? };
        let shown = |progress: &Copied| {
            print(&if self.json { progress.json().to_string() } else { progress.line(&to.name) })
                .map_err(Failure::from)
        };
        resumable::run(work, &mut checkpoint, self.rate, shown).await?;
        if checkpoint.progress.refused == 0 { Ok(()) } else { Err(Failure::Reported) }
    }
}
