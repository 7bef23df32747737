//! Spans of time in whole seconds, as options write them: `90`, `90s`, `1m30s`, `1h`.

use std::time::Duration;

use super::scenario::LONGEST_S;

/// How a span is written, for errors.
const FORMS: &str = "expected whole seconds, or hours, minutes and seconds: 2, 2s, 1m30s, 1h";

/// Reads a span of a year at most; the error says what would do.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let seconds = seconds(text).ok_or(FORMS)?;
    if seconds > LONGEST_S {
        return Err(format!("it lasts {seconds} s: expected {LONGEST_S} s (a year) at most"));
    }
    Ok(Duration::from_secs(seconds.into()))
}

/// Numbers with their units, the larger unit first and none twice; a number alone is of seconds.
pub(super) fn seconds(text: &str) -> Option<u32> {
    if is_number(text) {
        return text.parse().ok();
    }
    let mut rest = text;
    let mut sum = 0_u32;
    for (unit, length) in [("h", 3_600), ("m", 60), ("s", 1)] {
        if let Some((number, after)) = rest.split_once(unit) {
            let number = is_number(number).then(|| number.parse::<u32>().ok())??;
            sum = sum.checked_add(number.checked_mul(length)?)?;
            rest = after;
        }
    }
    (rest.is_empty() && !text.is_empty()).then_some(sum)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_read_with_and_without_units() {
        for (text, seconds) in
            [("0", 0), ("2", 2), ("2s", 2), ("1m30s", 90), ("1h", 3_600), ("1h1m1s", 3_661)]
        {
            assert_eq!(span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_refused_with_what_would_do() {
        for text in ["", "s", "2.5s", "-2s", "2 s", "2ms", "1s1m", "1m1m", "99999999999"] {
            assert!(span(text).expect_err(text).contains("1m30s"), "{text}");
        }
        assert!(span("9000h").expect_err("more than a year").contains("a year"));
    }
}
