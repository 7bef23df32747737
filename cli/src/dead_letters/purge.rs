use clap::Args;
use futures_util::TryStreamExt as _;
use indicatif::ProgressBar;
use redial_adapters::{dead_letters_dynamo::DynamoDeadLetters, system::System};
use redial_engine::ports::{Clock as _, PortError};
use serde_json::json;

use super::{
    matching::{LARGE_PAGE, Tally, count, matching},
    which::{Filter, Which},
};
use crate::{
    confirm::Confirm,
    counted::counted,
    failure::Failure,
    stack::OnStack,
    terminal::{bar, say},
};

const BATCH: usize = 25;

/// Removes dead letters, descriptions and bodies, for good
///
/// The command shows their number by tenant and reason, and asks for confirmation. Dead letters that arrive after that are not
/// removed. Any answer but yes removes nothing, with exit status 1. Without a terminal it requires --yes, else the exit status
/// is 2.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial dead-letters purge --tenant acme --reason malformed
  redial dead-letters purge --since 7d --until 1d --reason payload_too_large \\
    --yes")]
pub(crate) struct Purge {
    #[command(flatten)]
    which: Which,
    /// Every dead letter of the last 14 days
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    on: OnStack,
}

impl Purge {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        self.which.require_selection(self.all)?;
        let now = System.now();
        let filter = self.which.filter(now, now)?;
        self.confirm.is_possible("remove them")?;
        let target = self.on.target().await?;
        let store = target.dead_letters();
        let found = count(&store, &filter).await?;
        if found.total() == 0 {
            say("no dead letters match");
            return self.print(&found);
        }
        found.lines(None).iter().for_each(|line| say(line));
        let number = dead_letters(found.total());
        let question = format!("Remove {number} from {}, with their bodies?", target.name);
        self.confirm.ask(&question, "nothing was removed")?;
        let bar = bar(found.total(), "removing");
        let mut removed = Tally::default();
        let done = purge(&store, &filter, &mut removed, &bar).await;
        bar.finish_and_clear();
        self.print(&removed)?;
        Ok(done?)
    }

    fn print(&self, removed: &Tally) -> Result<(), Failure> {
        let total = removed.total();
        let json = || json!({"removed": total, "removed_by_tenant": removed});
        let line = (total > 0).then(|| format!("{} removed", dead_letters(total)));
        self.on.print(json, || line.into_iter().collect())
    }
}

/// Counts in `removed` as it goes: what was removed before an error is reported too.
async fn purge(
    store: &DynamoDeadLetters,
    filter: &Filter,
    removed: &mut Tally,
    bar: &ProgressBar,
) -> Result<(), PortError> {
    let mut batches = matching(store, filter, None, LARGE_PAGE).await?.try_chunks(BATCH);
    while let Some(batch) = batches.try_next().await.map_err(|failed| failed.1)? {
        let keys: Vec<_> = batch.iter().map(|described| described.reference.key()).collect();
        store.remove(&keys).await?;
        batch.iter().for_each(|described| removed.add(&described.reference));
        bar.inc(batch.len() as u64);
    }
    Ok(())
}

fn dead_letters(number: u64) -> String {
    counted(number, "dead letter", "dead letters")
}
