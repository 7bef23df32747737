//! Points in time and lifetimes, as plain numbers.
//!
//! Nothing in this crate reads a clock: `now` is always an argument, so that Lambda, the tests and a
//! simulation on virtual time run the same code. Arithmetic saturates, because a delay comes from
//! receivers (Retry-After) and from operators (policies), and neither may make time wrap around.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// The last millisecond that RFC 3339 can write (9999-12-31T23:59:59.999Z).
const MAX_MS: i64 = 253_402_300_799_999;

impl Timestamp {
    /// From milliseconds since the epoch; clamped to years 1970 to 9999.
    pub fn from_ms(ms: i64) -> Self {
        Self(ms.clamp(0, MAX_MS))
    }

    /// From seconds since the epoch; clamped likewise.
    pub fn from_secs(secs: i64) -> Self {
        Self::from_ms(secs.saturating_mul(1000))
    }

    /// From RFC 3339 text such as `2026-11-21T10:05:00Z`; `None` if it is not that or lies before 1970.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        // The library accepts any character here.
        if !matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' ')) {
            return None;
        }
        let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        let ms = i64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()?;
        (0..=MAX_MS).contains(&ms).then_some(Self(ms))
    }

    pub fn as_ms(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    pub fn as_secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This much later; stops at the year 9999.
    pub fn plus(self, by: Duration) -> Self {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        Self::from_ms(self.0.saturating_add(ms))
    }

    /// This much earlier; stops at 1970.
    pub fn minus(self, by: Duration) -> Self {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        Self::from_ms(self.0.saturating_sub(ms))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// RFC 3339 with milliseconds: `2026-11-21T10:05:00.250Z`.
    pub fn to_rfc3339(self) -> String {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (hour, minute, second, ms) = at.to_hms_milli();
        format!("{}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z", at.date())
    }

    /// RFC 3339 in whole seconds, as Step Functions reads it: `2026-11-21T10:05:00Z`.
    pub fn to_rfc3339_seconds(self) -> String {
        format!("{}Z", &self.to_rfc3339()[..19])
    }

    /// Basic ISO 8601 without separators, in whole seconds: `20261121T100500Z`.
    pub fn to_compact(self) -> String {
        self.to_rfc3339_seconds().replace(['-', ':'], "")
    }

    pub fn parse_compact(text: &str) -> Option<Self> {
        if !text.is_ascii() || text.len() != 16 || text.as_bytes()[8] != b'T' {
            return None;
        }
        let (year, month, day) = (&text[..4], &text[4..6], &text[6..8]);
        let (hour, minute, second) = (&text[9..11], &text[11..13], &text[13..]);
        Self::parse_rfc3339(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}"))
    }

    /// The UTC day, `2026-11-21`.
    pub fn day(self) -> String {
        self.to_rfc3339()[..10].to_owned()
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

/// How long a message is worth delivering, in whole seconds. Zero means one attempt, without a retry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ttl(u32);

impl Ttl {
    pub const ZERO: Self = Self(0);
    /// No limit: the TTL of a webhook that names none.
    pub const UNLIMITED: Self = Self(u32::MAX);
    /// A year: the longest that a webhook may name.
    pub const MAX_WEBHOOK: Self = Self(31_536_000);
    /// 28 days: the longest that push services accept.
    pub const MAX_WEB_PUSH: Self = Self(2_419_200);

    pub const fn from_secs(secs: u32) -> Self {
        Self(secs)
    }

    pub const fn as_secs(self) -> u32 {
        self.0
    }

    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0 as u64)
    }

    pub fn deadline_from(self, start: Timestamp) -> Deadline {
        Deadline { at: start.plus(self.duration()), ttl: self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    at: Timestamp,
    ttl: Ttl,
}

impl Deadline {
    /// The first moment at which the message is no longer worth sending.
    pub fn at(self) -> Timestamp {
        self.at
    }

    /// What is left at `now`; zero once it is over.
    pub fn remaining(self, now: Timestamp) -> Duration {
        self.at.since(now)
    }

    pub fn is_limited(self) -> bool {
        self.ttl != Ttl::UNLIMITED
    }

    /// Whole seconds left at `now`, a part of one counted as one, and never more than push services take or the message has: the value
    /// of the `TTL` header (RFC 8030, 5.2). Rounded down, a push service would not keep a message of one second. A worker whose clock is
    /// behind that of the sender does not lengthen it.
    pub fn remaining_ttl(self, now: Timestamp) -> Ttl {
        let secs = u32::try_from(self.remaining(now).as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
        Ttl(secs.min(Ttl::MAX_WEB_PUSH.0).min(self.ttl.0))
    }

    /// Whether a message on attempt number `attempt` is too late at `now`. The one attempt of a TTL of zero is
    /// never too late: the push service itself drops it if the browser is away. Any other of it is, also by a clock that is behind.
    pub fn is_over(self, now: Timestamp, attempt: u32) -> bool {
        if self.ttl == Ttl::ZERO { attempt > 0 } else { now >= self.at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_reads_back_and_others_are_refused() {
        let at = Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid");
        assert_eq!(Timestamp::parse_rfc3339("2026-11-21T11:05:00+01:00"), Some(at));
        assert_eq!(Timestamp::parse_rfc3339(&at.to_rfc3339()), Some(at));
        assert_eq!(at.to_rfc3339(), "2026-11-21T10:05:00.000Z");
        assert_eq!(at.to_rfc3339_seconds(), "2026-11-21T10:05:00Z");
        assert_eq!(at.day(), "2026-11-21");
        assert_eq!(at.to_compact(), "20261121T100500Z");
        assert_eq!(Timestamp::parse_compact("20261121T100500Z"), Some(at));
        for text in ["", "20261121T100500", "20261321T100500Z", "20261121X100500Z", "2026112éT10500Z"] {
            assert_eq!(Timestamp::parse_compact(text), None, "{text}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::from_ms(i64::MAX).plus(Duration::MAX).as_ms(), MAX_MS);
        assert_eq!(Timestamp::from_ms(5).minus(Duration::MAX).as_ms(), 0);
        assert_eq!(Timestamp::from_ms(5).since(Timestamp::from_ms(9)), Duration::ZERO);
    }

    #[test]
    fn a_ttl_of_zero_allows_the_first_attempt_only() {
        for (ttl, secs, attempt, is_over) in
            [(0, 3, 0, false), (0, 0, 1, true), (5, 4, 0, false), (5, 5, 0, true)]
        {
            let start = Timestamp::from_secs(100);
            let now = start.plus(Duration::from_secs(secs));
            let deadline = Ttl::from_secs(ttl).deadline_from(start);
            assert_eq!(deadline.is_over(now, attempt), is_over, "{ttl} {secs} {attempt}");
        }
    }

    #[test]
    fn a_clock_that_is_behind_lengthens_no_ttl() {
        let start = Timestamp::from_secs(100);
        let behind = start.minus(Duration::from_secs(2));
        let zero = Ttl::ZERO.deadline_from(start);
        assert_eq!((zero.is_over(behind, 0), zero.is_over(behind, 1)), (false, true));
        for ttl in [Ttl::ZERO, Ttl::from_secs(60)] {
            assert_eq!(ttl.deadline_from(start).remaining_ttl(behind), ttl);
        }
    }
}
