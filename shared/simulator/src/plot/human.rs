//! Spans of time and counts, as a person says them.

const UNITS: [(f64, &str); 5] = [(YEAR, "y"), (DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (1.0, "s")];

pub(super) const MINUTE: f64 = 60.0;
pub(super) const HOUR: f64 = 60.0 * MINUTE;
pub(super) const DAY: f64 = 24.0 * HOUR;
/// In seconds: a calendar's leap days are no matter of a picture.
pub(super) const YEAR: f64 = 365.0 * DAY;

/// From here on a count of years is given by its magnitude.
const MANY_YEARS: f64 = 100_000.0;

/// A span in its two largest units: `250 ms`, `2.6 s`, `1 min 2 s`, `17 h 21 min`, `106 d 7 h`.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds <= 0.0 {
        return "0 s".to_owned();
    }
    if seconds < 0.9995 {
        let ms = seconds * 1000.0;
        return format!("{} ms", if ms < 10.0 { tenths(ms) } else { ms.round() });
    }
    if seconds < 59.95 {
        return format!("{} s", tenths(seconds));
    }
    if seconds >= MANY_YEARS * YEAR {
        return format!("{:.1e} y", seconds / YEAR);
    }
    for pair in UNITS.windows(2) {
        let [(large, large_name), (small, small_name)] = [pair[0], pair[1]];
        // In the smaller unit, so that 59.6 min is an hour and not 60 min.
        let whole = (seconds / small).round();
        let in_large = (large / small).round();
        if whole >= in_large {
            let rest = whole % in_large;
            let head = format!("{} {large_name}", (whole / in_large).floor());
            return if rest == 0.0 { head } else { format!("{head} {rest} {small_name}") };
        }
    }
    format!("{} s", tenths(seconds))
}

/// A count with its thousands apart: `4,812`. What is no whole number keeps one digit of it.
pub(super) fn count(number: f64) -> String {
    let number = tenths(number);
    let digits = format!("{}", number.trunc());
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match (number.fract() * 10.0).round() {
        0.0 => grouped,
        tenth => format!("{grouped}.{tenth}"),
    }
}

/// A count for an axis that ends at `end`, all of one magnitude: `2,000`, `150 k`, `2.5 M`.
pub(super) fn on_axis(number: f64, end: f64) -> String {
    let (unit, name) = match end {
        _ if number == 0.0 => return "0".to_owned(),
        _ if end >= 1e9 => (1e9, " G"),
        _ if end >= 1e6 => (1e6, " M"),
        _ if end >= 1e5 => (1e3, " k"),
        _ => return count(number),
    };
    format!("{}{name}", (number / unit * 1000.0).round() / 1000.0)
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_in_its_two_largest_units() {
        for (seconds, words) in [
            (0.0, "0 s"),
            (0.0004, "0.4 ms"),
            (0.25, "250 ms"),
            (0.9996, "1 s"),
            (2.6, "2.6 s"),
            (59.96, "1 min"),
            (62.0, "1 min 2 s"),
            (3599.7, "1 h"),
            (62_460.0, "17 h 21 min"),
            (86_399.0, "1 d"),
            (106.0 * DAY + 6.6 * HOUR, "106 d 7 h"),
            (400.0 * DAY, "1 y 35 d"),
            (1e9 * YEAR, "1.0e9 y"),
        ] {
            assert_eq!(duration(seconds), words, "{seconds}");
        }
    }

    #[test]
    fn a_count_has_its_thousands_apart() {
        for (number, words) in [
            (0.0, "0"),
            (999.0, "999"),
            (4812.0, "4,812"),
            (1_234_567.0, "1,234,567"),
            (2.5, "2.5"),
            (0.05, "0.1"),
        ] {
            assert_eq!(count(number), words);
        }
    }

    #[test]
    fn the_counts_of_an_axis_share_their_magnitude() {
        assert_eq!(on_axis(2000.0, 8000.0), "2,000");
        assert_eq!(on_axis(50_000.0, 200_000.0), "50 k");
        assert_eq!(on_axis(500_000.0, 2_000_000.0), "0.5 M");
        assert_eq!(on_axis(4e9, 5e9), "4 G");
        assert_eq!(on_axis(0.0, 5e9), "0");
    }
}
