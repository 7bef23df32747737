//! The lines of an input with their numbers, and a digest of those that were read, by which work that continues recognises its input.

use std::io::{self, BufRead};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest::{Context, SHA256};

/// A JSON text of an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Document {
    /// The line that it begins in, from 1.
    pub(crate) line: u64,
    /// Without the space around it; `Err` says why it is unreadable.
    pub(crate) text: Result<String, String>,
}

pub(crate) struct Lines<R> {
    reader: R,
    /// The bytes of the longest line.
    most: usize,
    /// Of the last line that was read.
    pub(crate) number: u64,
    digest: Context,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R, most: usize) -> Self {
        Self { reader, most, number: 0, digest: Context::new(&SHA256) }
    }

    /// Of everything that was read so far.
    pub(crate) fn digest(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.digest.clone().finish())
    }

    /// The next line that is not blank, as a document.
    pub(crate) fn document(&mut self) -> io::Result<Option<Document>> {
        let Some(line) = self.line()? else { return Ok(None) };
        Ok(Some(Document { line: self.number, text: readable(&line, self.most) }))
    }

    /// The next line that is not blank. Of a line that is too long, only the beginning, which is too long as well.
    pub(crate) fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        while let Some(mut line) = self.any_line()? {
            if self.number == 1 && line.starts_with("\u{FEFF}".as_bytes()) {
                line.drain(..3);
            }
            if line.len() > self.most || !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// The same for blank lines, too.
    pub(crate) fn any_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        // The end of a line, up to two bytes, does not count.
        let kept = self.most + 3;
        let (mut line, mut is_any, mut has_ended) = (Vec::new(), false, false);
        while !has_ended {
            let available = self.reader.fill_buf()?;
            if available.is_empty() {
                break;
            }
            is_any = true;
            let end = available.iter().position(|byte| *byte == b'\n');
            has_ended = end.is_some();
            let taken = end.map_or(available.len(), |end| end + 1);
            line.extend_from_slice(&available[..taken.min(kept - line.len())]);
            self.digest.update(&available[..taken]);
            self.reader.consume(taken);
        }
        self.number += u64::from(is_any);
        Ok(is_any.then_some(line))
    }
}

pub(crate) fn readable(text: &[u8], most: usize) -> Result<String, String> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    if text.len() > most {
        return Err(format!("expected at most {most} bytes, found more"));
    }
    let text = std::str::from_utf8(text.trim_ascii()).map_err(|_| "expected UTF-8, found other bytes")?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<(u64, Result<String, String>)> {
        let mut lines = Lines::new(text, 10);
        std::iter::from_fn(|| lines.document().expect("memory")).map(|it| (it.line, it.text)).collect()
    }

    #[test]
    fn blank_lines_are_skipped_and_an_invalid_line_affects_no_other() {
        let (a, b) = (Ok("a".to_owned()), Ok("b".to_owned()));
        let too_long = Err("expected at most 10 bytes, found more".to_owned());
        let ten = Ok("0123456789".to_owned());
        for (text, lines) in [
            (&b""[..], vec![]),
            ("\u{FEFF}a\r\n\n \nb".as_bytes(), vec![(1, a), (4, b.clone())]),
            (b"01234567890\nb\n", vec![(1, too_long.clone()), (2, b.clone())]),
            (b"              x\nb\n", vec![(1, too_long), (2, b.clone())]),
            (b"0123456789\n0123456789\r\n", vec![(1, ten.clone()), (2, ten)]),
            (b"\xff\nb", vec![(1, Err("expected UTF-8, found other bytes".to_owned())), (2, b)]),
        ] {
            assert_eq!(all(text), lines, "{text:?}");
        }
    }

    #[test]
    fn the_digest_is_of_the_lines_that_were_read() {
        let after_one = |text: &'static [u8]| {
            let mut lines = Lines::new(text, 10);
            lines.line().expect("memory");
            lines.digest()
        };
        assert_eq!(after_one(b"a\nb\n"), after_one(b"a\nc\n"));
        assert_ne!(after_one(b"a\nb\n"), after_one(b"b\nb\n"));
    }
}
