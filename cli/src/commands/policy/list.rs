//! `redial policy list`.

use clap::Args;
use redial_core::policy::catalogue::{self, Named};
use serde_json::json;

use crate::{
    failure::Failure,
    policy::{Timetable, duration, usual_ttl},
    table::{Column, Table},
    terminal::print,
};

/// Lists the policies that messages can ask for by name
///
/// WINDOW is the mean time from the first failure to the last retry. An `operator` policy comes from infra/policies; one of a
/// preset's name has taken its place.
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
    pub(super) fn run(self) -> Result<(), Failure> {
        let entries = catalogue::packaged().entries();
        if self.json {
            let policies: Vec<_> = entries.iter().map(json_of).collect();
            return Ok(print(&json!({"policies": policies}).to_string())?);
        }
        let columns = [
            text("NAME"),
            text("FROM"),
            Column::number("RETRIES"),
            Column::number("WINDOW"),
            text("WHAT FOR"),
        ];
        Table::new(columns).with(entries.iter().map(row)).lines().iter().try_for_each(|line| print(line))?;
        Ok(())
    }
}

fn text(heading: &'static str) -> Column {
    Column::text(heading)
}

fn row(named: &Named) -> [String; 5] {
    let table = Timetable::of(&named.policy, usual_ttl(&named.policy), false);
    [
        named.policy.name.clone(),
        named.origin.label().to_owned(),
        table.rows.len().to_string(),
        if table.rows.is_empty() { "-".to_owned() } else { duration(table.window().mean) },
        named.policy.description.clone().unwrap_or_default(),
    ]
}

fn json_of(named: &Named) -> serde_json::Value {
    let table = Timetable::of(&named.policy, usual_ttl(&named.policy), false);
    json!({
        "name": named.policy.name,
        "from": named.origin.label(),
        "max_retries": table.rows.len(),
        "window_mean_s": table.window().mean.as_secs_f64(),
        "description": named.policy.description,
    })
}
