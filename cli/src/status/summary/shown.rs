//! The summary as lines for people, of at most 80 characters unless a terminal has more room.

use std::time::Duration;

use redial_core::lane::Lane;

use super::{
    AgesFrom, Summary, findings,
    metrics::{COUNTED, FLOW_PERIOD, in_words},
    queues::{Depth, QUEUES, Queue},
    waits::DUE,
};
use crate::{
    breakers::shown::tone,
    counted::counted,
    duration::whole,
    line::Line,
    parked::{MOST_SHARDS, Waiting},
    table::{Column, Narrow, Table},
    tone::Tone,
    wrapped::wrapped,
};

const COLUMNS: usize = 80;

const UNKNOWN: &str = "?";

const NONE: &str = "-";

impl Summary {
    /// For people, in a terminal of that width, or in 80 columns; and of at most that many lines, where there is a limit: what is left out
    /// then is said least.
    pub(super) fn lines(&self, terminal: Option<usize>, most: Option<usize>) -> Vec<Line> {
        let room = terminal.unwrap_or(COLUMNS);
        let (found, unread) = (findings::findings(self), findings::unread(self));
        let sentence = findings::in_a_sentence(&found, unread.len());
        let place = format!("{} at {}: ", self.stack, self.at.to_rfc3339_seconds());
        let needs_operator = self.lost.is_some() || self.init_errors.as_ref().is_ok_and(|it| !it.is_empty());
        let tone = match (needs_operator, found.is_empty()) {
            (true, _) => Some(Tone::Alarm),
            (false, false) => Some(Tone::Caution),
            (false, true) if unread.is_empty() => Some(Tone::Well),
            (false, true) => None,
        };
        let mut head: Vec<Line> = lines_of(wrapped(&format!("{place}{sentence}"), room));
        if let Some((place, words)) = head[0].split_at_checked(place.len()) {
            // The first word says it: ok, or look.
            let word = words.find(':').unwrap_or(0);
            head[0] = Line::from(place).then(&words[..word], tone).then(&words[word..], None);
        }
        if self.lost.is_some() {
            return head;
        }
        let notes = unread.into_iter().map(|it| format!("could not be read: {it}")).chain(self.notes());
        let blocks = [
            head,
            self.queue_lines(room),
            self.parked_lines(room),
            lines_of(self.flow_lines(room)),
            self.origin_lines(room),
            lines_of(notes.flat_map(|note| wrapped(&note, room))),
        ];
        within(blocks, most.unwrap_or(usize::MAX))
    }

    fn queue_lines(&self, room: usize) -> Vec<Line> {
        let stands_out = |((queue, depth), age): &((&Queue, &Result<Depth, _>), Option<Duration>)| {
            let is_unread = depth.is_err();
            is_unread || !findings::of_queue(queue, depth.as_ref().ok(), *age).is_empty()
        };
        let queues = QUEUES.iter().zip(&self.depths).zip(self.ages);
        let queues = queues.filter(|it| it.0.0.is_always_shown() || stands_out(it));
        let rows = queues.map(|((queue, depth), age)| {
            let number =
                |of: fn(&Depth) -> u64| depth.as_ref().map_or(UNKNOWN.to_owned(), |depth| short(of(depth)));
            let none = if self.ages_from.is_some() { NONE } else { UNKNOWN };
            [
                queue.lane.map_or(NONE, Lane::label).to_owned(),
                queue.label.replace('_', " "),
                number(|it| it.waiting),
                number(|it| it.in_flight),
                number(|it| it.delayed),
                age.map_or(none.to_owned(), whole),
            ]
        });
        let headings = ["LANE", "QUEUE", "WAITING", "IN FLIGHT", "DELAYED", "OLDEST"];
        table(headings, 2).within(Some(room)).with(rows).lines()
    }

    fn parked_lines(&self, room: usize) -> Vec<Line> {
        let rows = Lane::ALL.map(|lane| {
            let counts = match &self.waits {
                Ok(waits) => {
                    let due = waits.parked[lane as usize].map(|it| it.waiting);
                    let others = [waits.for_origins(lane).waiting, waits.of_lane(lane)];
                    due.into_iter().chain(others).map(number_of).collect()
                }
                Err(_) => vec![UNKNOWN.to_owned(); DUE.len() + 2],
            };
            [lane.label().to_owned()].into_iter().chain(counts)
        });
        let headings = ["PARKED", "LATE", "<1m", "<15m", "<1h", "<6h", "<24h", "LATER", "ORIGIN", "ALL"];
        table(headings, 1).within(Some(room)).with(rows).lines()
    }

    fn flow_lines(&self, room: usize) -> Vec<String> {
        let window = self.at.since(self.since);
        let last = if window == FLOW_PERIOD { "5 MINUTES".to_owned() } else { whole(window) };
        let Some(flow) = self.flow else {
            let why = match (&self.metrics_error, self.is_emulated) {
                (Some(_), _) => "unknown",
                (None, true) => "nothing was logged",
                (None, false) => "CloudWatch has no metrics",
            };
            return wrapped(&format!("LAST {last} {why}"), room);
        };
        let counted = COUNTED.iter().zip(flow.counted);
        let counts: Vec<String> =
            counted.map(|(metric, count)| format!("{} {count}", in_words(*metric))).collect();
        let mut lines = wrapped(&format!("LAST {last} {}", counts.join(", ")), room);
        let of_lane =
            |lane: Lane| format!("{}: sent {}, failed {}", lane.label(), flow.sent(lane), flow.failed(lane));
        lines.extend(wrapped(&format!("BY LANE {}", Lane::ALL.map(of_lane).join("; ")), room));
        lines.extend(wrapped(&self.cost().in_words(), room));
        lines
    }

    fn origin_lines(&self, room: usize) -> Vec<Line> {
        if self.shown_origins().is_empty() {
            return Vec::new();
        }
        let rows = self.shown_origins().iter().map(|row| {
            let [origin, _, phase, when, attempts, failures, limited, pace, _, _] = row.cells(self.at);
            // All origins are https.
            let origin = origin.strip_prefix("https://").unwrap_or(&origin).to_owned();
            let short = |number: String| number.parse().map_or(number, short);
            [origin, phase, when, short(attempts), short(failures), short(limited), pace]
        });
        let headings = ["ORIGIN", "BREAKER", "WHEN", "TRIED", "FAILED", "429", "PACE"];
        table(headings, 3).within(Some(room)).with(rows).lines()
    }

    /// What the numbers leave out.
    fn notes(&self) -> Vec<String> {
        let shards = |n: usize| counted(n as u64, "shard was", "shards were");
        let mut notes = Vec::new();
        if let Ok(waits) = &self.waits {
            let Waiting { not_counted, in_part, .. } = waits.all();
            if not_counted > 0 && waits.error.is_none() {
                let not_counted = shards(not_counted);
                notes.push(format!(
                    "parked: {not_counted} not counted, beyond the first {MOST_SHARDS} of buckets or of lines: \
                     --all counts the rest"
                ));
            }
            if in_part > 0 {
                let in_part = shards(in_part);
                notes.push(format!("parked: {in_part} counted to the first mebibyte: --all counts the rest"));
            }
        }
        if let Ok(known) = &self.origins {
            notes.push(match (known.len(), known.len() - self.shown_origins().len()) {
                (0, _) => "no origins: workers reported none within a week".to_owned(),
                (_, 0) => "origins: the last five minutes, as far as workers reported them".to_owned(),
                (_, more) => format!("{more} more origins: --all shows them"),
            });
        }
        let oldest = match self.ages_from {
            Some(AgesFrom::Emulator) => Some("OLDEST is the emulator's own number, without delayed messages"),
            Some(AgesFrom::CloudWatch) if self.is_emulated => {
                Some("OLDEST is unknown: this emulator has no such metric")
            }
            Some(AgesFrom::CloudWatch) | None => None,
        };
        notes.extend(oldest.map(str::to_owned));
        notes
    }
}

/// The blocks with an empty line in between. Where that is too long, first the notes go, then the last rows of origins, then the empty
/// lines, and in the end what stands last.
fn within(blocks: [Vec<Line>; 6], most: usize) -> Vec<Line> {
    let [head, queues, parked, flow, mut origins, mut notes] = blocks;
    let length = |blocks: &[&Vec<Line>]| {
        let filled = blocks.iter().filter(|block| !block.is_empty());
        filled.map(|block| block.len() + 1).sum::<usize>().saturating_sub(1)
    };
    if length(&[&head, &queues, &parked, &flow, &origins, &notes]) > most {
        notes.clear();
    }
    let over = length(&[&head, &queues, &parked, &flow, &origins]).saturating_sub(most);
    if over > 0 {
        // The headings, a row, and the number of those that have no room.
        let rows = origins.len().saturating_sub(1);
        let kept = rows.saturating_sub(over + 1).max(1).min(rows);
        if kept < rows {
            origins.truncate(1 + kept);
            origins.push(format!("{} more origins: a taller terminal shows them", rows - kept).into());
        }
    }
    let blocks = [head, queues, parked, flow, origins, notes];
    let has_room = length(&blocks.each_ref()) <= most;
    let blocks: Vec<Vec<Line>> = blocks.into_iter().filter(|block| !block.is_empty()).collect();
    let mut lines = if has_room { blocks.join(&Line::default()) } else { blocks.concat() };
    lines.truncate(most);
    lines
}

/// A table whose first `texts` columns are text and the others numbers. The first one is cut at its start where the lines are too
/// long: the end of a host name says the most.
fn table<const N: usize>(headings: [&'static str; N], texts: usize) -> Table {
    let column = |(at, heading)| match heading {
        "BREAKER" => Column::text(heading).toned(tone),
        _ if at < texts => Column::text(heading),
        _ => Column::number(heading),
    };
    let columns = headings.into_iter().enumerate().map(column).enumerate();
    Table::new(
        columns.map(|(at, column)| if at == 0 { column.narrowed(1, Narrow::CutStart) } else { column }),
    )
}

fn lines_of(texts: impl IntoIterator<Item = String>) -> Vec<Line> {
    texts.into_iter().map(Line::from).collect()
}

/// A number in five characters at most: `99999`, `123k`, `1.2M`, `12M`.
fn short(n: u64) -> String {
    match n {
        0..=99_999 => n.to_string(),
        100_000..=999_999 => format!("{}k", n / 1_000),
        1_000_000..=9_999_999 => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
        10_000_000..=999_999_999 => format!("{}M", n / 1_000_000),
        1_000_000_000.. => format!("{}G", n / 1_000_000_000),
    }
}

fn number_of(waiting: Waiting) -> String {
    let at_least = if waiting.at_least() { "≥" } else { "" };
    format!("{at_least}{}", short(waiting.messages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_at_most_five_characters() {
        let numbers = [0, 99_999, 123_456, 1_234_567, 12_345_678, 7_000_000_000];
        assert_eq!(numbers.map(short), ["0", "99999", "123k", "1.2M", "12M", "7G"]);
    }
}
