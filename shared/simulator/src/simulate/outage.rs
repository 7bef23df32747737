//! The time in which the provider answers nothing but 503, in whole seconds from the start: `5..35`, `1m..2m30s`.
//!
//! Whole seconds, because load is counted in whole seconds: so the first second after an outage is all after it.

use std::fmt;

use redial_console::duration;

/// No scenario's messages take longer to arrive, and no outage ends later, in seconds: a year.
pub(super) const LONGEST_S: u32 = 365 * 86_400;

/// How an outage is written, for errors.
const FORMS: &str = "expected START..END from the start of the simulation: 5..35, 5s..35s, 1m..2m30s, 1h..2h";

/// An outage: `start_s` belongs to it, `end_s` does not, and comes later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outage {
    pub(crate) start_s: u32,
    pub(crate) end_s: u32,
}

impl Outage {
    /// Reads `START..END`; the error says what would do.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (start, end) = text.split_once("..").ok_or(FORMS)?;
        let seconds = |text: &str| {
            let span = duration::parse_or_seconds(text);
            span.and_then(|span| u32::try_from(span.as_secs()).ok()).ok_or(FORMS)
        };
        let (start_s, end_s) = (seconds(start)?, seconds(end)?);
        if start_s >= end_s {
            return Err(format!("it starts at {start_s} s and ends at {end_s} s: expected START before END"));
        }
        if end_s > LONGEST_S {
            return Err(format!("it ends after {end_s} s: expected {LONGEST_S} s (a year) at most"));
        }
        Ok(Self { start_s, end_s })
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s to {} s", self.start_s, self.end_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_read_with_and_without_units() {
        for (text, start_s, end_s) in [
            ("5..35", 5, 35),
            ("5s..35s", 5, 35),
            ("0..1", 0, 1),
            ("1m..2m30s", 60, 150),
            ("1h..2h", 3_600, 7_200),
            ("1d..1d1h", 86_400, 90_000),
            ("90..1h1m1s", 90, 3_661),
        ] {
            assert_eq!(Outage::parse(text), Ok(Outage { start_s, end_s }), "{text}");
        }
    }

    #[test]
    fn what_is_no_outage_is_refused_with_what_would_do() {
        for text in [
            "",
            "..",
            "5",
            "5..",
            "..35",
            "5-35",
            "-5..35",
            "+5..35",
            "5.5..35",
            "s..35",
            "1s1m..5m",
            "1m1m..5m",
            "5..35..40",
            "5 .. 35",
            "5..99999999999",
        ] {
            let refused = Outage::parse(text).expect_err(text);
            assert!(refused.contains("1m..2m30s"), "{text}: {refused}");
        }
        for (text, said) in
            [("35..5", "START before END"), ("5..5", "START before END"), ("5..9000h", "a year")]
        {
            assert!(Outage::parse(text).expect_err(text).contains(said), "{text}");
        }
    }
}
