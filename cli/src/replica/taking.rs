//! Rows that a stack takes over: page by page, at a rate, several at once. Taking a row twice is no harm, so that a page may be repeated.

use std::ops::ControlFlow;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::ProgressBar;
use redial_adapters::{
    replica_dynamo::{DynamoReplica, Kind, Row},
    subscriptions_dynamo::Taken,
    system::System,
};
use redial_engine::ports::{Clock as _, PortError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::rows::{Position, Rows, Source};
use crate::{
    checkpoint::Progress,
    counted::counted,
    failure::Failure,
    resumable::{Ended, Work},
    terminal::say,
};

/// Rows that are written at the same time.
const AT_ONCE: usize = 16;

/// The progress of a copy or an import. It holds no row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Copied {
    pub(super) at: Position,
    /// About how many items or lines there are.
    pub(super) items: u64,
    pub(super) read: u64,
    /// Subscriptions, deleted and erased ones included.
    pub(super) new: u64,
    pub(super) changed: u64,
    pub(super) kept: u64,
    /// Policies, limits, quotas and API keys that were written.
    pub(super) settings: u64,
    pub(super) refused: u64,
}

impl Copied {
    pub(super) fn begin(at: Position, items: u64) -> Self {
        Self { at, items, read: 0, new: 0, changed: 0, kept: 0, settings: 0, refused: 0 }
    }

    fn is_done(&self) -> bool {
        match self.at {
            Position::End => true,
            Position::Stack(_) => false,
            Position::File { .. } => self.read >= self.items,
        }
    }

    pub(super) fn json(&self) -> Value {
        let Self { read, new, changed, kept, settings, refused, .. } = self;
        json!({"done": self.is_done(), "read": read, "new": new, "changed": changed, "kept": kept, "settings": settings, "refused": refused})
    }

    pub(super) fn line(&self, to: &str) -> String {
        let Self { read, new, changed, kept, settings, refused, .. } = self;
        let rows = |n| counted(n, "row", "rows");
        let new = counted(*new, "subscription is new", "subscriptions are new");
        let settings = counted(*settings, "setting", "settings");
        format!(
            "{to}: of {}, {new}, {changed} changed, {kept} kept; {settings} written, {} refused",
            rows(*read),
            rows(*refused)
        )
    }

    fn count(&mut self, row: &Row, taken: Taken) {
        match (row.kind, taken) {
            (_, Taken::Sealed | Taken::Unreadable) => self.refused += 1,
            (Kind::Subscription, Taken::New) => self.new += 1,
            (Kind::Subscription, Taken::Changed) => self.changed += 1,
            (Kind::Subscription, Taken::Kept | Taken::EndpointKept) => self.kept += 1,
            (_, Taken::New | Taken::Changed) => self.settings += 1,
            (_, Taken::Kept | Taken::EndpointKept) => {}
        }
    }
}

impl Progress for Copied {
    const WORK: &'static str = "copy";
    const ITEMS: &'static str = "rows";

    fn total(&self) -> u64 {
        self.items.max(self.read)
    }

    fn done(&self) -> u64 {
        self.read
    }
}

pub(super) struct Taking<S> {
    pub(super) source: S,
    pub(super) to: DynamoReplica,
}

impl<S: Source> Work for Taking<S> {
    type Progress = Copied;
    type Batch = Rows;

    const TITLE: &'static str = "copying";
    const MOST_OF_A_BATCH: usize = 100;

    async fn next(&mut self, most: usize) -> Result<Option<(Rows, usize)>, Failure> {
        let rows = self.source.next(most).await?;
        Ok(rows.map(|rows| {
            let read = usize::try_from(rows.read).unwrap_or(usize::MAX);
            (rows, read)
        }))
    }

    async fn apply(&mut self, batch: Rows, progress: &mut Copied, bar: &ProgressBar) -> Ended {
        let Rows { rows, refused, read, next } = batch;
        let subscriptions = |rows: &[Row]| rows.iter().filter(|row| row.kind == Kind::Subscription).count();
        let all = subscriptions(&rows);
        let news = self.to.news(rows).await?;
        progress.kept += (all - subscriptions(&news)) as u64;
        let to = &self.to;
        let taken: Vec<(Row, Taken)> = stream::iter(news)
            .map(|row| async move {
                let taken = to.take(&row, System.now()).await?;
                Ok::<_, PortError>((row, taken))
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        for (row, taken) in &taken {
            progress.count(row, *taken);
            let why = match taken {
                Taken::Sealed => "its webhook's secrets are sealed with a key that this stack does not have",
                Taken::Unreadable => "this release cannot read it",
                Taken::EndpointKept => {
                    "another subscription of the tenant has its endpoint since later, and keeps it"
                }
                Taken::New | Taken::Changed | Taken::Kept => continue,
            };
            bar.suspend(|| say(&format!("{}: {why}", row.name())));
        }
        for (line, expected) in &refused {
            bar.suspend(|| say(&format!("line {line}: {expected}")));
        }
        progress.refused += refused.len() as u64;
        progress.read += read;
        progress.at = next;
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_is_singular_in_the_line() {
        let copied = |n| Copied {
            read: n,
            new: n,
            changed: n,
            kept: n,
            settings: n,
            refused: n,
            ..Copied::begin(Position::End, n)
        };
        assert_eq!(
            copied(1).line("b"),
            "b: of 1 row, 1 subscription is new, 1 changed, 1 kept; 1 setting written, 1 row refused"
        );
        assert_eq!(
            copied(2).line("b"),
            "b: of 2 rows, 2 subscriptions are new, 2 changed, 2 kept; 2 settings written, 2 rows refused"
        );
    }
}
