//! So many in a span of time: 2000/s, 120/min.
//!
//! It stays the two whole numbers that it was written as: what a simulation counts is exact, however long it runs.

use std::fmt;

/// How rates are written, for errors.
const FORMS: &str =
    "expected a whole number from 1 to 4294967295 a second, minute or hour: 2000, 2000/s, 120/min, 90/h";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    count: u32,
    span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Span {
    Second,
    Minute,
    Hour,
}

impl Span {
    const fn ms(self) -> u64 {
        match self {
            Self::Second => 1_000,
            Self::Minute => 60_000,
            Self::Hour => 3_600_000,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "min",
            Self::Hour => "h",
        }
    }
}

impl Rate {
    /// Reads `2000`, `2000/s`, `120/min` or `90/h`; the error says what would do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (count, span) = match text.split_once('/') {
            None => (text, Span::Second),
            Some((count, "s")) => (count, Span::Second),
            Some((count, "min")) => (count, Span::Minute),
            Some((count, "h")) => (count, Span::Hour),
            Some(_) => return Err(FORMS.to_owned()),
        };
        // `parse` would take a sign, too.
        if !count.bytes().all(|b| b.is_ascii_digit()) {
            return Err(FORMS.to_owned());
        }
        match count.parse() {
            Ok(count) if count > 0 => Ok(Self { count, span }),
            Ok(_) | Err(_) => Err(FORMS.to_owned()),
        }
    }

    /// When number `n` (from 0) of an even flow comes, in milliseconds from the start, rounded down.
    pub fn moment_of(self, n: u32) -> u64 {
        u64::from(n) * self.span.ms() / u64::from(self.count)
    }

    /// So many in that many milliseconds: the rate as the ratio of the two.
    pub fn ratio(self) -> (u64, u64) {
        (u64::from(self.count), self.span.ms())
    }

    pub fn per_second(self) -> f64 {
        f64::from(self.count) * 1000.0 / self.span.ms() as f64
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.span.label())
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
        for text in [
            "",
            "0",
            "0/s",
            "-1",
            "+5/s",
            "1.5/s",
            "2000/",
            "/s",
            "2000/sec",
            "2000 /s",
            "1/s/s",
            "99999999999",
        ] {
            let refused = Rate::parse(text).expect_err(text);
            assert!(refused.contains("2000/s"), "{text}: {refused}");
        }
    }

    #[test]
    fn an_even_flow_keeps_its_rate_to_the_millisecond() {
        assert_eq!((0..5).map(|n| rate("2000/s").moment_of(n)).collect::<Vec<_>>(), [0, 0, 1, 1, 2]);
        assert_eq!((0..4).map(|n| rate("3/s").moment_of(n)).collect::<Vec<_>>(), [0, 333, 666, 1_000]);
        assert_eq!(rate("120/min").moment_of(3), 1_500);
        assert_eq!(rate("1/h").moment_of(u32::MAX), 4_294_967_295 * 3_600_000);
    }
}
