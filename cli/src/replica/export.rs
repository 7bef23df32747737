use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use clap::Args;
use redial_adapters::{replica_dynamo::At, system::System, vapid::VapidKeys};
use redial_engine::ports::Clock as _;

use super::{
    file::{End, Header, Output},
    key_set::Kind,
};
use crate::{
    counted::counted,
    failure::Failure,
    input::STDIN,
    rotation::secret::KeysSecret,
    stack::TargetArgs,
    terminal::{bar, say},
};

/// Items that are read at once.
const PAGE: u16 = 500;

/// Writes subscriptions and settings of a stack to a file
///
/// FILE is for `redial replica import` and holds what `redial replica copy` copies, a line each, after a line about the stack. It has the endpoint
/// and the keys of every browser: who reads it can push to those browsers, together with the VAPID key. It is created with mode 0600, readable
/// by you alone: keep it like the tables, and remove it. Webhooks' secrets stay sealed in it, API keys are digests, and the stack's own keys are
/// not in it: `redial replica keys` copies those from stack to stack. With - the lines go to standard output, which must not be a terminal.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial replica export redial.ndjson --stack redial
  redial replica export - --stack redial \\
    | gpg --encrypt --recipient ops > redial.ndjson.gpg")]
pub(crate) struct Export {
    /// File to write, in place of one that is there; - for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    target: TargetArgs,
}

impl Export {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if self.file == Path::new(STDIN) && io::stdout().is_terminal() {
            return Err(Failure::input(
                "FILE: standard output is a terminal, which subscriptions are not shown on",
            ));
        }
        let target = self.target.resolve().await?;
        let secret = KeysSecret::of(&target, &Kind::Vapid.variables()).await?;
        let keys =
            VapidKeys::parse(secret.read().await?.text.expose()).map_err(|error| secret.invalid(error))?;
        let replica = target.replica();
        let mut output = Output::create(&self.file)?;
        output.line(&Header::new(&target.name, System.now(), &keys).line())?;
        let bar = bar(replica.items().await?, "exporting");
        let (mut next, mut rows) = (Some(At::start()), 0_u64);
        while let Some(at) = next {
            let page = replica.page(&at, PAGE).await?;
            bar.inc(page.read);
            for row in &page.rows {
                output.line(&row.expose_line())?;
                rows += 1;
            }
            next = page.next;
        }
        bar.finish_and_clear();
        output.line(&End::line(rows))?;
        output.finish()?;
        say(&format!("{} of {} exported", counted(rows, "row", "rows"), target.name));
        Ok(())
    }
}
