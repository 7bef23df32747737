//! `redial policy list`.

use clap::Args;
use redial_core::policy::catalogue::{self, Named};
use serde_json::json;

use crate::{
    failure::Failure,
    policy::{Timetable, duration, usual_ttl},
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
        print(&format!("{:<20} {:<8}  {:>7}  {:>8}  WHAT FOR", "NAME", "FROM", "RETRIES", "WINDOW"))?;
        for named in entries {
            let table = Timetable::of(&named.policy, usual_ttl(&named.policy), false);
            let window = if table.rows.is_empty() { "-".to_owned() } else { duration(table.window().mean) };
            let line = format!(
                "{:<20} {:<8}  {:>7}  {:>8}  {}",
                named.policy.name,
                named.origin.label(),
                table.rows.len(),
                window,
                named.policy.description.as_deref().unwrap_or_default()
            );
            print(line.trim_end())?;
        }
        Ok(())
    }
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
