//! `redial dead-letters list`.

use clap::Args;
use redial_adapters::{dead_letters_dynamo::Position, system::System};
use redial_engine::ports::Clock as _;

use super::which::{CLOCKS_DIFFER, Which};
use crate::{
    dead_letters::{self, Letters, json_of, row, table},
    failure::Failure,
    target::TargetArgs,
    terminal::{print, say, width},
};

/// Rows that are printed together; the first of them fix the widths of the columns.
const ROWS: usize = 50;

/// Lists dead letters, the newest first
///
/// They are read from an index, page by page, as they are printed. Without --since it goes back 14 days. SENT AGAIN is when
/// `replay` last sent it; columns for which the terminal has no room are left out, and --json has them all.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial dead-letters list
  redial dead-letters list --tenant acme --reason retries_exhausted --since 2h
  redial dead-letters list --since 7d --limit 10000 --json | jq -r .endpoint_hash | sort | uniq -c")]
pub(crate) struct List {
    #[command(flatten)]
    which: Which,
    /// So many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Only those after this one, as the end of a list says where to go on
    #[arg(long, value_name = "LETTER", value_parser = position)]
    after: Option<Position>,
    /// Print one line of JSON for each letter
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl List {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let now = System.now();
        let filter = self.which.filter(now, now.plus(CLOCKS_DIFFER))?;
        let store = dead_letters::store(&self.target.resolve().await?);
        let page = u16::try_from(self.limit.clamp(25, 250)).unwrap_or(250);
        let mut letters = Letters::open(&store, &filter, self.after.clone(), page).await?;
        let mut table = table(width());
        let mut last = None;
        for _ in 0..self.limit {
            let Some(described) = letters.next().await? else {
                table.page().iter().try_for_each(|line| print(line))?;
                if last.is_none() {
                    say("no dead letter is like that");
                }
                return Ok(());
            };
            last = Some(Position::of(&described));
            if self.json {
                print(&json_of(&described).to_string())?;
            } else {
                table.add(row(&described));
            }
            if table.waiting() == ROWS {
                table.page().iter().try_for_each(|line| print(line))?;
            }
        }
        table.page().iter().try_for_each(|line| print(line))?;
        if let Some(last) = last
            && letters.next().await?.is_some()
        {
            say(&format!("there are more: go on with --after {last}, or give a higher --limit"));
        }
        Ok(())
    }
}

fn position(text: &str) -> Result<Position, String> {
    Position::parse(text)
        .ok_or_else(|| "a letter as the end of a list names it: TIME/TENANT/ID/LETTER".to_owned())
}
