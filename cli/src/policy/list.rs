use clap::Args;
use redial_console::policies::usual_ttl;
use redial_core::policy::catalogue::{self, Named};
use serde_json::json;

use super::timetable::Timetable;
use crate::{
    duration,
    failure::Failure,
    table::{Column, Narrow, Table},
    terminal::{print, print_lines, width},
};

/// Lists the policies that messages can name
///
/// WINDOW is the mean time from the first failure to the last retry. An `operator` policy comes from infra/policies; one with a
/// preset's name replaces that preset.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial policy list
  redial policy list --json | jq -r '.policies[].name'")]
pub(crate) struct List {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let entries = catalogue::packaged().entries();
        let entries: Vec<_> = entries
            .iter()
            .map(|named| (named, Timetable::of(&named.policy, usual_ttl(&named.policy), false)))
            .collect();
        if self.json {
            let json_of = |(named, table): &(&Named, Timetable)| {
                json!({
                    "name": named.policy.name,
                    "from": named.origin.label(),
                    "max_retries": table.rows.len(),
                    "window_mean_s": table.window().mean.as_secs_f64(),
                    "description": named.policy.description,
                })
            };
            let policies: Vec<_> = entries.iter().map(json_of).collect();
            return Ok(print(&json!({"policies": policies}).to_string())?);
        }
        let row = |(named, table): &(&Named, Timetable)| {
            let window = duration::words(table.window().mean);
            [
                named.policy.name.clone(),
                named.origin.label().to_owned(),
                table.rows.len().to_string(),
                if table.rows.is_empty() { "-".to_owned() } else { window },
                named.policy.description.clone().unwrap_or_default(),
            ]
        };
        let [name, from, description] = ["NAME", "FROM", "WHAT FOR"].map(Column::text);
        let [retries, window] = ["RETRIES", "WINDOW"].map(Column::number);
        let columns = [name, from, retries, window, description.narrowed(1, Narrow::CutEnd)];
        let table = Table::new(columns).within(width()).with(entries.iter().map(row));
        Ok(print_lines(table.lines())?)
    }
}
