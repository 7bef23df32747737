//! `redial breakers list`.

use clap::Args;
use redial_adapters::system::System;
use redial_core::{endpoint::Origin, time::Timestamp};
use redial_engine::{ports::Clock as _, ports::StoredOrigin};
use serde_json::{Value, json};

use super::row::{self, Row};
use crate::{
    failure::Failure,
    target::TargetArgs,
    terminal::{print, say, width},
};

/// Lists the origins whose breakers are not closed, that are slowed down, or that failed within the last five minutes
///
/// PHASE: closed; open (nothing is sent), half_open (a few probes are), ramping (as many as PACE says, and ever more), paused
/// (the origin asked everyone to stay away). ATTEMPTS, FAILURES (5xx, time-outs, no connection) and LIMITED (429) are of the
/// last five minutes, as far as workers told of them: of an origin that is well they tell little. They begin anew when a
/// breaker opens or closes. PACE is the most attempts a second, if there is such a limit. LOOKED AT is when a worker last
/// judged it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial breakers list
  redial breakers list --all --stack redial
  redial breakers list --json | jq -r '.origins[] | select(.phase == \"open\") | .origin'")]
pub(crate) struct List {
    /// Every origin that something was stored of within the last seven days
    #[arg(long)]
    all: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl List {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let known = super::protection(&self.target.resolve().await?).origins().await?;
        let now = System.now();
        let known_to_all = known.len();
        let rows = rows(known, self.all, now);
        if self.json {
            let rows: Vec<Value> = rows.iter().map(|row| row.json(now)).collect();
            return Ok(print(&json!({"origins": rows}).to_string())?);
        }
        if rows.is_empty() {
            say(&nothing(known_to_all));
            return Ok(());
        }
        row::lines(&rows, now, width()).iter().try_for_each(|line| print(line))?;
        Ok(())
    }
}

/// Those that are shown, those first that need a look most.
fn rows(known: Vec<(Origin, StoredOrigin)>, all: bool, now: Timestamp) -> Vec<Row> {
    let mut rows: Vec<Row> = known
        .into_iter()
        .filter(|(_, stored)| all || stored.state.is_watched(now))
        .map(|(origin, stored)| Row::of(origin, &stored.state, now))
        .collect();
    rows.sort_by(|a, b| (a.urgency(), &a.origin).cmp(&(b.urgency(), &b.origin)));
    rows
}

fn nothing(known: usize) -> String {
    match known {
        0 => "every breaker is closed: nothing is known of any origin".to_owned(),
        1 => "every breaker is closed, and nothing failed of late; --all shows the one origin that is known"
            .to_owned(),
        _ => format!(
            "every breaker is closed, and nothing failed of late; --all shows the {known} origins that are known"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::{SeedableRng as _, rngs::StdRng};
    use redial_core::protection::{Cooldowns, OriginState};

    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(1_000_000).plus(Duration::from_secs(secs))
    }

    #[test]
    fn those_that_need_a_look_are_listed_and_with_all_the_others_too() {
        let origin = |host: &str| Origin::parse(&format!("https://{host}.example")).expect("an origin");
        let stored = |state| StoredOrigin { state, version: 1 };
        let mut open = OriginState::default();
        let mut rng = StdRng::seed_from_u64(1);
        open.open(Duration::from_secs(60), at(0), &Cooldowns::default(), &mut rng);
        let known = vec![
            (origin("a"), stored(OriginState::default())),
            (origin("c"), stored(open.clone())),
            (origin("b"), stored(open)),
        ];
        let shown = |all| -> Vec<String> {
            let rows = rows(known.clone(), all, at(1));
            rows.iter().map(|row| row.origin.as_str().to_owned()).collect()
        };
        assert_eq!(shown(false), ["https://b.example", "https://c.example"]);
        assert_eq!(shown(true), ["https://b.example", "https://c.example", "https://a.example"]);
    }

    #[test]
    fn that_there_is_nothing_is_said() {
        assert!(nothing(0).contains("nothing is known"));
        assert!(nothing(1).contains("the one origin") && nothing(7).contains("the 7 origins"));
    }
}
