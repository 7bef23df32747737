//! What the producer sets for a delivery: class, urgency, topic, event type.

use crate::label::labels;
use crate::lane::Lane;
use crate::text::{checked_text, is_word};
use crate::time::Ttl;

labels! {
    /// What kind of message it is: sets the TTL and the retry policy where the message does not.
    #[derive(Default)]
    pub enum Class {
        /// A one-time code: worthless after a minute.
        Otp = "otp",
        /// Something that the user waits for: four hours.
        #[default]
        Alert = "alert",
        /// Marketing and the like: a day.
        Campaign = "campaign",
    }
}

impl Class {
    /// The TTL of a web push that names none: seconds for codes, hours for alerts, a day for campaigns.
    pub const fn web_push_ttl(self) -> Ttl {
        match self {
            Self::Otp => Ttl::from_secs(60),
            Self::Alert => Ttl::from_secs(14_400),
            Self::Campaign => Ttl::from_secs(86_400),
        }
    }

    /// The lane of a message that names no queue of its own.
    pub const fn lane(self) -> Lane {
        match self {
            Self::Otp | Self::Alert => Lane::Transactional,
            Self::Campaign => Lane::Bulk,
        }
    }
}

labels! {
    /// How urgently a device should be woken (RFC 8030, 5.3).
    pub enum Urgency {
        /// Only on power and Wi-Fi.
        VeryLow = "very-low",
        /// On either power or Wi-Fi.
        Low = "low",
        /// On neither.
        Normal = "normal",
        /// Even on a low battery.
        High = "high",
    }
}

checked_text! {
    /// A later message replaces a pending one of the same topic (RFC 8030, 5.4). One to 32 base64url characters whose number leaves no
    /// remainder of 1 by 4: no base64url text has such a length, and Apple refuses those (`BadWebPushTopic`).
    Topic, |text| is_word(text, 32) && text.len() % 4 != 1;

    /// The event that a message reports, in the producer's words: `order.created`. At most 128 bytes.
    EventType, |text| text.len() <= EventType::MAX_BYTES;
}

impl EventType {
    pub const MAX_BYTES: usize = 128;
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
