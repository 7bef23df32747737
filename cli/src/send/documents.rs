//! Splits an input into JSON documents, each with the line that it begins in.
//!
//! If the first line is a document by itself, every line is one (NDJSON), and an invalid line affects no other. Otherwise
//! documents span lines, as in pretty-printed JSON; then brackets are counted, and a document that does not end is the last
//! one. Nothing longer than a message is read.

use std::io::{self, BufRead};

/// The limit of a message, and of a batch, in bytes (SendMessage and SendMessageBatch, API reference).
pub(crate) const MAX_MESSAGE_BYTES: usize = 1_048_576;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Document {
    /// The line that it begins in, from 1.
    pub(super) line: u64,
    /// Without the space around it.
    pub(super) text: Result<String, Unreadable>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unreadable {
    /// Longer than [`MAX_MESSAGE_BYTES`].
    TooLong,
    NotUtf8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    /// Before the first line.
    Unknown,
    /// One document a line.
    Lines,
    /// Documents end where their brackets do.
    Brackets,
    /// A document did not end: the rest cannot be split.
    Lost,
}

#[derive(Debug)]
pub(super) struct Documents<R> {
    reader: R,
    lines_read: u64,
    layout: Layout,
    /// The rest of a line in which a document ended.
    rest: Vec<u8>,
}

impl<R: BufRead> Documents<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, lines_read: 0, layout: Layout::Unknown, rest: Vec::new() }
    }

    /// The next line that is not blank, cut one byte beyond the limit of a message.
    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        if !self.rest.trim_ascii().is_empty() {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        while let Some(mut line) = self.raw_line()? {
            if self.lines_read == 1 && line.starts_with(b"\xEF\xBB\xBF") {
                line.drain(..3);
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    fn raw_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let mut any = false;
        loop {
            let available = self.reader.fill_buf()?;
            if available.is_empty() {
                break;
            }
            any = true;
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            let room = (MAX_MESSAGE_BYTES + 1).saturating_sub(line.len());
            line.extend_from_slice(&available[..taken.min(room)]);
            self.reader.consume(taken);
            if end.is_some() {
                break;
            }
        }
        self.lines_read += u64::from(any);
        Ok(any.then_some(line))
    }

    fn read(&mut self) -> io::Result<Option<Document>> {
        if self.layout == Layout::Lost {
            return Ok(None);
        }
        let Some(first) = self.line()? else { return Ok(None) };
        let line = self.lines_read;
        if self.layout == Layout::Unknown {
            let end = Brackets::default().end_in(&first);
            self.layout = match end {
                Some(end) if first[end..].trim_ascii().is_empty() => Layout::Lines,
                Some(_) | None => Layout::Brackets,
            };
        }
        let text = match self.layout {
            Layout::Brackets => self.read_to_closing_bracket(first)?,
            Layout::Lines | Layout::Unknown | Layout::Lost => first,
        };
        Ok(Some(Document { line, text: readable(&text) }))
    }

    fn read_to_closing_bracket(&mut self, first: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut brackets = Brackets::default();
        let mut text = Vec::new();
        let mut line = first;
        loop {
            if let Some(end) = brackets.end_in(&line) {
                self.rest = line.split_off(end);
                text.append(&mut line);
                return Ok(text);
            }
            text.append(&mut line);
            if text.len() > MAX_MESSAGE_BYTES {
                self.layout = Layout::Lost;
                return Ok(text);
            }
            match self.raw_line()? {
                Some(next) => line = next,
                None => {
                    self.layout = Layout::Lost;
                    return Ok(text);
                }
            }
        }
    }
}

impl<R: BufRead> Iterator for Documents<R> {
    type Item = io::Result<Document>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn readable(text: &[u8]) -> Result<String, Unreadable> {
    let text = text.trim_ascii();
    if text.len() > MAX_MESSAGE_BYTES {
        return Err(Unreadable::TooLong);
    }
    std::str::from_utf8(text).map(str::to_owned).map_err(|_| Unreadable::NotUtf8)
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

    fn read(text: impl AsRef<[u8]>) -> Vec<(u64, Result<String, Unreadable>)> {
        Documents::new(text.as_ref()).map(|it| it.expect("memory")).map(|it| (it.line, it.text)).collect()
    }

    fn texts(text: &str) -> Vec<(u64, String)> {
        read(text).into_iter().map(|(line, text)| (line, text.expect("readable"))).collect()
    }

    #[test]
    fn every_line_is_a_document_if_the_first_one_is() {
        let found = texts("\u{FEFF}{\"a\":\"}{\"}\r\n\n  {\"b\": \n{\"c\":1}");
        let expected = [(1, "{\"a\":\"}{\"}"), (3, "{\"b\":"), (4, "{\"c\":1}")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn documents_that_span_lines_end_with_their_brackets() {
        let found = texts("\n{\n  \"a\": \"}\\\"]\",\n  \"b\": [{}]\n}\n{\n}{\"c\": 1\n} \n");
        let expected = [(2, "{\n  \"a\": \"}\\\"]\",\n  \"b\": [{}]\n}"), (6, "{\n}"), (7, "{\"c\": 1\n}")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn a_document_that_does_not_end_is_the_last_one() {
        assert_eq!(texts("{\"a\": [\n{\"b\": 1}\n").len(), 1);
        assert_eq!(texts("{\n}\n{\n\"a\": 1\n").len(), 2);
    }

    #[test]
    fn a_document_need_not_be_an_object() {
        assert_eq!(texts("42\n\"a\n").len(), 2);
        assert_eq!(texts("}\n").len(), 1);
    }

    #[test]
    fn invalid_lines_are_reported_and_the_next_line_is_read() {
        let long = format!("{{}}\n{{\"a\":\"{}\"}}\n{{}}\n", "x".repeat(MAX_MESSAGE_BYTES));
        let found = read(&long);
        assert_eq!(found[1], (2, Err(Unreadable::TooLong)));
        assert_eq!(found[2], (3, Ok("{}".to_owned())));
        assert_eq!(read(b"{}\n\xFF\n{}")[1], (2, Err(Unreadable::NotUtf8)));
        assert_eq!(read(format!("{{\n{}", " \n".repeat(MAX_MESSAGE_BYTES))).len(), 1);
    }

    #[test]
    fn the_longest_message_is_read() {
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_MESSAGE_BYTES - 8));
        assert_eq!(text.len(), MAX_MESSAGE_BYTES);
        assert_eq!(texts(&format!("{text}\n{text}\n")).len(), 2);
    }
}
