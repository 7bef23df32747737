//! A line for people: its text, and what parts of it mean.
//!
//! The text holds no escape codes, so that its length is what is seen; they are added where it is written to a terminal.

use std::{fmt, ops::Deref};

use crate::tone::Tone;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Line {
    text: String,
    /// The bytes of the text that a tone begins and ends at, in their order and apart.
    toned: Vec<(usize, usize, Tone)>,
    /// The column that it goes on at where it is broken.
    pub(crate) below: usize,
}

impl Line {
    /// A line that goes on below what stands at this column, where it is broken.
    pub fn going_on_at(self, column: usize) -> Self {
        Self { below: column, ..self }
    }

    /// The line with more text at its end.
    pub fn then(mut self, text: &str, tone: Option<Tone>) -> Self {
        let from = self.text.len();
        self.text.push_str(text);
        self.toned.extend(tone.filter(|_| !text.is_empty()).map(|tone| (from, self.text.len(), tone)));
        self
    }

    /// The line without the spaces at its end.
    pub fn trimmed(mut self) -> Self {
        self.text.truncate(self.text.trim_end().len());
        let end = self.text.len();
        self.toned.retain_mut(|(from, to, _)| {
            *to = end.min(*to);
            from < to
        });
        self
    }

    /// The text with the escape codes of its tones. `clean` is what may be shown of a part.
    pub(crate) fn painted(&self, clean: impl Fn(&str) -> String) -> String {
        let (mut shown, mut at) = (String::new(), 0);
        for (from, to, tone) in &self.toned {
            let (style, part) = (tone.style(), clean(&self.text[*from..*to]));
            shown.push_str(&format!("{}{style}{part}{style:#}", clean(&self.text[at..*from])));
            at = *to;
        }
        shown + &clean(&self.text[at..])
    }
}

/// The text of lines.
pub fn text_of(lines: &[Line]) -> String {
    lines.iter().map(|line| &**line).collect::<Vec<&str>>().join("\n")
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for Line {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl Deref for Line {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.text)
    }
}

impl PartialEq<str> for Line {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for Line {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

impl PartialEq<String> for Line {
    fn eq(&self, other: &String) -> bool {
        self.text == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_its_text_and_codes_stand_around_its_tones() {
        let line = Line::from("ab ").then("down", Some(Tone::Alarm)).then(" cd  ", None).trimmed();
        assert_eq!(line, "ab down cd");
        assert_eq!(line.painted(str::to_owned), "ab \u{1b}[31mdown\u{1b}[0m cd");
        let cut = Line::default().then("well  ", Some(Tone::Well)).then("", Some(Tone::Alarm)).trimmed();
        assert_eq!(cut.painted(str::to_owned), "\u{1b}[32mwell\u{1b}[0m");
        assert_eq!(Line::default().then("  ", Some(Tone::Well)).trimmed().painted(str::to_owned), "");
    }

    #[test]
    fn a_text_cannot_bring_codes_of_its_own() {
        let line = Line::from("\u{1b}[2J").then("\u{1b}[31m", Some(Tone::Caution));
        let clean = |part: &str| part.replace('\u{1b}', "?");
        assert_eq!(line.painted(clean), "?[2J\u{1b}[33m?[31m\u{1b}[0m");
    }
}
