//! Checks all messages of an input, and then sends them.
//!
//! ```text
//! documents ─► outgoing (the functions' own parser) ─► batches ─► queue ─► one result a message
//! ```
//!
//! The input is read twice, once to check and once to send, and never held as a whole: a campaign's file may be larger than
//! the memory.

use std::{
    cell::Cell,
    io::{self, BufReader},
};

use futures_util::{StreamExt as _, stream};
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;

use super::{
    batches::Batches,
    documents::Documents,
    outgoing,
    queue::{Queue, Sent},
};
use crate::{failure::Failure, input::Rereadable};

/// Batches in flight.
const IN_FLIGHT: usize = 8;

/// Invalid messages that are reported; the others are counted.
const MOST_REPORTED: usize = 50;

/// After this number of refusals in a row, the rest is not tried.
const MOST_REFUSED_IN_A_ROW: usize = 50;

#[derive(Debug, thiserror::Error)]
#[error("{MOST_REFUSED_IN_A_ROW} messages in a row were refused; the rest was not tried")]
struct AllRefused;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Checked {
    pub(super) messages: u64,
    /// A line for each message that can be sent, but will fail.
    pub(super) warnings: Vec<String>,
}

/// Checks every message of `input`. Errors name line, field and what was expected.
pub(super) fn check(input: &mut dyn Rereadable) -> Result<Checked, Failure> {
    let now = System.now();
    let mut checked = Checked::default();
    let mut errors = Vec::new();
    let mut invalid = 0_usize;
    for document in documents(input)? {
        match outgoing::read(document?, now) {
            Ok(message) => {
                checked.messages += 1;
                checked.warnings.extend(message.warning.filter(|_| checked.warnings.len() < MOST_REPORTED));
            }
            Err(found) => {
                invalid += 1;
                if invalid <= MOST_REPORTED {
                    errors.extend(found);
                }
            }
        }
    }
    if invalid > MOST_REPORTED {
        errors.push(format!("and {} more messages", invalid - MOST_REPORTED));
    }
    if invalid == 0 && checked.messages == 0 {
        errors.push("no messages: expected a JSON message, or one a line".to_owned());
    }
    if errors.is_empty() { Ok(checked) } else { Err(Failure::Input(errors)) }
}

/// Sends every message of `input`, which was checked, and reports each result in order. Stops after many refusals in a row.
pub(super) async fn send(
    input: &mut dyn Rereadable,
    queue: &Queue,
    mut report: impl FnMut(Sent) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let now = System.now();
    let refused_in_a_row = Cell::new(0_usize);
    let may_continue = || refused_in_a_row.get() < MOST_REFUSED_IN_A_ROW;
    let messages = documents(input)?.map(|document| {
        outgoing::read(document?, now)
            .map_err(|_| Failure::input("the input changed while it was being sent; the rest was not sent"))
    });
    let mut sent = stream::iter(Batches::of(messages).take_while(|_| may_continue()))
        .map(|batch| async move { Ok::<_, Failure>(queue.send(batch?).await) })
        .buffered(IN_FLIGHT);
    while let Some(batch) = sent.next().await {
        for message in batch? {
            refused_in_a_row.set(if message.result.is_ok() { 0 } else { refused_in_a_row.get() + 1 });
            report(message)?;
        }
    }
    if may_continue() { Ok(()) } else { Err(Failure::from(AllRefused)) }
}

fn documents(input: &mut dyn Rereadable) -> io::Result<Documents<BufReader<&mut dyn Rereadable>>> {
    input.rewind()?;
    Ok(Documents::new(BufReader::new(input)))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn checked(text: &str) -> Result<Checked, Vec<String>> {
        match check(&mut Cursor::new(text.to_owned())) {
            Ok(checked) => Ok(checked),
            Err(Failure::Input(lines)) => Err(lines),
            Err(failure) => panic!("{failure:?}"),
        }
    }

    const GOOD: &str = r#"{"tenant":"acme","to":{"subscription":"s1"},"payload":"hello"}"#;

    #[test]
    fn every_invalid_message_is_reported_with_line_and_field() {
        let text = format!(
            "{GOOD}\n{{\"tenant\":\"Acme\",\"to\":{{\"subscription\":\"s1\"}},\"ttl\":-1}}\n\n{{\"a\"\n"
        );
        assert_eq!(
            checked(&text).expect_err("two are invalid"),
            [
                "line 2: tenant: expected ^[a-z0-9][a-z0-9_-]{0,62}$, found a string",
                "line 2: ttl: expected whole seconds from 0 to 31536000 (a year), found an integer",
                "line 4: (the whole text): expected a JSON object, found invalid JSON (its line 1, column 4)",
            ]
        );
    }

    #[test]
    fn many_errors_are_cut_and_counted() {
        let lines = checked(&"{}\n".repeat(70)).expect_err("all are invalid");
        assert_eq!(lines.last().map(String::as_str), Some("and 20 more messages"));
    }

    #[test]
    fn an_empty_input_is_an_error() {
        assert_eq!(
            checked(" \n\n").expect_err("nothing"),
            ["no messages: expected a JSON message, or one a line"]
        );
    }

    #[test]
    fn valid_messages_are_counted_in_any_layout() {
        let pretty = "{\n  \"tenant\": \"acme\",\n  \"to\": {\"subscription\": \"s1\"}\n}\n";
        for (text, messages) in
            [(GOOD.to_owned(), 1), (format!("{GOOD}\r\n{GOOD}"), 2), (pretty.repeat(3), 3)]
        {
            assert_eq!(checked(&text).expect("good").messages, messages, "{text}");
        }
    }
}
