//! Spans of time on the command line, in whole seconds: `90s`, `30m`, `24h`, `7d`, `1m30s`.

use std::time::Duration;

/// The units, the largest first, in seconds.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Reads whole numbers with their units, the larger unit first and none twice; `None` for anything else.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = 0_u64;
    for (unit, seconds) in UNITS {
        if let Some((number, after)) = rest.split_once(unit) {
            sum = sum.checked_add(whole(number)?.checked_mul(seconds)?)?;
            rest = after;
        }
    }
    (rest.is_empty() && !text.is_empty()).then_some(Duration::from_secs(sum))
}

/// The same, where a number alone is one of seconds.
pub fn parse_or_seconds(text: &str) -> Option<Duration> {
    whole(text).map(Duration::from_secs).or_else(|| parse(text))
}

fn whole(digits: &str) -> Option<u64> {
    // `parse` would take a sign, too.
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The two largest units, the rest left out: `48s`, `1m 41s`, `1h 9m`, `68d 15h`; below a minute with its fraction.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => {
            let text = format!("{:.3}", duration.as_secs_f64());
            format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
        }
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

fn two(large: u64, unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 && unit == "m" {
        return format!("{large}{unit}");
    }
    format!("{large}{unit} {small}{small_unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        for (ms, words) in [
            (0, "0s"),
            (1, "0.001s"),
            (2_600, "2.6s"),
            (48_000, "48s"),
            (60_000, "1m"),
            (101_000, "1m 41s"),
            (3_600_000, "1h 0m"),
            (4_141_000, "1h 9m"),
            (5_931_687_000, "68d 15h"),
        ] {
            assert_eq!(duration(Duration::from_millis(ms)), words);
        }
    }

    #[test]
    fn a_span_is_numbers_with_their_units() {
        for (text, seconds) in [
            ("0s", 0),
            ("90s", 90),
            ("30m", 1_800),
            ("24h", 86_400),
            ("31d", 2_678_400),
            ("1m30s", 90),
            ("1h1m1s", 3_661),
            ("1d12h", 129_600),
            ("2d30s", 172_830),
        ] {
            assert_eq!(parse(text), Some(Duration::from_secs(seconds)), "{text}");
            assert_eq!(parse_or_seconds(text), parse(text), "{text}");
        }
    }

    #[test]
    fn a_number_alone_is_of_seconds_where_that_is_meant() {
        for (text, seconds) in [("0", 0), ("2", 2), ("31536001", 31_536_001)] {
            assert_eq!(parse_or_seconds(text), Some(Duration::from_secs(seconds)), "{text}");
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_span() {
        for text in [
            "",
            "s",
            "hm",
            "24 h",
            " 1h",
            "+1h",
            "-1h",
            "1.5h",
            "2ms",
            "1w",
            "1é",
            "1s1m",
            "1m1m",
            "1m30",
            "1h m",
            "99999999999999999999s",
            "18446744073709551615d",
            "18446744073709551615s1s",
            "99999999999999999999",
        ] {
            assert_eq!(parse(text), None, "{text}");
            assert_eq!(parse_or_seconds(text), None, "{text}");
        }
    }
}
