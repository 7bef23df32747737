//! Quotas: how much of what lasts a tenant may have at a time, so that one tenant's flood does not fill tables that all pay for.
//!
//! A quota is no exact limit. Workers count together and read the count from time to time: the more room is left, the longer a worker
//! relies on what it read ([`Reading::is_relied_on`]). Parked messages and dead letters are counted where they are stored, in windows of
//! time that end when what was counted is gone, and are never counted down: whatever a lost or repeated write makes of a count is over
//! when its window is.

use std::fmt;
use std::time::Duration;

use crate::label::labels;
use crate::time::Timestamp;

labels! {
    pub enum Quota {
        /// Stored subscriptions, those that are gone or in quarantine among them.
        Subscriptions = "subscriptions",
        /// Messages that wait in the store: scheduled ones, and those that a queue cannot delay for long enough.
        Parked = "parked",
        /// Dead letters whose bodies are kept.
        DeadLetters = "dead_letters",
    }
}

/// The largest number that a quota can be set to.
const LARGEST: u64 = 999_999_999_999;

/// How fast a worker expects a count to grow, in items a second: faster than a tenant's messages usually come.
const GROWTH: u64 = 10_000;

/// A reading is relied on for at least this long: a tenant over its quota must not cost a read a message.
const SHORTEST: Duration = Duration::from_secs(1);

/// And for at most this long: the time within which workers follow what an operator sets.
const LONGEST: Duration = Duration::from_secs(30);

impl Quota {
    /// What it bounds, in words.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Subscriptions => "subscriptions",
            Self::Parked => "parked messages",
            Self::DeadLetters => "dead letters with a body",
        }
    }

    /// What a caller or an operator can do once it is used up.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Subscriptions => {
                "delete subscriptions that are not needed, or ask the operator for a higher quota"
            }
            Self::Parked => {
                "send without `deliver_at` or `deliver_between`, send again when messages that wait have been sent, or ask the operator for a higher quota"
            }
            Self::DeadLetters => "ask the operator for a higher quota",
        }
    }

    /// How long its windows are; `None` for what is counted exactly, up and down.
    const fn window(self) -> Option<Duration> {
        match self {
            Self::Subscriptions => None,
            Self::Parked => Some(Duration::from_secs(900)),
            Self::DeadLetters => Some(Duration::from_secs(86_400)),
        }
    }

    /// The end of the window that something counts in which is gone at `gone`: later by less than the window's length, or `gone` itself
    /// where there are no windows.
    pub fn window_end(self, gone: Timestamp) -> Timestamp {
        let Some(window) = self.window() else { return gone };
        let secs = i64::try_from(window.as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_secs((gone.as_secs().div_euclid(secs) + 1).saturating_mul(secs))
    }
}

/// How many; or any number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    Off,
    Most(u64),
}

impl Limit {
    /// Reads `off` or a whole number; the error says what would do.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        // `parse` would take a sign, too.
        let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|text| text.parse().ok()).filter(|number| *number <= LARGEST);
        number
            .map(Self::Most)
            .ok_or_else(|| format!("expected a whole number from 0 to {LARGEST}, or `off` for no quota"))
    }

    pub const fn number(self) -> Option<u64> {
        match self {
            Self::Off => None,
            Self::Most(number) => Some(number),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Most(number) => write!(f, "{number}"),
        }
    }
}

/// A stack's quotas for each tenant that has none of its own. What is [`Limit::Off`] here is not counted at all, so that quotas of single
/// tenants hold nothing back either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub subscriptions: Limit,
    pub parked: Limit,
    pub dead_letters: Limit,
}

impl Limits {
    pub const OFF: Self = Self { subscriptions: Limit::Off, parked: Limit::Off, dead_letters: Limit::Off };

    /// Each, unless the operator sets it otherwise. More than an outage of days makes a tenant wait: what an honest tenant sends is never
    /// lost to a quota that is not set.
    pub const DEFAULT: Limit = Limit::Most(1_000_000_000);

    pub const fn of(&self, quota: Quota) -> Limit {
        match quota {
            Quota::Subscriptions => self.subscriptions,
            Quota::Parked => self.parked,
            Quota::DeadLetters => self.dead_letters,
        }
    }
}

/// A tenant's count and quota as a worker last read them, with what it has added itself since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    pub used: u64,
    pub limit: Limit,
    pub at: Timestamp,
}

impl Reading {
    /// How many more there may be; `None`: any number.
    pub const fn room(&self) -> Option<u64> {
        match self.limit {
            Limit::Off => None,
            Limit::Most(most) => Some(most.saturating_sub(self.used)),
        }
    }

    /// Whether it is still good enough: for as long as the room would last if others filled it quickly.
    pub fn is_relied_on(&self, now: Timestamp) -> bool {
        let lasts = self.room().map_or(LONGEST, |room| Duration::from_secs(room / GROWTH));
        now.since(self.at) < lasts.clamp(SHORTEST, LONGEST)
    }

    /// Whether there is room for one more.
    pub const fn ask(&self, quota: Quota) -> Result<(), Exceeded> {
        match self.limit {
            Limit::Most(limit) if self.used >= limit => Err(Exceeded { quota, limit, used: self.used }),
            Limit::Most(_) | Limit::Off => Ok(()),
        }
    }
}

/// A tenant has as much as it may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the tenant has {used} {}, and its quota is {limit}: {}", quota.noun(), quota.remedy())]
pub struct Exceeded {
    pub quota: Quota,
    pub limit: u64,
    pub used: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn a_limit_is_a_whole_number_or_off() {
        for (text, expected) in [
            ("off", Limit::Off),
            ("0", Limit::Most(0)),
            ("1000000", Limit::Most(1_000_000)),
            ("999999999999", Limit::Most(LARGEST)),
        ] {
            assert_eq!(Limit::parse(text), Ok(expected));
            assert_eq!(expected.to_string(), text);
        }
        for text in ["", " 1", "-1", "+1", "1e3", "1.5", "OFF", "1000000000000", "99999999999999999999999"] {
            let error = Limit::parse(text).expect_err(text);
            assert_eq!(error, "expected a whole number from 0 to 999999999999, or `off` for no quota");
        }
    }

    #[test]
    fn a_quota_is_used_up_by_as_many_as_it_names() {
        let reading = |used, limit| Reading { used, limit, at: at(0) };
        let ask = |used, limit| reading(used, limit).ask(Quota::Parked);
        assert_eq!(ask(9, Limit::Most(10)), Ok(()));
        for used in [10, 11] {
            assert_eq!(ask(used, Limit::Most(10)), Err(Exceeded { quota: Quota::Parked, limit: 10, used }));
            assert_eq!(reading(used, Limit::Most(10)).room(), Some(0));
        }
        assert_eq!((ask(u64::MAX, Limit::Off), reading(0, Limit::Off).room()), (Ok(()), None));
        let nothing = ask(0, Limit::Most(0)).expect_err("a quota of nothing").to_string();
        assert!(nothing.starts_with("the tenant has 0 parked messages, and its quota is 0: "), "{nothing}");
    }

    #[test]
    fn the_remedy_of_parked_messages_names_both_fields_that_make_them_wait() {
        let remedy = Quota::Parked.remedy();
        assert!(remedy.starts_with("send without `deliver_at` or `deliver_between`, "), "{remedy}");
    }

    #[test]
    fn a_reading_is_relied_on_for_as_long_as_its_room_may_last() {
        for (used, limit, lasts) in [
            (0, Limit::Most(10), 1),
            (10, Limit::Most(10), 1),
            (900_000, Limit::Most(1_000_000), 10),
            (0, Limit::Most(1_000_000), 30),
            (0, Limit::Off, 30),
        ] {
            let reading = Reading { used, limit, at: at(100) };
            let relied_on = [lasts - 1, lasts].map(|secs| reading.is_relied_on(at(100 + secs)));
            assert_eq!(relied_on, [true, false], "{reading:?}");
        }
    }

    #[test]
    fn what_is_gone_within_a_window_counts_until_its_end() {
        for (quota, gone, end) in [
            (Quota::Parked, 0, 900),
            (Quota::Parked, 899, 900),
            (Quota::Parked, 900, 1_800),
            (Quota::DeadLetters, 86_399, 86_400),
            (Quota::DeadLetters, 86_400, 172_800),
            (Quota::Subscriptions, 77, 77),
        ] {
            assert_eq!(quota.window_end(at(gone)), at(end), "{quota} {gone}");
        }
        let last = Timestamp::from_ms(i64::MAX);
        assert_eq!(Quota::Parked.window_end(last), last, "it saturates");
    }
}
