use clap::Args;
use redial_adapters::{dead_letters_dynamo::Position, system::System};
use redial_engine::ports::Clock as _;

use super::{
    matching::Matching,
    shown::{json_of, row, table},
    which::{CLOCK_SKEW, Which},
};
use crate::{
    failure::Failure,
    stack::TargetArgs,
    terminal::{print, print_lines, say, width},
};

/// Rows that are printed together; the first of them fix the widths of the columns.
const ROWS: usize = 50;

/// Lists dead letters, newest first
///
/// They are read from an index, page by page, while they are printed. Without --since the list goes back 14 days. SENT AGAIN is the last
/// `replay`. Columns that do not fit the terminal are left out; --json has all.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial dead-letters list
  redial dead-letters list --tenant acme --reason retries_exhausted --since 2h
  redial dead-letters list --since 7d --limit 10000 --json | jq -r .endpoint_hash | sort | uniq -c")]
pub(crate) struct List {
    #[command(flatten)]
    which: Which,
    /// The most dead letters to list
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
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let now = System.now();
        let filter = self.which.filter(now, now.plus(CLOCK_SKEW))?;
        let store = self.target.resolve().await?.dead_letters();
        let page = u16::try_from(self.limit.clamp(25, 250)).unwrap_or(250);
        let mut matching = Matching::open(&store, &filter, self.after.clone(), page).await?;
        let mut table = table(width());
        let mut last = None;
        for _ in 0..self.limit {
            let Some(described) = matching.next().await? else {
                print_lines(table.page())?;
                if last.is_none() {
                    say("no dead letters match");
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
                print_lines(table.page())?;
            }
        }
        print_lines(table.page())?;
        if let Some(last) = last
            && matching.next().await?.is_some()
        {
            say(&format!("there are more: continue with --after {last}, or raise --limit"));
        }
        Ok(())
    }
}

fn position(text: &str) -> Result<Position, &'static str> {
    Position::parse(text).ok_or("a position as the end of a list names it: TIME/TENANT/ID/LETTER")
}
