//! Stores lines: in batches, at a rate, several of a batch at once, interruptible at any moment.
//!
//! The checkpoint is written after each batch. After an interruption in between, the batch is stored again, and counts as renewed.
//! A batch never has the same subscription twice, so that of two lines about one subscription the later one is kept.

use std::{
    collections::HashSet,
    io::{self, BufRead},
    ops::ControlFlow,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::ProgressBar;
use redial_adapters::system::System;
use redial_core::subscription::{Renewal, SameEndpoint, document};
use redial_engine::ports::{Clock as _, PortError, Renewed, SubscriptionBook};
use serde::{Deserialize, Serialize};

use super::read::Reader;
use crate::{
    checkpoint::Progress,
    failure::Failure,
    lines::{Document, Lines},
    resumable::{Ended, Work},
    terminal::say,
};

/// The progress of an import: the last line, and the results of the lines before it. It holds no document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Imported {
    pub(super) lines: u64,
    /// The number of the last line that was processed; 0 before the first.
    after: u64,
    /// The digest of all lines up to that one.
    digest: String,
    /// New subscriptions, all runs together.
    pub(super) new: u64,
    pub(super) renewed: u64,
    pub(super) refused: u64,
}

impl Progress for Imported {
    const WORK: &'static str = "import";
    const ITEMS: &'static str = "lines";

    fn total(&self) -> u64 {
        self.lines
    }

    fn done(&self) -> u64 {
        self.new + self.renewed + self.refused
    }
}

/// After this number of refused lines in a row, the rest is not tried: the file is of another kind.
pub(super) const MOST_REFUSED_IN_A_ROW: u32 = 50;

/// How many lines in a row were refused.
#[derive(Debug, Default)]
struct InARow(u32);

impl InARow {
    /// Counts a line; whether these are too many.
    fn count(&mut self, is_refused: bool) -> bool {
        self.0 = if is_refused { self.0 + 1 } else { 0 };
        self.0 >= MOST_REFUSED_IN_A_ROW
    }
}

/// What is said if it ends because of them.
pub(super) fn given_up() -> String {
    format!(
        "{MOST_REFUSED_IN_A_ROW} lines in a row were refused, and the rest was not tried: expected a file with one JSON document a line"
    )
}

/// Counts the lines that would be stored and refused, and reports the latter, until too many in a row are. Nothing is written.
pub(super) fn check<R: BufRead>(
    lines: &mut Lines<R>,
    reader: &Reader,
    bar: &ProgressBar,
) -> io::Result<(u64, u64)> {
    let (mut fit, mut refused, mut in_a_row) = (0, 0, InARow::default());
    while let Some(document) = lines.document()? {
        let read = read(reader, &document);
        let is_over = in_a_row.count(read.is_err());
        match read {
            Ok(_) => fit += 1,
            Err(errors) => {
                refused += 1;
                report(document.line, &errors, bar);
            }
        }
        bar.inc(1);
        if is_over {
            break;
        }
    }
    Ok((fit, refused))
}

fn read(reader: &Reader, document: &Document) -> Result<Renewal, Vec<String>> {
    reader.read(document.text.as_ref().map_err(|error| vec![error.clone()])?, System.now())
}

fn report(line: u64, errors: &[String], bar: &ProgressBar) {
    bar.suspend(|| errors.iter().for_each(|error| say(&format!("line {line}: {error}"))));
}

/// The lines after a checkpoint.
pub(super) struct Importing<'a, R, B> {
    book: &'a B,
    lines: Lines<R>,
    reader: Reader,
    same_endpoint: SameEndpoint,
    at_once: usize,
    refused_in_a_row: InARow,
    /// A line that belongs to the next batch, and the digest of the input up to it.
    kept_back: Option<(u64, Renewal, String)>,
}

impl<'a, R: BufRead, B: SubscriptionBook> Importing<'a, R, B> {
    /// Skips the lines that were processed before.
    pub(super) fn new(
        book: &'a B,
        mut lines: Lines<R>,
        reader: Reader,
        same_endpoint: SameEndpoint,
        at_once: usize,
        progress: &Imported,
    ) -> Result<Self, Failure> {
        while lines.number < progress.after && lines.line()?.is_some() {}
        if progress.after > 0 && (lines.number, lines.digest()) != (progress.after, progress.digest.clone()) {
            let before = format!("the one that was imported up to line {}", progress.after);
            let cure = "pass that one, or --checkpoint with another file";
            return Err(Failure::input(format!("the input differs from {before}: {cure}")));
        }
        let refused_in_a_row = InARow::default();
        Ok(Self { book, lines, reader, same_endpoint, at_once, refused_in_a_row, kept_back: None })
    }
}

#[derive(Debug, Default)]
pub(super) struct Batch {
    renewals: Vec<(u64, Renewal)>,
    refused: Vec<(u64, Vec<String>)>,
    /// The number of its last line, and the digest of the input up to it.
    last: (u64, String),
    /// Too many lines in a row are refused, and nothing follows.
    is_over: bool,
}

impl<R: BufRead, B: SubscriptionBook> Work for Importing<'_, R, B> {
    type Progress = Imported;
    type Batch = Batch;

    const TITLE: &'static str = "storing";
    /// Lines that may be stored again after an interruption.
    const MOST_OF_A_BATCH: usize = 64;

    async fn next(&mut self, most: usize) -> Result<Option<(Batch, usize)>, Failure> {
        let mut batch = Batch::default();
        let mut keys = HashSet::new();
        if let Some((number, renewal, digest)) = self.kept_back.take() {
            keys.insert(renewal.key.clone());
            batch.renewals.push((number, renewal));
            batch.last = (number, digest);
        }
        while batch.renewals.len() + batch.refused.len() < most
            && let Some(document) = self.lines.document()?
        {
            let number = document.line;
            let read = read(&self.reader, &document);
            batch.is_over = self.refused_in_a_row.count(read.is_err());
            match read {
                Ok(renewal) if !keys.insert(renewal.key.clone()) => {
                    self.kept_back = Some((number, renewal, self.lines.digest()));
                    break;
                }
                Ok(renewal) => batch.renewals.push((number, renewal)),
                Err(errors) => batch.refused.push((number, errors)),
            }
            batch.last = (number, self.lines.digest());
            if batch.is_over {
                break;
            }
        }
        let items = batch.renewals.len();
        Ok((items + batch.refused.len() > 0).then_some((batch, items)))
    }

    async fn apply(&mut self, batch: Batch, progress: &mut Imported, bar: &ProgressBar) -> Ended {
        let Batch { renewals, mut refused, last, is_over } = batch;
        let (book, same_endpoint) = (self.book, self.same_endpoint);
        let stored: Vec<(u64, Renewed)> = stream::iter(renewals)
            .map(|(number, renewal)| async move {
                Ok::<_, PortError>((number, book.renew(renewal, same_endpoint, System.now()).await?))
            })
            .buffer_unordered(self.at_once)
            .try_collect()
            .await?;
        for (number, renewed) in stored {
            match renewed {
                Renewed::New(_) => progress.new += 1,
                Renewed::Renewed(_) => progress.renewed += 1,
                Renewed::NeedsConsent => {
                    refused.push((number, vec![document::consent_is_missing().to_string()]));
                }
                Renewed::IsAWebhook => {
                    let error = "id: expected one that no webhook's receiver has, found one that has";
                    refused.push((number, vec![error.to_owned()]));
                }
                Renewed::EndpointTaken { same: _ } => {
                    let error = "endpoint: expected one that no other subscription of the tenant has, found one that has another";
                    refused.push((number, vec![error.to_owned()]));
                }
                Renewed::TokenEnded | Renewed::TagsNotPermitted => {
                    unreachable!("invariant: an import carries no browser's token")
                }
            }
        }
        refused.sort_unstable();
        refused.iter().for_each(|(number, errors)| report(*number, errors, bar));
        progress.refused += refused.len() as u64;
        (progress.after, progress.digest) = last;
        Ok(if is_over { ControlFlow::Break(given_up()) } else { ControlFlow::Continue(()) })
    }
}

#[cfg(test)]
mod tests {
    use redial_core::rate::Rate;
    use redial_memory::{Memory, PortErrorKind};

    use super::*;
    use crate::{
        checkpoint::{Checkpoint, Identity},
        resumable,
        subscriptions::import::read::tests::{CONSENT, reader},
    };

    fn line(id: &str, endpoint: &str) -> String {
        super::super::read::tests::line(id, endpoint, CONSENT)
    }

    struct Import {
        store: Memory,
        same_endpoint: SameEndpoint,
        checkpoint: Checkpoint<Imported>,
        _folder: tempfile::TempDir,
    }

    impl Import {
        fn new() -> Self {
            let of = Identity { stack: "here".to_owned(), options: String::new() };
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("checkpoint.json");
            let checkpoint = Checkpoint::begin(&path, &of, System.now(), Imported::default());
            Self {
                store: Memory::default(),
                same_endpoint: SameEndpoint::Replace,
                checkpoint,
                _folder: folder,
            }
        }

        async fn run(&mut self, text: &str) -> Result<(), Failure> {
            let lines = Lines::new(text.as_bytes(), document::MOST_BYTES);
            let work = Importing::new(
                &self.store,
                lines,
                reader(),
                self.same_endpoint,
                8,
                &self.checkpoint.progress,
            )?;
            let rate = Rate::parse("1000000/s").expect("a rate");
            resumable::run(work, &mut self.checkpoint, rate, |_| Ok(())).await
        }

        /// New, renewed and refused lines, the last line, and the subscriptions that are stored.
        fn counts(&self) -> ((u64, u64, u64), u64, usize) {
            let Imported { new, renewed, refused, after, .. } = self.checkpoint.progress;
            ((new, renewed, refused), after, self.store.state().subscriptions.len())
        }
    }

    #[tokio::test]
    async fn stored_and_refused_lines_are_counted() {
        let mut import = Import::new();
        let text = [line("a", "1"), "{}".to_owned(), line("b", "2"), line("a", "3")].join("\n");
        import.run(&text).await.expect("it runs");
        assert_eq!(import.counts(), ((2, 1, 1), 4, 2));
        let state = import.store.state();
        let (key, last) = state.subscriptions.iter().find(|(key, _)| key.id.as_str() == "a").expect("stored");
        assert_eq!((key, key.tenant.as_str()), (&last.key, "acme"));
        assert!(last.recipient.endpoint().expose().as_str().ends_with("/3"), "the later of two lines stays");
        assert_eq!((last.state.label(), last.last_seen_at), ("active", None));
    }

    #[tokio::test]
    async fn a_file_of_another_kind_ends_the_import_after_fifty_lines() {
        let mut import = Import::new();
        let text = [vec![line("a", "1")], vec!["\u{0}PNG".to_owned(); 500]].concat().join("\n");
        assert!(matches!(import.run(&text).await, Err(Failure::Reported)));
        assert_eq!(import.counts(), ((1, 0, 50), 51, 1));
        let mut lines = Lines::new(text.as_bytes(), document::MOST_BYTES);
        let checked = check(&mut lines, &reader(), &ProgressBar::hidden()).expect("it reads");
        assert_eq!(checked, (1, 50));
    }

    #[tokio::test]
    async fn an_import_continues_only_with_the_same_input() {
        let first: Vec<String> = (0..70).map(|n| line(&format!("s{n}"), &n.to_string())).collect();
        let all = [first.clone(), vec![line("more", "x")]].concat().join("\n");
        let mut import = Import::new();
        import.run(&first.join("\n")).await.expect("it runs");
        assert_eq!(import.counts(), ((70, 0, 0), 70, 70));
        // Line 70 had no line feed when it was read, so this is another input.
        assert!(matches!(import.run(&all).await, Err(Failure::Input(_))));

        let mut import = Import::new();
        import.run(&format!("{}\n", first.join("\n"))).await.expect("it runs");
        import.run(&all).await.expect("it continues");
        assert_eq!(import.counts(), ((71, 0, 0), 71, 71));
        assert!(matches!(import.run(&all.replacen("s0", "s9", 1)).await, Err(Failure::Input(_))));
    }

    #[tokio::test]
    async fn a_line_with_the_endpoint_of_another_id_replaces_it_or_is_refused() {
        let text = [line("a", "1"), line("b", "1")].join("\n");
        for (same_endpoint, counts) in [(SameEndpoint::Replace, (2, 0, 0)), (SameEndpoint::Refuse, (1, 0, 1))]
        {
            let mut import = Import { same_endpoint, ..Import::new() };
            import.run(&text).await.expect("it runs");
            assert_eq!(import.counts(), (counts, 2, 1), "{same_endpoint:?}");
        }
    }

    #[tokio::test]
    async fn a_failed_batch_is_not_in_the_checkpoint() {
        let mut import = Import::new();
        import.store.fail("renew", 1, PortErrorKind::Broken);
        let text = [line("a", "1"), line("b", "2")].join("\n");
        assert!(matches!(import.run(&text).await, Err(Failure::Failed(_))));
        let (counts, after, _) = import.counts();
        assert_eq!((counts, after), ((0, 0, 0), 0));
        import.run(&text).await.expect("it continues");
        let ((new, renewed, refused), _, stored) = import.counts();
        assert_eq!((new + renewed, refused, stored), (2, 0, 2));
    }
}
