use std::{
    io::{BufReader, Seek as _},
    path::PathBuf,
};

use clap::Args;
use redial_adapters::{system::System, vapid::VapidKeys};
use redial_core::rate::Rate;
use redial_engine::ports::Clock as _;

use super::{
    file::{End, Header},
    key_set::Kind,
    rows::{FromFile, Position},
    taking::{Copied, Taking},
};
use crate::{
    checkpoint::{Checkpoint, Identity, path},
    failure::Failure,
    input,
    lines::Lines,
    resumable,
    rotation::secret::KeysSecret,
    stack::OnStack,
};

/// The longest line: an item is at most 400 KB, and its JSON names types and escapes.
const MOST_BYTES: usize = 1024 * 1024;

/// Takes over what `redial replica export` wrote
///
/// Of two copies of a subscription the newer is kept, and importing a file twice changes nothing. What was deleted or erased since does not
/// come back for 181 days (see `redial replica copy`). Policies, limits, quotas and callbacks have no time: those of the file are written, so
/// an old file sets them back.
///
/// The stack needs the VAPID keys of the stack that was exported, else nothing is imported, and its webhook key, else webhooks are refused. A
/// file that was cut off is refused as a whole. Refused lines are reported by number or id, without their values.
///
/// Ctrl-C interrupts it, and the same command continues. Exit status 1 means that lines were refused.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial replica import redial.ndjson --stack redial --region eu-west-1
  gpg --decrypt redial.ndjson.gpg | redial replica import - --stack redial")]
pub(crate) struct Import {
    /// File of `redial replica export`; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The most rows a second, minute or hour
    #[arg(long, default_value = "500/s", value_parser = Rate::parse)]
    rate: Rate,
    /// File with the progress [default: one in the user's state directory, named after stack and file]
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    on: OnStack,
}

impl Import {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let mut file = input::open(&self.file)?;
        let mut lines = Lines::new(BufReader::new(&mut file), MOST_BYTES);
        let first = lines.document()?.map(|first| first.text.unwrap_or_default());
        let is_pipe = self.file.as_os_str() == input::STDIN;
        let name = if is_pipe { "standard input".into() } else { self.file.to_string_lossy() };
        let Some(header) = first.as_deref().and_then(Header::parse) else {
            let found = Header::instead(first.as_deref());
            return Err(Failure::input(format!(
                "{name}: line 1: expected the header of `redial replica export`, found {found}"
            )));
        };
        let (mut items, mut last) = (0, None);
        while let Some(document) = lines.document()? {
            last = document.text.ok().and_then(|text| End::parse(&text));
            items += u64::from(last.is_none());
        }
        if last != Some(items) {
            let expected = last.map_or("the line with their number".to_owned(), |rows| rows.to_string());
            return Err(Failure::input(format!(
                "{name}: found {items} rows and then the end, expected {expected}: it is not the whole export, and nothing was imported"
            )));
        }
        file.rewind()?;
        let target = self.on.target().await?;
        let secret = KeysSecret::of(&target, &Kind::Vapid.variables()).await?;
        let keys =
            VapidKeys::parse(secret.read().await?.text.expose()).map_err(|error| secret.invalid(error))?;
        let missing = header.missing_in(&keys);
        if !missing.is_empty() {
            let words = format!(
                "{} does not have the VAPID keys of {} ({}), with which its subscriptions were made: `redial replica keys` copies them",
                target.name,
                header.stack,
                missing.join(", ")
            );
            return Err(Failure::Failed(words.into()));
        }
        let name = self.file.canonicalize().unwrap_or_else(|_| self.file.clone());
        let identity = Identity { stack: target.queues.retry.clone(), options: name.display().to_string() };
        let path = path::<Copied>(self.checkpoint.as_deref(), &target.name, &identity)?;
        let mut source = Lines::new(BufReader::new(file), MOST_BYTES);
        let mut checkpoint = match Checkpoint::<Copied>::resume(&path, &identity)? {
            Some(checkpoint) => checkpoint,
            None => {
                let progress = Copied::begin(Position::End, items);
                Checkpoint::begin(&path, &identity, System.now(), progress)
            }
        };
        if checkpoint.progress.at == Position::End {
            let _header = source.line()?;
        }
        let source = FromFile::new(source, &checkpoint.progress.at)?;
        let work = Taking { source, to: target.replica_to_write().await? };
        let print =
            |progress: &Copied| self.on.print(|| progress.json(), || vec![progress.line(&target.name)]);
        resumable::run(work, &mut checkpoint, self.rate, print).await?;
        if checkpoint.progress.refused == 0 { Ok(()) } else { Err(Failure::Reported) }
    }
}
