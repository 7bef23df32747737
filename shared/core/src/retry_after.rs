//! Retry-After (RFC 9110, 10.2.3), read strictly.
//!
//! The value is either delta-seconds, digits and nothing else, or an HTTP-date. A date is read against the response's
//! own `Date` where it has one, because it was written by the same clock; a date in the past means "now". Anything
//! else, such as `1.5` or `60s`, counts as absent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::outcome::Response;
use crate::time::Timestamp;

/// Longer waits are cut to this: the longest time that a message can be parked.
pub const MAX: Duration = Duration::from_secs(360 * 86_400);

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
    use crate::fixtures::{response, time};

    /// Sat, 21 Nov 2026 10:05:00 GMT
    fn now() -> Timestamp {
        time("2026-11-21T10:05:00Z")
    }

    #[test]
    fn digits_are_seconds_a_date_is_a_distance_and_anything_else_is_absent() {
        for (value, secs) in [
            ("0", 0),
            ("120", 120),
            (" 7\t", 7),
            ("99999999999999999999999999", MAX.as_secs()),
            ("Sat, 21 Nov 2026 10:06:30 GMT", 90),
            ("Sat, 21 Nov 2026 10:00:00 GMT", 0),
        ] {
            assert_eq!(parse(value, now()), Some(Duration::from_secs(secs)), "{value}");
        }
        for value in ["", "-1", "+5", "1.5", "1e3", "60s", "soon", "0x10", "5, 6", "٣"] {
            assert_eq!(parse(value, now()), None, "{value}");
        }
    }

    #[test]
    fn a_date_is_read_against_the_response_s_own_clock() {
        let (date, later) = ("Sat, 21 Nov 2026 11:00:00 GMT", "Sat, 21 Nov 2026 11:00:20 GMT");
        for (headers, secs) in [
            (&[("date", date), ("retry-after", later)][..], Some(20)),
            (&[("retry-after", later)], Some(55 * 60 + 20)),
            (&[], None),
        ] {
            let response = Response { at: now(), ..response(429, headers, "") };
            assert_eq!(from_response(&response), secs.map(Duration::from_secs), "{headers:?}");
        }
    }
}
