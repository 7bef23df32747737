//! The order is what keeps an erasure whole: the mark, a pause as long as the longest invocation, and then the search. What a worker that has not
//! seen the mark may write is written before the search begins; every worker after that drops what is erased. The checkpoint is written
//! after each page: a page that is searched again is cleared again.

use std::{ops::ControlFlow, path::PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use redial_adapters::{
    person_dynamo::{DynamoPersons, Page},
    system::System,
};
use redial_core::{
    endpoint::EndpointHash,
    erasure::{At, Counts, Person, Searched, requested_at, search_from},
    identity::Tenant,
    rate::Rate,
    time::Timestamp,
};
use redial_engine::ports::{Clock as _, ErasureMarks as _};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    counts::lines,
    subject::{SubjectArgs, persons},
};
use crate::{
    arguments,
    aws_error::AwsError,
    checkpoint::{Checkpoint, Identity, Progress, path},
    confirm::Confirm,
    failure::Failure,
    resumable::{self, Ended, Work},
    rotation::longest_timeout,
    stack::OnStack,
    terminal::say,
};

/// Erases everything that is kept about a subscription, or about messages with a ref
///
/// The subscription is removed, and its id, or the ref, is marked. After the longest invocation, so that no worker brings anything back, every table
/// is searched and cleared: deliveries, parked messages and dead letters with their bodies, tags, acknowledgements, candidates for removal, and
/// what protects its receiver. Of a message to an audience, its ref alone is removed.
///
/// Messages on queues cannot be searched. One to an erased subscription is dropped when it comes up. One with an erased ref may still be sent;
/// then nothing of it is stored. What stays, and for how long: infra/docs/erasure.md.
///
/// No index leads from a person to what is kept, so every table is read: half a read unit for every 2 KB, at --rate. Ctrl-C interrupts it, and the
/// same command continues. Erasing twice is no error. The command asks for confirmation. Any answer but yes erases nothing, with exit status
/// 1. Without a terminal it requires --yes, else the exit status is 2.
#[derive(Debug, Args)]
#[command(
    override_usage = "\
redial subscriptions erase [OPTIONS] --tenant <TENANT>
         <--subscription <ID>|--ref <REF>>",
    after_help = "\
Examples:
  redial subscriptions erase --tenant acme --subscription s1 --dry-run
  redial subscriptions erase --tenant acme --subscription s1
  redial subscriptions erase --tenant acme --ref user-4711 --yes --json"
)]
pub(crate) struct Erase {
    /// The tenant
    #[arg(long, value_parser = arguments::tenant)]
    tenant: Tenant,
    #[command(flatten)]
    subject: SubjectArgs,
    /// Only count what would be erased
    #[arg(long)]
    dry_run: bool,
    /// The most items to read a second, minute or hour
    #[arg(long, default_value = "2000/s", value_parser = Rate::parse)]
    rate: Rate,
    /// File with the progress [default: one in the user's state directory, named after stack and options]
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    on: OnStack,
}

/// The progress of an erasure. It holds neither the `ref` nor the endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Erased {
    /// From when on no worker is at work that has not seen the mark; `None` before it is written.
    search_from: Option<Timestamp>,
    /// Of the endpoint that the subscription had.
    hashes: Vec<String>,
    at: Option<At>,
    items: u64,
    read: u64,
    found: Counts,
}

impl Progress for Erased {
    const WORK: &'static str = "erasure";
    const ITEMS: &'static str = "items";

    fn is_sound(&self) -> bool {
        self.at.as_ref().is_none_or(|at| at.place().is_some())
    }

    fn total(&self) -> u64 {
        self.items.max(self.read)
    }

    fn done(&self) -> u64 {
        self.read
    }
}

impl Erase {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if !self.dry_run {
            self.confirm.is_possible("erase it")?;
        }
        let target = self.on.target().await?;
        let Self { tenant, subject, dry_run, rate, checkpoint, confirm, on } = self;
        let identity = Identity { stack: target.queues.retry.clone(), options: subject.options(&tenant) };
        let path = path::<Erased>(checkpoint.as_deref(), &target.name, &identity)?;
        let store = persons(&target);
        if !dry_run {
            let question = format!("Erase {} from {}, for good?", subject.in_words(&tenant), target.name);
            confirm.ask(&question, "nothing was erased")?;
        }
        let (mut person, created_at) = subject.person(tenant, &target).await?;
        let begun = if dry_run { None } else { Checkpoint::<Erased>::resume(&path, &identity)? };
        let mut checkpoint = match begun {
            Some(checkpoint) => checkpoint,
            None => {
                let items = store.items().await.map_err(|error| failed(&error))?;
                let progress = Erased {
                    search_from: None,
                    hashes: person.hashes.iter().map(|hash| hash.as_str().to_owned()).collect(),
                    at: Some(At::start()),
                    items,
                    read: 0,
                    found: Counts::default(),
                };
                Checkpoint::begin(&path, &identity, System.now(), progress)
            }
        };
        if dry_run {
            let mut work = Searching { store, person, at: Some(At::start()), removes: false };
            while let Some((page, _)) = work.next(Searching::MOST_OF_A_BATCH).await? {
                let _goes_on = work.apply(page, &mut checkpoint.progress, &ProgressBar::hidden()).await?;
            }
            return print(&on, &checkpoint.progress, true);
        }
        // Before the subscription is removed, because then its endpoint is unknown.
        checkpoint.write()?;
        let known = checkpoint.progress.hashes.iter().filter_map(|hash| EndpointHash::parse(hash));
        person.hashes.extend(known);
        let search_from = match checkpoint.progress.search_from {
            Some(at) => at,
            None => {
                let longest = longest_timeout(&target).await?;
                let now = System.now();
                // This machine's clock may be behind that of the function that stored it.
                let requested_at = requested_at(now, created_at);
                let marked = target.subscriptions_without_secrets().mark(&person, requested_at, now).await;
                marked.map_err(|error| failed(&error))?;
                let at = search_from(System.now(), longest);
                checkpoint.progress.search_from = Some(at);
                checkpoint.write()?;
                at
            }
        };
        let pause = search_from.since(System.now());
        if !pause.is_zero() {
            say(&format!("marked; waiting {} s for invocations in progress", pause.as_secs() + 1));
            tokio::time::sleep(pause).await;
        }
        let work = Searching { store, person, at: checkpoint.progress.at.clone(), removes: true };
        resumable::run(work, &mut checkpoint, rate, |progress| print(&on, progress, false)).await
    }
}

fn failed(error: &redial_engine::ports::PortError) -> Failure {
    AwsError::of_port(error).failure("the erasure cannot be carried out")
}

fn print(on: &OnStack, progress: &Erased, dry_run: bool) -> Result<(), Failure> {
    let json = || {
        json!({
            "dry_run": dry_run,
            "done": progress.at.is_none(),
            "read": progress.read,
            "found": progress.found,
        })
    };
    let lines = || {
        let total = progress.found.total();
        let first = match (dry_run, progress.at.is_none()) {
            (true, _) => format!("{total} would be erased, of {} items", progress.read),
            (false, true) => format!("{total} erased, of {} items", progress.read),
            (false, false) => format!("{total} erased so far, of {} items", progress.read),
        };
        std::iter::once(first).chain(lines(&progress.found)).collect()
    };
    on.print(json, lines)
}

struct Searching {
    store: DynamoPersons,
    person: Person,
    /// `None` at the end.
    at: Option<At>,
    removes: bool,
}

impl Work for Searching {
    type Progress = Erased;
    type Batch = Page;

    const TITLE: &'static str = "erasing";
    const MOST_OF_A_BATCH: usize = 500;

    async fn next(&mut self, most: usize) -> Result<Option<(Page, usize)>, Failure> {
        let Some(at) = &self.at else { return Ok(None) };
        let most = u16::try_from(most).unwrap_or(u16::MAX);
        let page = self.store.page(&self.person, at, most).await.map_err(|error| failed(&error))?;
        let read = usize::try_from(page.read).unwrap_or(usize::MAX);
        self.at = page.next.clone();
        Ok(Some((page, read)))
    }

    async fn apply(&mut self, page: Page, progress: &mut Erased, _: &ProgressBar) -> Ended {
        if self.removes {
            self.store.remove_all(&page).await.map_err(|error| failed(&error))?;
        }
        let Searched { found, read, next } = page.counted();
        progress.found.extend(&found);
        progress.read += read;
        progress.at = next;
        Ok(ControlFlow::Continue(()))
    }
}
