use std::collections::BTreeSet;

use clap::Args;
use redial_adapters::system::System;
use redial_core::{endpoint::Origin, protection::Circuit, time::Timestamp};
use redial_engine::{ports::Clock as _, ports::StoredOrigin};
use serde_json::{Value, json};

use super::shown::{self, Row};
use crate::{
    failure::Failure,
    parked::{self, Lines},
    stack::{OnStack, Target},
    terminal::{say, width},
};

/// Lists the origins whose breakers are not closed, that are slowed down, that failed within the last five minutes, or for which
/// messages wait
///
/// A recipient that alone is in trouble at its origin has a breaker of its own, which is listed with its tenant and the beginning of its
/// endpoint's hash, as `redial tail` shows it.
///
/// PHASE: closed; open (nothing is sent), half_open (a few probes are), ramping (at most PACE, which grows), paused (the origin asked
/// senders to wait). ATTEMPTS, FAILURES (5xx, timeouts, no connection) and LIMITED (429) cover the last five minutes, as far as
/// workers reported them: about a healthy origin they report little. They restart when a breaker opens or closes; a line below the table
/// has those that it was opened for. PACE is the
/// limit in attempts a second, if there is one. WAITING is the number of messages in the line of an origin that is out or recovering, on
/// both lanes. They are counted as by `redial status --summary`: at most 1,024 shards of all origins together, and a mebibyte of
/// each; "≥" means that there may be more. LOOKED AT is when a worker last evaluated the origin.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial breakers list
  redial breakers list --all --stack redial
  redial breakers list --json \\
    | jq -r '.origins[] | select(.phase == \"open\") | .origin'")]
pub(crate) struct List {
    /// Every origin with data from the last seven days
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    on: OnStack,
}

impl List {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let target = self.on.target().await?;
        let listed = Listed::read(&target, self.all).await?;
        if let Some(error) = &listed.uncounted {
            say(&format!("the waiting messages could not all be counted: {error}"));
        }
        if listed.rows.is_empty() && !self.on.json {
            say(&nothing(listed.total));
            return Ok(());
        }
        self.on.print(|| listed.to_json(), || shown::lines(&listed.rows, listed.at, width()))
    }
}

/// The origins at a moment.
#[derive(Debug)]
pub(crate) struct Listed {
    rows: Vec<Row>,
    /// How many have data, listed or not.
    total: usize,
    /// Why what waits for them could not all be counted.
    uncounted: Option<String>,
    at: Timestamp,
}

impl Listed {
    /// Those that need a look, or all.
    pub(crate) async fn read(target: &Target, all: bool) -> Result<Self, Failure> {
        let known = target.protection().circuits().await?;
        let (lines, error) = parked::lines(target)
            .await
            .map_err(|error| error.failure("the lines of origins cannot be read"))?;
        let (now, total) = (System.now(), known.len());
        let uncounted = error.map(|error| error.in_words());
        Ok(Self { rows: rows(known, &lines, all, now), total, uncounted, at: now })
    }

    pub(crate) fn uncounted(&self) -> Option<&str> {
        self.uncounted.as_deref()
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({"origins": self.rows.iter().map(|row| row.json(self.at)).collect::<Vec<_>>()})
    }
}

/// The most urgent first.
fn rows(known: Vec<(Circuit, StoredOrigin)>, lines: &Lines, all: bool, now: Timestamp) -> Vec<Row> {
    // The state of an origin may be gone while messages still wait for it.
    let with_lines: BTreeSet<&Origin> = lines.iter().map(|(line, _)| &line.origin).collect();
    let without_state = with_lines
        .into_iter()
        .map(|origin| Circuit::Origin(origin.clone()))
        .filter(|circuit| known.iter().all(|(known, _)| known != circuit))
        .map(|circuit| (circuit, StoredOrigin::default()))
        .collect::<Vec<_>>();
    let mut rows: Vec<Row> = known
        .into_iter()
        .chain(without_state)
        .filter_map(|(circuit, stored)| {
            let state = circuit.state_at(stored.state, now);
            let mut row = Row::of(circuit, &state, now);
            row.wait_in(lines);
            (all || state.is_watched(now) || row.has_waiting()).then_some(row)
        })
        .collect();
    rows.sort_by(|a, b| (a.urgency(), &a.circuit).cmp(&(b.urgency(), &b.circuit)));
    rows
}

fn nothing(total: usize) -> String {
    let all = match total {
        0 => return "every breaker is closed; no origin has data".to_owned(),
        1 => "the one origin with data".to_owned(),
        _ => format!("all {total} origins with data"),
    };
    format!("every breaker is closed, nothing waits and nothing failed recently; --all shows {all}")
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
    fn healthy_origins_are_listed_last_and_only_with_all() {
        let origin = |host: &str| Circuit::parse(&format!("https://{host}.example")).expect("an origin");
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
            let rows = rows(known.clone(), &Lines::default(), all, at(1));
            rows.iter().map(|row| row.circuit.to_string()).collect()
        };
        assert_eq!(shown(false), ["https://b.example", "https://c.example"]);
        assert_eq!(shown(true), ["https://b.example", "https://c.example", "https://a.example"]);
    }

    #[test]
    fn a_recipient_that_no_worker_follows_any_more_is_listed_as_closed() {
        let hash = format!("hmac:k1:{}", "0a".repeat(32));
        let circuit = Circuit::parse(&format!("https://a.example#acme#{hash}")).expect("a recipient");
        let mut state = OriginState::default();
        state.open(Duration::from_secs(60), at(0), &Cooldowns::default(), &mut StdRng::seed_from_u64(1));
        let known = vec![(circuit, StoredOrigin { state, version: 1 })];
        let shown = |all, secs| -> Vec<String> {
            let rows = rows(known.clone(), &Lines::default(), all, at(secs));
            rows.iter().map(|row| row.cells(at(secs))[2].clone()).collect()
        };
        assert_eq!(shown(false, 61), ["half_open, one recipient of acme: endpoint 0a0a0a0a"]);
        assert_eq!(shown(false, 400), [""; 0]);
        assert_eq!(shown(true, 400), ["closed, one recipient of acme: endpoint 0a0a0a0a"]);
    }

    #[test]
    fn an_origin_for_which_messages_wait_is_listed_also_when_its_breaker_is_closed() {
        let known = vec![
            (Circuit::parse("https://fcm.googleapis.com").expect("an origin"), StoredOrigin::default()),
            (Circuit::parse("https://well.example").expect("an origin"), StoredOrigin::default()),
        ];
        let rows = rows(known, &parked::tests::some(), false, at(0));
        let shown: Vec<[String; 2]> = rows
            .iter()
            .map(|row| {
                let cells = row.cells(at(0));
                [cells[0].clone(), cells[8].clone()]
            })
            .collect();
        let expected = [["https://fcm.googleapis.com", "≥3"], ["https://partner.example", "≥0"]];
        assert_eq!(shown, expected.map(|row| row.map(str::to_owned)));
    }

    #[test]
    fn an_empty_list_says_how_many_origins_there_are() {
        assert!(nothing(0).contains("no origin has data"));
        assert!(nothing(1).contains("the one origin") && nothing(7).contains("all 7 origins"));
    }
}
