//! Letters and counts below each other.

use redial_adapters::dead_letters_dynamo::Described;
use redial_core::time::Timestamp;
use serde_json::{Value, json};

use super::Tally;

const HEADINGS: [&str; 8] = ["AT", "TENANT", "ID", "REASON", "CHANNEL", "STATUS", "ATTEMPTS", "SENT AGAIN"];

/// Columns of numbers.
const NUMBERS: [usize; 2] = [5, 6];

/// What is left out, one after the other, where the terminal has no room: the reason stays to the last.
const LEAST_FIRST: [usize; 4] = [6, 4, 5, 7];

/// No column but these is cut, and none to less than this: tenant and id.
const CUT: [usize; 2] = [2, 1];
const LEAST_WIDTH: usize = 8;

/// A letter in a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row([String; HEADINGS.len()]);

impl Row {
    pub(crate) fn of(described: &Described) -> Self {
        let it = &described.reference;
        let time = |at: Timestamp| at.to_rfc3339_seconds();
        Self([
            time(Timestamp::from_ms(it.at)),
            it.tenant.clone(),
            it.id.clone(),
            it.reason.clone(),
            it.channel.clone(),
            it.status.map_or("-".to_owned(), |status| status.to_string()),
            it.attempts.to_string(),
            described.replayed_at.map_or("-".to_owned(), time),
        ])
    }
}

/// The columns that are shown, and their widths. They are those of the first rows, and stay for the rest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    columns: Vec<(usize, usize)>,
}

impl Table {
    /// For these rows, in a terminal of that width; any width without one.
    pub(crate) fn of(rows: &[Row], terminal: Option<usize>) -> Self {
        let width = |at: usize| {
            let cells = rows.iter().map(|Row(cells)| cells[at].chars().count());
            cells.chain([HEADINGS[at].len()]).max().unwrap_or(0)
        };
        let mut columns: Vec<(usize, usize)> = (0..HEADINGS.len()).map(|at| (at, width(at))).collect();
        let Some(terminal) = terminal else { return Self { columns } };
        let whole =
            |columns: &[(usize, usize)]| columns.iter().map(|(_, width)| width + 2).sum::<usize>() - 2;
        for least in LEAST_FIRST {
            if whole(&columns) <= terminal {
                break;
            }
            columns.retain(|(at, _)| *at != least);
        }
        for cut in CUT {
            let over = whole(&columns).saturating_sub(terminal);
            if let Some((_, width)) = columns.iter_mut().find(|(at, _)| *at == cut) {
                *width = width.saturating_sub(over).max(LEAST_WIDTH.min(*width));
            }
        }
        Self { columns }
    }

    pub(crate) fn heading(&self) -> String {
        self.line(&HEADINGS.map(str::to_owned))
    }

    pub(crate) fn row(&self, Row(cells): &Row) -> String {
        self.line(cells)
    }

    fn line(&self, cells: &[String; HEADINGS.len()]) -> String {
        let cells = self.columns.iter().map(|&(at, width)| {
            let mut cell = cells[at].clone();
            if CUT.contains(&at) && cell.chars().count() > width {
                cell = cell.chars().take(width - 1).chain(['…']).collect();
            }
            if NUMBERS.contains(&at) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

/// All that is known of a letter.
pub(crate) fn json_of(described: &Described) -> Value {
    let it = &described.reference;
    let time = |at: i64| Timestamp::from_ms(at).to_rfc3339();
    json!({
        "tenant": it.tenant,
        "id": it.id,
        "letter": it.letter,
        "kind": it.kind,
        "lineage": it.lineage,
        "channel": it.channel,
        "reason": it.reason,
        "detail": it.detail,
        "status": it.status,
        "attempts": it.attempts,
        "subscription": it.subscription,
        "endpoint_hash": it.endpoint_hash,
        "first_sent": time(it.first_sent),
        "at": time(it.at),
        "replayed_at": described.replayed_at.map(Timestamp::to_rfc3339),
        "kept_until": described.kept_until.map(Timestamp::to_rfc3339),
    })
}

/// Counts by tenant and reason, each with how many of them are ready where that is asked.
pub(crate) fn counts(letters: &Tally, ready: Option<&Tally>) -> Vec<String> {
    let rows: Vec<[String; 4]> = letters
        .rows()
        .map(|(tenant, reason, number)| {
            let ready = ready.map_or(String::new(), |ready| ready.of(tenant, reason).to_string());
            [tenant.to_owned(), reason.to_owned(), number.to_string(), ready]
        })
        .collect();
    let last = if ready.is_some() { "TO BE SENT" } else { "" };
    let headings = ["TENANT", "REASON", "LETTERS", last].map(str::to_owned);
    let all = || std::iter::once(&headings).chain(&rows);
    let widths: [usize; 4] = std::array::from_fn(|at| all().map(|row| row[at].len()).max().unwrap_or(0));
    let line = |[tenant, reason, number, ready]: &[String; 4]| {
        let [a, b, c, d] = widths;
        format!("{tenant:<a$}  {reason:<b$}  {number:>c$}  {ready:>d$}").trim_end().to_owned()
    };
    all().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters::filter::tests::described;

    fn rows() -> [Row; 2] {
        let mut replayed = described();
        replayed.reference.id = "an-id-that-is-longer-than-others".to_owned();
        replayed.reference.status = None;
        replayed.replayed_at = Some(Timestamp::from_secs(2_000));
        [Row::of(&described()), Row::of(&replayed)]
    }

    fn lines(terminal: Option<usize>) -> Vec<String> {
        let rows = rows();
        let table = Table::of(&rows, terminal);
        std::iter::once(table.heading()).chain(rows.iter().map(|row| table.row(row))).collect()
    }

    #[test]
    fn there_is_a_column_for_everything_where_there_is_room() {
        assert_eq!(
            lines(None),
            [
                "AT                    TENANT  ID                                REASON             CHANNEL   STATUS  ATTEMPTS  SENT AGAIN",
                "1970-01-01T00:16:40Z  acme    d1                                retries_exhausted  web_push     503         6  -",
                "1970-01-01T00:16:40Z  acme    an-id-that-is-longer-than-others  retries_exhausted  web_push       -         6  1970-01-01T00:33:20Z",
            ]
        );
    }

    #[test]
    fn what_has_no_room_is_left_out_and_then_cut() {
        for terminal in [120, 100, 80, 70, 60] {
            let longest = lines(Some(terminal)).iter().map(|line| line.chars().count()).max();
            assert!(
                longest.is_some_and(|longest| longest <= terminal),
                "{terminal}: {:?}",
                lines(Some(terminal))
            );
        }
        assert_eq!(lines(Some(64))[2], "1970-01-01T00:16:40Z  acme    an-id-that-is-…  retries_exhausted");
    }

    #[test]
    fn counts_stand_below_each_other() {
        let mut letters = Tally::default();
        (0..12).for_each(|_| letters.add(&described().reference));
        let mut ready = Tally::default();
        ready.add(&described().reference);
        assert_eq!(
            counts(&letters, Some(&ready)),
            [
                "TENANT  REASON             LETTERS  TO BE SENT",
                "acme    retries_exhausted       12           1",
            ]
        );
        assert_eq!(counts(&letters, None)[0], "TENANT  REASON             LETTERS");
    }
}
