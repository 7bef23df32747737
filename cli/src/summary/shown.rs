//! All of it as lines, none of which is longer than 80 characters unless a terminal has more room.

use redial_core::lane::Lane;

use super::{
    AgesFrom, Summary, findings,
    flow::{COUNTED, in_words},
    queues::{Depth, Place},
    table::{COLUMNS, lines, short, wrapped},
    waits::{Due, MOST_SHARDS, Parked, Waits},
};
use crate::{breakers::shown::Row, duration::whole};

/// Where nothing is known.
const UNKNOWN: &str = "?";

/// Where there is nothing.
const NONE: &str = "-";

impl Summary {
    /// For a reader, in a terminal of that width, or of 80 columns.
    pub(crate) fn lines(&self, terminal: Option<usize>) -> Vec<String> {
        let room = terminal.unwrap_or(COLUMNS);
        let (found, untold) = (findings::findings(self), findings::untold(self));
        let sentence = findings::in_a_sentence(&found, untold.len());
        let head = format!("{} at {}: {sentence}", self.stack, self.at.to_rfc3339_seconds());
        let mut notes: Vec<String> =
            untold.into_iter().map(|it| format!("could not be read: {it}")).collect();
        notes.extend(self.notes());
        let blocks = [
            wrapped(&head, room),
            self.queue_lines(room),
            self.parked_lines(room),
            self.flow_lines(room),
            self.origin_lines(room),
            notes.iter().flat_map(|note| wrapped(note, room)).collect(),
        ];
        let blocks: Vec<Vec<String>> = blocks.into_iter().filter(|block| !block.is_empty()).collect();
        blocks.join(&String::new())
    }

    fn queue_lines(&self, room: usize) -> Vec<String> {
        let queues = Place::ALL.into_iter().zip(&self.depths).zip(self.ages);
        let rows: Vec<[String; 6]> = queues
            .map(|((place, depth), age)| {
                let lane = place.lane().map_or(NONE, Lane::label).to_owned();
                let number = |of: fn(&Depth) -> u64| {
                    depth.as_ref().map_or(UNKNOWN.to_owned(), |depth| short(of(depth)))
                };
                let oldest = match (age, self.ages_from) {
                    (Some(age), _) => whole(age),
                    (None, Some(_)) => NONE.to_owned(),
                    (None, None) => UNKNOWN.to_owned(),
                };
                [
                    lane,
                    place.label().replace('_', " "),
                    number(|it| it.waiting),
                    number(|it| it.in_flight),
                    number(|it| it.delayed),
                    oldest,
                ]
            })
            .collect();
        lines(["LANE", "QUEUE", "WAITING", "IN FLIGHT", "DELAYED", "OLDEST"], &rows, 2, room)
    }

    fn parked_lines(&self, room: usize) -> Vec<String> {
        let waits = self.waits.as_ref().ok();
        let rows: Vec<[String; 9]> = Lane::ALL
            .map(|lane| {
                let mut row: [String; 9] = std::array::from_fn(|_| UNKNOWN.to_owned());
                row[0] = lane.label().to_owned();
                if let Some(waits) = waits {
                    for (cell, due) in row.iter_mut().skip(1).zip(Due::ALL) {
                        *cell = number_of(waits.of(lane, due));
                    }
                    row[8] = number_of(waits.of_lane(lane));
                }
                row
            })
            .to_vec();
        let headings = ["PARKED, DUE", "LATE", "<1m", "<15m", "<1h", "<6h", "<24h", "LATER", "ALL"];
        lines(headings, &rows, 1, room)
    }

    fn flow_lines(&self, room: usize) -> Vec<String> {
        let Some(flow) = self.flow else {
            let why = match (&self.metrics, self.is_emulated) {
                (Some(_), _) => "not known",
                (None, true) => "nothing was logged",
                (None, false) => "CloudWatch was told nothing",
            };
            return wrapped(&format!("LAST 5 MINUTES {why}"), room);
        };
        let counted = COUNTED.iter().zip(flow.counted);
        let told: Vec<String> =
            counted.map(|(metric, count)| format!("{} {count}", in_words(*metric))).collect();
        let mut lines = wrapped(&format!("LAST 5 MINUTES {}", told.join(", ")), room);
        let of_lane =
            |lane: Lane| format!("{}: sent {}, failed {}", lane.label(), flow.sent(lane), flow.failed(lane));
        lines.extend(wrapped(&format!("BY LANE {}", Lane::ALL.map(of_lane).join("; ")), room));
        lines
    }

    fn origin_lines(&self, room: usize) -> Vec<String> {
        let rows: Vec<[String; 7]> = self.shown_origins().iter().map(|row| self.origin(row)).collect();
        if rows.is_empty() {
            return Vec::new();
        }
        lines(["ORIGIN", "BREAKER", "WHEN", "TRIED", "FAILED", "429", "PACE"], &rows, 3, room)
    }

    /// All origins are https, so the scheme is left out.
    fn origin(&self, row: &Row) -> [String; 7] {
        let [origin, _, phase, when, attempts, failures, limited, pace, _] = row.cells(self.at);
        let origin = origin.strip_prefix("https://").unwrap_or(&origin).to_owned();
        let short = |number: String| number.parse().map_or(number, short);
        [origin, phase, when, short(attempts), short(failures), short(limited), pace]
    }

    /// What is to be known of the numbers.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Ok(waits) = &self.waits {
            notes.extend(uncounted(waits));
        }
        if let Ok(known) = &self.origins {
            match (known.len(), self.shown_origins().len()) {
                (0, _) => notes.push("no origin is known: nothing was told of any within a week".to_owned()),
                (known, shown) if shown < known => {
                    notes.push(format!("{} more origins are known: --all shows them", known - shown));
                }
                _ => {
                    notes.push("origins: of the last five minutes, as far as workers told of them".to_owned())
                }
            }
        }
        match self.ages_from {
            Some(AgesFrom::Emulator) => {
                notes.push("OLDEST is the emulator's word, of messages that are not delayed".to_owned());
            }
            Some(AgesFrom::CloudWatch) if self.is_emulated => {
                notes.push("OLDEST is not known here: this emulator keeps no such metric".to_owned());
            }
            Some(AgesFrom::CloudWatch) | None => {}
        }
        notes
    }
}

fn uncounted(waits: &Waits) -> Vec<String> {
    let shards = |n: usize| if n == 1 { "1 shard was".to_owned() } else { format!("{n} shards were") };
    let mut notes = Vec::new();
    if waits.not_counted > 0 && waits.trouble.is_none() {
        notes.push(format!(
            "parked: {} not counted, after the first {MOST_SHARDS}: --all counts the rest",
            shards(waits.not_counted)
        ));
    }
    if waits.in_part > 0 {
        notes.push(format!(
            "parked: {} counted to the first mebibyte: --all counts the rest",
            shards(waits.in_part)
        ));
    }
    notes
}

fn number_of(parked: Parked) -> String {
    let at_least = if parked.at_least { "≥" } else { "" };
    format!("{at_least}{}", short(parked.messages))
}
