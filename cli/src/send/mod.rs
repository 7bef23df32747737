//! Sending messages: everything is checked before anything is sent.
//!
//! ```text
//! documents ─► outgoing (the functions' own parser) ─► batches ─► queue ─► one answer a message
//! ```
//!
//! The input is read twice, once to check and once to send, and never held as a whole: a campaign's file may be larger than
//! the memory.

mod batches;
mod documents;
mod outgoing;
mod queue;

use std::{
    cell::Cell,
    io::{self, BufReader},
};

use futures_util::{StreamExt as _, stream};
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;

pub(crate) use outgoing::Outgoing;
pub(crate) use queue::{Answer, Queue};

use crate::{failure::Failure, input::Rereadable};
use batches::Batches;
use documents::Documents;

/// Batches on their way at the same time.
const IN_FLIGHT: usize = 8;

/// How many wrong messages are told of; whoever has more mends these first.
const MOST_TOLD: usize = 50;

/// After so many messages that were all refused, the next one will be, too.
const MOST_REFUSED_IN_A_ROW: usize = 50;

/// The queue refuses everything.
#[derive(Debug, thiserror::Error)]
#[error("{MOST_REFUSED_IN_A_ROW} messages in a row were not sent: the rest is not tried")]
struct NothingGetsThrough;

/// What checking found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Checked {
    /// How many messages.
    pub(crate) messages: u64,
    /// What will not end well though it may be sent: a line for each.
    pub(crate) warnings: Vec<String>,
}

/// Checks every message of `input`. All that is wrong comes back, as lines that name line, field and what would do.
pub(crate) fn check(input: &mut dyn Rereadable) -> Result<Checked, Failure> {
    let now = System.now();
    let mut checked = Checked::default();
    let mut errors = Vec::new();
    let mut wrong = 0_usize;
    for document in documents(input)? {
        match outgoing::read(document?, now) {
            Ok(message) => {
                checked.messages += 1;
                checked.warnings.extend(message.warning.filter(|_| checked.warnings.len() < MOST_TOLD));
            }
            Err(found) => {
                wrong += 1;
                if wrong <= MOST_TOLD {
                    errors.extend(found);
                }
            }
        }
    }
    if wrong > MOST_TOLD {
        errors.push(format!("and {} more messages", wrong - MOST_TOLD));
    }
    if wrong == 0 && checked.messages == 0 {
        errors.push("no message: expected one JSON message, or one a line".to_owned());
    }
    if errors.is_empty() { Ok(checked) } else { Err(Failure::Input(errors)) }
}

/// Sends every message of `input`, which was checked, and tells each one's answer, in their order. Where one message
/// after the other is refused, no more are tried.
pub(crate) async fn send(
    input: &mut dyn Rereadable,
    queue: &Queue,
    mut tell: impl FnMut(Answer) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let now = System.now();
    let refused_in_a_row = Cell::new(0_usize);
    let gets_through = || refused_in_a_row.get() < MOST_REFUSED_IN_A_ROW;
    let messages = documents(input)?.map(|document| {
        outgoing::read(document?, now).map_err(|_| {
            Failure::input("the input changed while it was being sent; the rest of it is not sent")
        })
    });
    let mut sent = stream::iter(Batches::of(messages).take_while(|_| gets_through()))
        .map(|batch| async move { Ok::<_, Failure>(queue.send(batch?).await) })
        .buffered(IN_FLIGHT);
    while let Some(answers) = sent.next().await {
        for answer in answers? {
            refused_in_a_row.set(if answer.sent.is_ok() { 0 } else { refused_in_a_row.get() + 1 });
            tell(answer)?;
        }
    }
    if gets_through() { Ok(()) } else { Err(Failure::from(NothingGetsThrough)) }
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
    fn every_wrong_message_is_told_with_its_line_and_field() {
        let text = format!(
            "{GOOD}\n{{\"tenant\":\"Acme\",\"to\":{{\"subscription\":\"s1\"}},\"ttl\":-1}}\n\n{{\"a\"\n"
        );
        assert_eq!(
            checked(&text).expect_err("two are wrong"),
            [
                "line 2: tenant: expected ^[a-z0-9][a-z0-9_-]{0,62}$, found a string",
                "line 2: ttl: expected whole seconds from 0 to 31536000 (a year), found an integer",
                "line 4: (the whole text): expected a JSON object, found no valid JSON (its line 1, column 4)",
            ]
        );
    }

    #[test]
    fn a_flood_of_errors_is_cut_and_counted() {
        let lines = checked(&"{}\n".repeat(70)).expect_err("all are wrong");
        assert_eq!(lines.last().map(String::as_str), Some("and 20 more messages"));
    }

    #[test]
    fn nothing_is_an_error_too() {
        assert_eq!(
            checked(" \n\n").expect_err("nothing"),
            ["no message: expected one JSON message, or one a line"]
        );
    }

    #[test]
    fn good_messages_are_counted_however_they_are_laid_out() {
        let pretty = "{\n  \"tenant\": \"acme\",\n  \"to\": {\"subscription\": \"s1\"}\n}\n";
        for (text, messages) in
            [(GOOD.to_owned(), 1), (format!("{GOOD}\r\n{GOOD}"), 2), (pretty.repeat(3), 3)]
        {
            assert_eq!(checked(&text).expect("good").messages, messages, "{text}");
        }
    }
}
