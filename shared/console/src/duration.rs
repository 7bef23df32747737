//! Durations as arguments, `90s`, `30m`, `24h`, `7d`, `1m30s`, and in output, `48s`, `1m 41s`.

use std::{ops::RangeInclusive, time::Duration};

use redial_core::time::Timestamp;

/// In seconds, the largest first.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Parses whole numbers with their units, the larger unit first and none twice.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = 0_u64;
    for (unit, seconds) in UNITS {
        if let Some((number, after)) = rest.split_once(unit) {
            sum = sum.checked_add(self::number(number)?.checked_mul(seconds)?)?;
            rest = after;
        }
    }
    (rest.is_empty() && !text.is_empty()).then_some(Duration::from_secs(sum))
}

/// The same, where a bare number is seconds.
pub fn parse_or_seconds(text: &str) -> Option<Duration> {
    number(text).map(Duration::from_secs).or_else(|| parse(text))
}

/// Parses a duration within a range of seconds; `Err` says that `expected` was.
pub fn within(text: &str, seconds: RangeInclusive<u64>, expected: &str) -> Result<Duration, String> {
    parse(text).filter(|time| seconds.contains(&time.as_secs())).ok_or_else(|| expected.to_owned())
}

/// The two largest units: `48s`, `1m 41s`, `1h 9m`, `68d 15h`; below a minute with milliseconds.
pub fn words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => {
            let text = format!("{:.3}", duration.as_secs_f64());
            format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
        }
        60..3_600 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// The same without fractions of a second.
pub fn whole(duration: Duration) -> String {
    words(Duration::from_secs(duration.as_secs()))
}

/// A point in time as people read it: `18s ago`, `in 1h 9m`.
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", whole(at.since(now))) } else { format!("{} ago", whole(now.since(at))) }
}

fn number(digits: &str) -> Option<u64> {
    // `parse` would take a sign, too.
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_in_their_two_largest_units() {
        for (ms, printed) in [
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
            assert_eq!(words(Duration::from_millis(ms)), printed);
        }
        assert_eq!(whole(Duration::from_millis(2_600)), "2s");
    }

    #[test]
    fn a_point_in_time_is_before_or_after_now() {
        let now = Timestamp::from_secs(10_000);
        for (secs, printed) in
            [(10_000, "0s ago"), (9_899, "1m 41s ago"), (14_141, "in 1h 9m"), (0, "2h 46m ago")]
        {
            assert_eq!(relative(Timestamp::from_secs(secs), now), printed);
        }
    }

    #[test]
    fn a_duration_may_have_bounds() {
        for (text, is_within) in [("1s", true), ("1d", true), ("0s", false), ("86401s", false), ("10", false)]
        {
            let expected = parse(text).filter(|_| is_within).ok_or("1s to 24h".to_owned());
            assert_eq!(within(text, 1..=86_400, "1s to 24h"), expected, "{text}");
        }
    }

    #[test]
    fn a_duration_is_numbers_with_their_units_or_seconds_where_allowed() {
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
        for (text, seconds) in [("0", 0), ("2", 2), ("31536001", 31_536_001)] {
            assert_eq!(parse_or_seconds(text), Some(Duration::from_secs(seconds)), "{text}");
            assert_eq!(parse(text), None, "{text}");
        }
        const WRONG: &str = "|s|hm|24 h| 1h|+1h|-1h|-1m|1.5h|2ms|1w|1é|1s1m|1m1m|1m30|1h m|99999999999999999999s|\
            18446744073709551615d|18446744073709551615s1s|99999999999999999999";
        for text in WRONG.split('|') {
            assert_eq!((parse(text), parse_or_seconds(text)), (None, None), "{text}");
        }
    }
}
