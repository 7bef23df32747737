//! Retry-After (RFC 9110, 10.2.3), read strictly.
//!
//! The value is either delta-seconds, digits and nothing else, or an HTTP-date. A date is read against the response's
//! own `Date` where it has one, because it was written by the same clock; a date in the past means "now". Anything
//! else counts as absent: guessing at `1.5` or `60s` would be inventing a promise that nobody made.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::outcome::Response;
use crate::time::Timestamp;

/// The longest wait that is believed: what a message can be parked for (360 days).
pub const MAX: Duration = Duration::from_secs(360 * 86_400);

/// How long the response asks us to stay away; `None` if it does not say so in a valid form.
pub fn from_response(response: &Response) -> Option<Duration> {
    let value = response.header("retry-after")?;
    let date = response.header("date").and_then(http_date);
    parse(value, date.unwrap_or(response.at))
}

/// Reads one header value; dates are taken relative to `now`.
pub fn parse(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim_matches([' ', '\t']);
    if value.is_empty() {
        return None;
    }
    if value.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than a u64 holds is a valid, absurd number.
        let secs = value.parse::<u64>().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(secs).min(MAX));
    }
    Some(http_date(value)?.since(now).min(MAX))
}

fn http_date(value: &str) -> Option<Timestamp> {
    let at: SystemTime = httpdate::parse_http_date(value).ok()?;
    let since = at.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok().map(Timestamp::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sat, 21 Nov 2026 10:05:00 GMT
    fn now() -> Timestamp {
        Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid")
    }

    #[test]
    fn digits_are_seconds() {
        assert_eq!(parse("0", now()), Some(Duration::ZERO));
        assert_eq!(parse("120", now()), Some(Duration::from_secs(120)));
        assert_eq!(parse(" 7\t", now()), Some(Duration::from_secs(7)));
    }

    #[test]
    fn absurd_numbers_are_capped_and_do_not_overflow() {
        assert_eq!(parse("99999999999999999999999999", now()), Some(MAX));
    }

    #[test]
    fn a_date_is_a_distance_and_a_past_one_is_zero() {
        assert_eq!(parse("Sat, 21 Nov 2026 10:06:30 GMT", now()), Some(Duration::from_secs(90)));
        assert_eq!(parse("Sat, 21 Nov 2026 10:00:00 GMT", now()), Some(Duration::ZERO));
    }

    #[test]
    fn anything_else_is_absent() {
        for value in ["", "-1", "+5", "1.5", "1e3", "60s", "soon", "0x10", "5, 6", "٣"] {
            assert_eq!(parse(value, now()), None, "{value}");
        }
    }

    #[test]
    fn a_date_is_read_against_the_response_s_own_clock() {
        let response = |headers: &[(&str, &str)]| Response {
            status: 429,
            headers: headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            at: now(),
            ..Response::default()
        };
        let date = "Sat, 21 Nov 2026 11:00:00 GMT";
        let later = "Sat, 21 Nov 2026 11:00:20 GMT";
        assert_eq!(
            from_response(&response(&[("date", date), ("retry-after", later)])),
            Some(Duration::from_secs(20))
        );
        assert_eq!(
            from_response(&response(&[("retry-after", later)])),
            Some(Duration::from_secs(55 * 60 + 20))
        );
        assert_eq!(from_response(&response(&[])), None);
    }
}
