//! Where rows come from: a stack's tables, or the lines of a file.

use std::io::BufRead;

use redial_adapters::replica_dynamo::{At, DynamoReplica, Row};
use serde::{Deserialize, Serialize};

use super::file::End;
use crate::{failure::Failure, lines::Lines};

/// Where a reading has come to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Position {
    Stack(At),
    /// After the line of this number, and the digest of all lines up to it.
    File {
        line: u64,
        digest: String,
    },
    End,
}

#[derive(Debug)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    /// Lines that hold none, with what was expected.
    pub(super) refused: Vec<(u64, &'static str)>,
    /// How many items or lines were read.
    pub(super) read: u64,
    pub(super) next: Position,
}

pub(super) trait Source {
    /// The next rows, of at most `most` items or lines; `None` at the end.
    async fn next(&mut self, most: usize) -> Result<Option<Rows>, Failure>;
}

pub(super) struct FromStack {
    replica: DynamoReplica,
    /// `None` at the end.
    at: Option<At>,
}

impl FromStack {
    pub(super) fn new(replica: DynamoReplica, position: &Position) -> Self {
        let at = match position {
            Position::Stack(at) => Some(at.clone()),
            Position::File { .. } | Position::End => None,
        };
        Self { replica, at }
    }
}

impl Source for FromStack {
    async fn next(&mut self, most: usize) -> Result<Option<Rows>, Failure> {
        let Some(at) = &self.at else { return Ok(None) };
        let page = self.replica.page(at, u16::try_from(most).unwrap_or(u16::MAX)).await?;
        self.at = page.next;
        let next = self.at.clone().map_or(Position::End, Position::Stack);
        Ok(Some(Rows { rows: page.rows, refused: Vec::new(), read: page.read, next }))
    }
}

pub(super) struct FromFile<R> {
    lines: Lines<R>,
}

impl<R: BufRead> FromFile<R> {
    /// After the line that the position names; an input that differs up to there is refused.
    pub(super) fn new(mut lines: Lines<R>, position: &Position) -> Result<Self, Failure> {
        if let Position::File { line, digest } = position {
            while lines.number < *line && lines.line()?.is_some() {}
            if (lines.number, &lines.digest()) != (*line, digest) {
                return Err(Failure::input(format!(
                    "the input differs from the one that was imported up to line {line}: pass that one, or --checkpoint with another file"
                )));
            }
        }
        Ok(Self { lines })
    }
}

impl<R: BufRead> Source for FromFile<R> {
    async fn next(&mut self, most: usize) -> Result<Option<Rows>, Failure> {
        let mut rows = Rows { rows: Vec::new(), refused: Vec::new(), read: 0, next: Position::End };
        while rows.read < most as u64
            && let Some(document) = self.lines.document()?
        {
            if document.text.as_ref().is_ok_and(|text| End::parse(text).is_some()) {
                continue;
            }
            rows.read += 1;
            let row = document
                .text
                .map_err(|_| "expected a line of UTF-8 up to 1 MiB")
                .and_then(|text| Row::parse(&text));
            match row {
                Ok(row) => rows.rows.push(row),
                Err(expected) => rows.refused.push((document.line, expected)),
            }
        }
        rows.next = Position::File { line: self.lines.number, digest: self.lines.digest() };
        Ok((rows.read > 0).then_some(rows))
    }
}
