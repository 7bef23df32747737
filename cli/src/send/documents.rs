//! Splits an input into JSON documents, each with the line that it begins in.
//!
//! If the first line is a document by itself, every line is one (NDJSON), and an invalid line affects no other. Otherwise
//! documents span lines, as in pretty-printed JSON; then brackets are counted, and a document that does not end is the last
//! one. Nothing longer than a message is read.

use std::io::{self, BufRead};

use crate::lines::{Document, Lines, readable};

/// The limit of a message, and of a batch, in bytes (SendMessage and SendMessageBatch, API reference).
pub(crate) const MAX_MESSAGE_BYTES: usize = 1_048_576;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    Unknown,
    Lines,
    /// Documents end where their brackets do.
    Brackets,
    /// A document did not end: the rest cannot be split.
    Lost,
}

pub(super) struct Documents<R> {
    lines: Lines<R>,
    layout: Layout,
    /// The rest of a line in which a document ended.
    rest: Vec<u8>,
}

impl<R: BufRead> Documents<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { lines: Lines::new(reader, MAX_MESSAGE_BYTES), layout: Layout::Unknown, rest: Vec::new() }
    }

    fn read(&mut self) -> io::Result<Option<Document>> {
        if self.layout == Layout::Lost {
            return Ok(None);
        }
        let rest = std::mem::take(&mut self.rest);
        let first = if rest.trim_ascii().is_empty() { self.lines.line()? } else { Some(rest) };
        let Some(first) = first else { return Ok(None) };
        let line = self.lines.number;
        if self.layout == Layout::Unknown {
            let end = Brackets::default().end_in(&first);
            let is_whole = end.is_some_and(|end| first[end..].trim_ascii().is_empty());
            self.layout = if is_whole { Layout::Lines } else { Layout::Brackets };
        }
        let is_line = self.layout == Layout::Lines;
        let text = if is_line { first } else { self.read_to_closing_bracket(first)? };
        Ok(Some(Document { line, text: readable(&text, MAX_MESSAGE_BYTES) }))
    }

    fn read_to_closing_bracket(&mut self, first: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut brackets = Brackets::default();
        let mut text = Vec::new();
        let mut next = Some(first);
        while let Some(mut line) = next {
            if let Some(end) = brackets.end_in(&line) {
                self.rest = line.split_off(end);
                text.append(&mut line);
                return Ok(text);
            }
            text.append(&mut line);
            next = if text.len() > MAX_MESSAGE_BYTES { None } else { self.lines.any_line()? };
        }
        self.layout = Layout::Lost;
        Ok(text)
    }
}

impl<R: BufRead> Iterator for Documents<R> {
    type Item = io::Result<Document>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Counts the brackets of a document, except those in strings.
#[derive(Debug, Default)]
struct Brackets {
    open: u32,
    in_string: bool,
    escaped: bool,
}

impl Brackets {
    /// Where in `bytes` the document ends, if it does; bytes are given once and in order. A document that is neither an object nor an
    /// array ends with its line.
    fn end_in(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'{' | b'[' => self.open += 1,
                b'}' | b']' if self.open <= 1 => return Some(at + 1),
                b'}' | b']' => self.open -= 1,
                _ if byte.is_ascii_whitespace() => {}
                _ if self.open == 0 => return Some(bytes.len()),
                b'"' => self.in_string = true,
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: impl AsRef<[u8]>) -> Vec<(u64, Result<String, String>)> {
        Documents::new(text.as_ref()).map(|it| it.expect("memory")).map(|it| (it.line, it.text)).collect()
    }

    #[test]
    fn documents_are_lines_if_the_first_line_is_one_and_end_with_their_brackets_otherwise() {
        let found = |text: &str| -> Vec<(u64, String)> {
            read(text).into_iter().map(|(line, text)| (line, text.expect("readable"))).collect()
        };
        for (text, documents) in [
            (
                "\u{FEFF}{\"a\":\"}{\"}\r\n\n  {\"b\": \n{\"c\":1}",
                &[(1, "{\"a\":\"}{\"}"), (3, "{\"b\":"), (4, "{\"c\":1}")][..],
            ),
            (
                "\n{\n  \"a\": \"}\\\"]\",\n  \"b\": [{}]\n}\n{\n}{\"c\": 1\n} \n",
                &[(2, "{\n  \"a\": \"}\\\"]\",\n  \"b\": [{}]\n}"), (6, "{\n}"), (7, "{\"c\": 1\n}")],
            ),
            // One that does not end is the last one.
            ("{\"a\": [\n{\"b\": 1}\n", &[(1, "{\"a\": [\n{\"b\": 1}")]),
            ("{\n}\n{\n\"a\": 1\n", &[(1, "{\n}"), (3, "{\n\"a\": 1")]),
            // A document need not be an object.
            ("42\n\"a\n", &[(1, "42"), (2, "\"a")]),
            ("}\n", &[(1, "}")]),
        ] {
            let documents: Vec<_> =
                documents.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
            assert_eq!(found(text), documents);
        }
    }

    #[test]
    fn invalid_lines_are_reported_and_the_next_line_is_read() {
        let long = format!("{{}}\n{{\"a\":\"{}\"}}\n{{}}\n", "x".repeat(MAX_MESSAGE_BYTES));
        let too_long = Err("expected at most 1048576 bytes, found more".to_owned());
        assert_eq!(read(&long)[1..], [(2, too_long), (3, Ok("{}".to_owned()))]);
        assert!(read(b"{}\n\xFF\n{}")[1].1.is_err());
        assert_eq!(read(format!("{{\n{}", " \n".repeat(MAX_MESSAGE_BYTES))).len(), 1);
        let longest = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_MESSAGE_BYTES - 8));
        assert_eq!(longest.len(), MAX_MESSAGE_BYTES);
        assert!(read(format!("{longest}\n{longest}\n")).iter().all(|(_, text)| text.is_ok()));
    }
}
