//! Where the commands write: results to standard output, everything else to standard error.
//!
//! A reader that closes the pipe early, as `head` does, is no error: the command goes on without output.
//!
//! What is shown may be a tenant's text. Characters that move a terminal's cursor, rename its window or turn the direction of
//! writing round do not reach one, and lines that are longer than it is wide are broken at words; a pipe gets both as they are.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write as _},
    os::fd::AsFd,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use anstream::stream::RawStream;

use crate::{
    line::Line,
    tone::{Tone, is_coloured},
    wrapped::wrapped_below,
};

/// Fewer steps than this are over before a bar helps.
const WORTH_A_BAR: u64 = 100;

/// Prints a line of progress, or of an error. A closed standard error is ignored.
pub fn say(line: &str) {
    let _closed = writeln!(io::stderr(), "{}", fitted(&judged(line), &io::stderr()));
}

/// The same of a line that means something as a whole.
pub fn say_toned(line: &str, tone: Option<Tone>) {
    let line = Line::default().then(line, tone);
    let _closed = writeln!(io::stderr(), "{}", fitted(&line, &io::stderr()));
}

/// A line that says at its beginning how bad it is.
fn judged(line: &str) -> Line {
    let labels = [("error:", Tone::Alarm), ("warning:", Tone::Caution)];
    match labels.into_iter().find(|(label, _)| line.starts_with(label)) {
        Some((label, tone)) => Line::default().then(label, Some(tone)).then(&line[label.len()..], None),
        None => line.into(),
    }
}

/// Prints a line of the result.
pub fn print(line: &str) -> io::Result<()> {
    print_line(&line.into())
}

pub fn print_line(line: &Line) -> io::Result<()> {
    is_read(writeln!(io::stdout(), "{}", fitted(line, &io::stdout()))).map(|_| ())
}

pub fn print_lines(lines: impl IntoIterator<Item = impl Into<Line>>) -> io::Result<()> {
    lines.into_iter().try_for_each(|line| print_line(&line.into()))
}

/// Prints a result of Redial's own that ends as it ends, with or without a line feed.
pub fn print_as_it_is(text: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout();
    is_read(stdout.write_all(text).and_then(|()| stdout.flush())).map(|_| ())
}

/// The line as it may be written there, broken at words where that is a terminal.
fn fitted(line: &Line, to: &(impl IsTerminal + AsFd + RawStream)) -> String {
    let text = shown(line, to);
    match columns(to) {
        // Escape codes have no width there.
        Some(columns) => wrapped_below(&text, columns, line.below).join("\n"),
        None => text,
    }
}

/// The line as it may be written there, with its colours.
pub fn shown(line: &Line, to: &(impl IsTerminal + RawStream)) -> String {
    let clean = |text: &str| cleaned(text, to).into_owned();
    if is_coloured(to) { line.painted(clean) } else { clean(line) }
}

fn cleaned<'a>(text: &'a str, to: &impl IsTerminal) -> Cow<'a, str> {
    if to.is_terminal() { without_commands(text) } else { Cow::Borrowed(text) }
}

/// The text with U+FFFD for each character that a terminal obeys instead of showing it, line feeds and tabs apart.
fn without_commands(text: &str) -> Cow<'_, str> {
    let is_command = |c: char| match c {
        '\n' | '\t' => false,
        // Unicode's bidirectional formatting characters (UAX #9, section 2).
        '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    };
    if text.contains(is_command) {
        Cow::Owned(text.replace(is_command, "\u{FFFD}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The characters of a line of standard output; `None` if that is no terminal.
pub fn width() -> Option<usize> {
    columns(&io::stdout())
}

fn columns(of: &impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(of).ok()?;
    // A terminal that does not know its width reports 0.
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// The lines of the terminal that standard output is; `None` if it is none.
pub fn height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

/// Whether the pipe is still open. A closed one is no error.
pub fn is_read(written: io::Result<()>) -> io::Result<bool> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

/// A progress bar on standard error; hidden where that is no terminal, or where the steps are few.
pub fn bar(steps: u64, what: &'static str) -> ProgressBar {
    if steps < WORTH_A_BAR {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len}  {eta} left")
        .expect("invariant: the template is a constant that a test renders");
    let bar = ProgressBar::new(steps).with_style(style).with_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A line on standard error that says what is waited for, and for how long already; hidden where that is no terminal.
pub fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed:>4} {wide_msg}")
        .expect("invariant: the template is a constant that a test renders");
    let line = ProgressBar::new_spinner().with_style(style);
    line.enable_steady_tick(Duration::from_millis(500));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_error_and_a_full_disk_is() {
        assert_eq!(is_read(Ok(())).ok(), Some(true));
        assert_eq!(is_read(Err(io::ErrorKind::BrokenPipe.into())).ok(), Some(false));
        assert!(is_read(Err(io::ErrorKind::StorageFull.into())).is_err());
    }

    #[test]
    fn what_a_terminal_obeys_is_not_printed_on_one() {
        let hostile = "ok\u{1b}[2J\u{9b}31m \u{202e}gnp.exe\u{2066} \r\u{7}\ttab\nline";
        let expected = "ok\u{fffd}[2J\u{fffd}31m \u{fffd}gnp.exe\u{fffd} \u{fffd}\u{fffd}\ttab\nline";
        assert_eq!(without_commands(hostile), expected);
        assert!(matches!(without_commands("Grüße, שלום, 👋"), Cow::Borrowed(_)));
        let pipe = std::fs::File::open("/dev/null").expect("a file that is no terminal");
        assert_eq!(cleaned(hostile, &pipe), hostile);
    }

    #[test]
    fn a_bar_is_shown_for_many_steps_only() {
        assert_eq!(bar(WORTH_A_BAR, "sending").length(), Some(WORTH_A_BAR));
        assert!(bar(1, "sending").is_hidden());
    }
}
