//! Spans of time on the command line: a whole number and its unit, `90s`, `30m`, `24h`, `7d`.

use std::time::Duration;

/// Reads one; `None` for anything else.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    // `parse` would take a sign, too.
    let number = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten();
    number.and_then(|number| number.checked_mul(seconds)).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_a_number_and_its_unit() {
        for (text, seconds) in [("0s", 0), ("90s", 90), ("30m", 1_800), ("24h", 86_400), ("31d", 2_678_400)] {
            assert_eq!(parse(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "24", "24 h", "+1h", "-1h", "1.5h", "1w", "1é", "99999999999999999999s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
