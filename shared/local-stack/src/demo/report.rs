//! The result of the demo: a table for readers, one line of JSON for scripts.

use std::{collections::BTreeMap, time::Duration};

use redial_console::{
    line::Line,
    table::{Column, Table},
    tone::Tone,
};
use serde::Serialize;

use super::{
    evidence::{Evidence, Parked},
    judge::judge,
    mix::{Delivery, Mix},
    scenarios::SCENARIOS,
};

/// The whole result. Its JSON is what `redial demo --json` prints.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Report {
    ok: bool,
    messages: usize,
    unaccounted: usize,
    #[serde(rename = "roads")]
    scenarios: Vec<Row>,
    #[serde(skip)]
    figures: Figures,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Row {
    #[serde(rename = "road")]
    scenario: &'static str,
    messages: usize,
    expected: &'static str,
    seen: String,
}

/// The lines below the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Figures {
    posts: usize,
    parked: usize,
    letters: usize,
    took: Duration,
}

impl Row {
    fn is_as_expected(&self) -> bool {
        self.seen == self.expected
    }
}

/// Marks a row that is not as expected.
const UNEXPECTED: char = '✗';

impl Report {
    /// `evidence` is that of the mix's deliveries, in their order.
    pub(super) fn new(mix: &Mix, evidence: &[Evidence], took: Duration) -> Self {
        let mut unaccounted = 0;
        let mut findings: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
        for (delivery, evidence) in mix.deliveries.iter().zip(evidence) {
            let finding = judge(delivery, evidence);
            if !finding.is_proved {
                unaccounted += delivery.scenario.messages_each();
            }
            *findings.entry(delivery.scenario.slug).or_default().entry(finding.words).or_default() += 1;
        }
        let rows: Vec<Row> = SCENARIOS
            .iter()
            .map(|scenario| {
                let of_scenario = |it: &&Delivery| it.scenario.slug == scenario.slug;
                let deliveries = mix.deliveries.iter().filter(of_scenario).count();
                Row {
                    scenario: scenario.name,
                    messages: deliveries * scenario.messages_each(),
                    expected: scenario.expected,
                    seen: in_words(findings.get(scenario.slug)),
                }
            })
            .collect();
        Self {
            ok: unaccounted == 0 && rows.iter().all(Row::is_as_expected),
            messages: mix.messages(),
            unaccounted,
            scenarios: rows,
            figures: Figures {
                posts: evidence.iter().map(|it| it.posts.len()).sum(),
                parked: evidence.iter().filter(|it| it.parked == Some(Parked::Released)).count(),
                letters: evidence.iter().filter(|it| it.letter.is_some()).count(),
                took,
            },
        }
    }

    /// The same, but something went wrong that no row shows.
    pub(super) fn spoilt(self) -> Self {
        Self { ok: false, ..self }
    }

    /// Whether every message is accounted for and every row as expected.
    pub(crate) fn ok(&self) -> bool {
        self.ok
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts and numbers are JSON")
    }

    /// The table, and what there is to say below it. A row that is not as expected has a second line, with what was.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let [scenario, seen] = ["  scenario", "seen"].map(Column::text);
        let scenario = scenario.toned(|cell| cell.starts_with(UNEXPECTED).then_some(Tone::Alarm));
        let mut table = Table::new([scenario, Column::number("messages"), seen]);
        for row in &self.scenarios {
            let mark = if row.is_as_expected() { '✓' } else { UNEXPECTED };
            table.add([format!("{mark} {}", row.scenario), row.messages.to_string(), row.seen.clone()]);
            if !row.is_as_expected() {
                table.add([String::new(), String::new(), format!("expected: {}", row.expected)]);
            }
        }
        let mut lines = table.lines();
        lines.push(Line::default());
        let [accounted, received, parked] = self.summary();
        let tone = if self.ok { Tone::Well } else { Tone::Alarm };
        lines.push(Line::default().then(&accounted, Some(tone)));
        lines.extend([received, parked].map(Line::from));
        lines
    }

    fn summary(&self) -> [String; 3] {
        let Figures { posts, parked, letters, took } = self.figures;
        let good = self.scenarios.iter().filter(|row| row.is_as_expected()).count();
        let accounted = match self.unaccounted {
            0 => "all accounted for".to_owned(),
            some => format!("{some} unaccounted for"),
        };
        [
            format!(
                "{} messages in {:.1} s, {accounted}; {good} of {} scenarios as expected",
                self.messages,
                took.as_secs_f64(),
                self.scenarios.len()
            ),
            format!("{posts} pushes and webhooks were received, decrypted, and their signatures checked;"),
            format!(
                "{parked} waits went through Step Functions; {letters} messages are in the dead-letter store"
            ),
        ]
    }
}

/// One text if all say the same, else each with its number.
fn in_words(findings: Option<&BTreeMap<String, usize>>) -> String {
    let findings: Vec<_> = findings.into_iter().flatten().collect();
    match findings.as_slice() {
        [] => "nothing".to_owned(),
        [(words, _)] => (*words).clone(),
        several => several.iter().map(|(words, n)| format!("{n} × {words}")).collect::<Vec<_>>().join(" | "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::scenarios::Scenario;

    fn report(seen: &str) -> Report {
        let row = Row { scenario: "sent", messages: 2, expected: "sent, 1 post", seen: seen.to_owned() };
        let figures = Figures::default();
        Report { ok: true, messages: 2, unaccounted: 0, scenarios: vec![row], figures }
    }

    #[test]
    fn the_json_is_one_line_of_the_promised_shape() {
        assert_eq!(
            report("sent, 1 post").to_json(),
            r#"{"ok":true,"messages":2,"unaccounted":0,"roads":[{"road":"sent","messages":2,"expected":"sent, 1 post","seen":"sent, 1 post"}]}"#
        );
    }

    #[test]
    fn a_row_that_differs_is_marked() {
        assert!(report("sent, 1 post").lines()[1].starts_with('✓'));
        let lines = report("sent, 2 posts").lines();
        assert_eq!(lines[1], "✗ sent             2  sent, 2 posts");
        assert_eq!(lines[2].trim_start(), "expected: sent, 1 post");
    }

    #[test]
    fn an_expected_run_fits_eighty_columns_and_a_terminal_s_height() {
        let row = |scenario: &'static Scenario| Row {
            scenario: scenario.name,
            messages: 100,
            expected: scenario.expected,
            seen: scenario.expected.to_owned(),
        };
        let figures = Figures { posts: 1_000, parked: 100, letters: 999, took: Duration::from_secs(100) };
        let scenarios: Vec<Row> = SCENARIOS.iter().map(row).collect();
        let report = Report { messages: 10_000, scenarios, figures, ..report("") };
        let lines = report.lines();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        // A line before them, and one with the totals.
        assert!(SCENARIOS.len() + 2 <= 24);
    }

    #[test]
    fn several_ends_are_listed_with_their_counts() {
        let findings = BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]);
        assert_eq!(in_words(Some(&findings)), "2 × a | 1 × b");
        assert_eq!(in_words(None), "nothing");
    }
}
