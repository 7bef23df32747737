//! A number in a span of time: 2000/s, 120/min.
//!
//! It stays the two whole numbers that it was written as: what a simulation counts is exact, however long it runs.

use std::fmt;

/// How rates are written, for errors.
const FORMS: &str =
    "expected a whole number from 1 to 4294967295 a second, minute or hour: 2000, 2000/s, 120/min, 90/h";

/// The spans of time, with their milliseconds; the first is meant where none is written.
const SPANS: [(&str, u64); 3] = [("s", 1_000), ("min", 60_000), ("h", 3_600_000)];

/// A rate; its count is never zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    count: u32,
    span: (&'static str, u64),
}

impl Rate {
    /// Reads `2000`, `2000/s`, `120/min` or `90/h`; the error says what would do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (count, span) = text.split_once('/').unwrap_or((text, SPANS[0].0));
        let span = SPANS.into_iter().find(|(label, _)| *label == span);
        // `parse` would take a sign, too.
        let count = Some(count).filter(|count| count.bytes().all(|b| b.is_ascii_digit()));
        let count = count.and_then(|count| count.parse().ok()).filter(|count| *count > 0);
        count.zip(span).map(|(count, span)| Self { count, span }).ok_or(FORMS.to_owned())
    }

    /// When number `n` (from 0) of an even flow comes, in milliseconds from the start, rounded down.
    pub fn moment_of(self, n: u32) -> u64 {
        u64::from(n) * self.span.1 / u64::from(self.count)
    }

    /// A number, and the milliseconds that it holds for: the rate as the ratio of the two.
    pub fn ratio(self) -> (u64, u64) {
        (u64::from(self.count), self.span.1)
    }

    pub fn per_second(self) -> f64 {
        f64::from(self.count) * 1000.0 / self.span.1 as f64
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.span.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        Rate::parse(text).expect("a rate")
    }

    #[test]
    fn a_rate_is_a_number_and_its_span() {
        for (text, shown, per_second) in [
            ("2000", "2000/s", 2000.0),
            ("2000/s", "2000/s", 2000.0),
            ("120/min", "120/min", 2.0),
            ("1800/h", "1800/h", 0.5),
        ] {
            assert_eq!((rate(text).to_string().as_str(), rate(text).per_second()), (shown, per_second));
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_what_would_do() {
        let signed = ["-1", "+5/s", "1.5/s"];
        let others = ["", "0", "0/s", "2000/", "/s", "2000/sec", "2000 /s", "1/s/s", "99999999999"];
        for text in signed.into_iter().chain(others) {
            let refused = Rate::parse(text).expect_err(text);
            assert!(refused.contains("2000/s"), "{text}: {refused}");
        }
    }

    #[test]
    fn an_even_flow_keeps_its_rate_to_the_millisecond() {
        for (text, n, ms) in [
            ("2000/s", 1, 0),
            ("2000/s", 2, 1),
            ("2000/s", 4, 2),
            ("3/s", 0, 0),
            ("3/s", 1, 333),
            ("3/s", 2, 666),
            ("3/s", 3, 1_000),
            ("120/min", 3, 1_500),
            ("1/h", u32::MAX, 4_294_967_295 * 3_600_000),
        ] {
            assert_eq!(rate(text).moment_of(n), ms, "{n} of {text}");
        }
    }
}
