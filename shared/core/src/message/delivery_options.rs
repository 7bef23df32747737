//! What the producer says about a delivery: class, urgency, topic, event type.

use crate::time::Ttl;

/// What kind of message it is: sets the TTL and the retry policy where the message does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Class {
    /// A one-time code: worthless after a minute.
    Otp,
    /// Something the user waits for: four hours.
    #[default]
    Alert,
    /// Marketing and the like: a day.
    Campaign,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Otp, Self::Alert, Self::Campaign];

    /// As written in a message.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Otp => "otp",
            Self::Alert => "alert",
            Self::Campaign => "campaign",
        }
    }

    /// The TTL of a web push that names none (article 002: seconds for codes, hours for alerts, a day for campaigns).
    pub const fn web_push_ttl(self) -> Ttl {
        match self {
            Self::Otp => Ttl::from_secs(60),
            Self::Alert => Ttl::from_secs(14_400),
            Self::Campaign => Ttl::from_secs(86_400),
        }
    }
}

/// How urgently a device should be woken (RFC 8030, 5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Urgency {
    /// Only on power and Wi-Fi.
    VeryLow,
    /// On either power or Wi-Fi.
    Low,
    /// On neither.
    Normal,
    /// Even on a low battery.
    High,
}

impl Urgency {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::VeryLow, Self::Low, Self::Normal, Self::High];

    /// As written in a message and in the header.
    pub const fn label(self) -> &'static str {
        match self {
            Self::VeryLow => "very-low",
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

/// A topic: a later message replaces a pending one of the same topic (RFC 8030, 5.4).
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Topic(String);

impl Topic {
    /// One to 32 base64url characters whose number leaves no remainder of 1 by 4: no base64url text has such a
    /// length, and Apple refuses those (`BadWebPushTopic`).
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=32).contains(&text.len())
            && text.len() % 4 != 1
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        fits.then(|| Self(text.to_owned()))
    }

    /// The text, for the header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What kind of event a message tells of, in the producer's words: `order.created`.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct EventType(String);

impl EventType {
    /// The longest, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// At most 128 bytes.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() <= Self::MAX_BYTES).then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_base64url_of_a_possible_length() {
        for good in ["ab", "abc", "abcd", "abcdef", &"a".repeat(32)] {
            assert!(Topic::parse(good).is_some(), "{good}");
        }
        for bad in ["", "a", "abcde", "a b", "ab=", &"a".repeat(33)] {
            assert!(Topic::parse(bad).is_none(), "{bad}");
        }
    }
}
