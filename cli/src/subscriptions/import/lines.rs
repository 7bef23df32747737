//! The lines of an input with their numbers, and a digest of those that were read, by which an import that continues recognises its
//! input.

use std::io::{self, BufRead};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial_core::subscription::document::MOST_BYTES;
use ring::digest::{Context, SHA256};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// `Err` says why it is unreadable.
    pub(super) text: Result<String, &'static str>,
}

/// Skips blank lines.
pub(super) struct Lines<R> {
    reader: R,
    number: u64,
    digest: Context,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, number: 0, digest: Context::new(&SHA256) }
    }

    /// Of everything that was read so far.
    pub(super) fn digest(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.digest.clone().finish())
    }

    /// The next line, cut at the length of the longest document.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let Some((mut kept, is_whole)) = self.raw()? else { return Ok(None) };
            if self.number == 1 && kept.starts_with("\u{FEFF}".as_bytes()) {
                kept.drain(..3);
            }
            if is_whole && kept.trim_ascii().is_empty() {
                continue;
            }
            let text = if is_whole {
                String::from_utf8(kept).map_err(|_| "expected UTF-8, found other bytes")
            } else {
                Err("expected at most 16384 bytes, found more")
            };
            return Ok(Some(Line { number: self.number, text }));
        }
    }

    /// The bytes of a line without its end, and whether they are complete.
    fn raw(&mut self) -> io::Result<Option<(Vec<u8>, bool)>> {
        let (mut kept, mut is_whole, mut has_begun) = (Vec::new(), true, false);
        loop {
            let available = self.reader.fill_buf()?;
            if available.is_empty() {
                self.number += u64::from(has_begun);
                return Ok(has_begun.then_some((kept, is_whole)));
            }
            has_begun = true;
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            let room = MOST_BYTES - kept.len();
            is_whole &= part.len() <= room;
            kept.extend_from_slice(&part[..part.len().min(room)]);
            let used = end.map_or(available.len(), |end| end + 1);
            self.digest.update(&available[..used]);
            self.reader.consume(used);
            if end.is_some() {
                self.number += 1;
                return Ok(Some((kept, is_whole)));
            }
        }
    }
}

pub(super) fn count(reader: impl BufRead) -> io::Result<u64> {
    let mut lines = Lines::new(reader);
    let mut count = 0;
    while lines.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<(u64, Result<String, &'static str>)> {
        let mut lines = Lines::new(text);
        std::iter::from_fn(|| lines.next().expect("memory")).map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn blank_lines_are_numbered_and_skipped() {
        let lines = all("\u{FEFF}a\r\n\n \nb".as_bytes());
        assert_eq!(lines, [(1, Ok("a\r".to_owned())), (4, Ok("b".to_owned()))]);
        assert_eq!(count(&b"a\n\nb\n"[..]).expect("memory"), 2);
        assert_eq!(all(b""), []);
    }

    #[test]
    fn an_invalid_line_affects_no_other() {
        let long = "x".repeat(MOST_BYTES + 1);
        let lines = all(format!("{long}\nb\n").as_bytes());
        assert_eq!(lines[0], (1, Err("expected at most 16384 bytes, found more")));
        assert_eq!(lines[1], (2, Ok("b".to_owned())));
        assert_eq!(all(b"\xff\nb")[0].1, Err("expected UTF-8, found other bytes"));
        assert!(all(&long.as_bytes()[1..])[0].1.is_ok());
    }

    #[test]
    fn the_digest_is_of_the_lines_that_were_read() {
        let after_one = |text: &'static [u8]| {
            let mut lines = Lines::new(text);
            lines.next().expect("memory");
            lines.digest()
        };
        assert_eq!(after_one(b"a\nb\n"), after_one(b"a\nc\n"));
        assert_ne!(after_one(b"a\nb\n"), after_one(b"b\nb\n"));
    }
}
