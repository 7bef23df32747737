//! Tags of subscriptions and of messages.
//!
//! An audience is all of a tenant's subscriptions that have one tag. A message's tags are its producer's own words, by which its delivery is
//! found again: they are in the ledger, in events, in dead letters and in log lines, never in what is delivered, and they decide nothing.

use serde::{Deserialize, Serialize};

use crate::shape::{Object, text};
use crate::text::{checked_text, is_lower_case_word, is_word};

checked_text! {
    /// `^[a-z0-9][a-z0-9_-]{0,31}$`.
    Tag, |text| is_lower_case_word(text, 32);

    /// `^[a-z0-9][a-z0-9_.:-]{0,31}$`.
    MessageTag, |text| {
        let is_of_a_word = |c: char| is_word(c.encode_utf8(&mut [0; 4]), 1) && !c.is_ascii_uppercase();
        (1..=32).contains(&text.len())
            && text.chars().all(|c| is_of_a_word(c) || c == '.' || c == ':')
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
    };
}

impl Tag {
    pub const FORM: &str = "^[a-z0-9][a-z0-9_-]{0,31}$";
}

impl MessageTag {
    pub const FORM: &str = "^[a-z0-9][a-z0-9_.:-]{0,31}$";
}

/// No subscription has more: every one is a row that is written together with it. No message has more: they are in its ledger entry, which
/// is smaller than a kilobyte with the usual ones.
pub const MOST: usize = 10;

/// Tags of one subscription or message: [`MOST`] at most, each once, sorted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<T>", bound(deserialize = "T: Deserialize<'de> + Ord + Clone"))]
pub struct Tags<T = Tag>(Vec<T>);

pub type MessageTags = Tags<MessageTag>;

impl<T> Default for Tags<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TagsError {
    #[error("more than {MOST} tags")]
    TooMany,
    #[error("a tag is repeated")]
    Twice,
}

impl<T: Ord + Clone> Tags<T> {
    pub fn new(mut tags: Vec<T>) -> Result<Self, TagsError> {
        if tags.len() > MOST {
            return Err(TagsError::TooMany);
        }
        tags.sort_unstable();
        if tags.windows(2).any(|two| two[0] == two[1]) {
            return Err(TagsError::Twice);
        }
        Ok(Self(tags))
    }

    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, tag: &T) -> bool {
        self.0.binary_search(tag).is_ok()
    }

    pub fn common(&self, other: &Self) -> Self {
        Self(self.0.iter().filter(|tag| other.contains(tag)).cloned().collect())
    }

    pub fn are_within(&self, other: &Self) -> bool {
        self.0.iter().all(|tag| other.contains(tag))
    }
}

impl<T: Ord + Clone> TryFrom<Vec<T>> for Tags<T> {
    type Error = TagsError;

    fn try_from(tags: Vec<T>) -> Result<Self, TagsError> {
        Self::new(tags)
    }
}

impl MessageTags {
    /// Takes the field. What is wrong with it is among the object's errors.
    pub(crate) fn take(object: &mut Object<'_>) -> Option<Self> {
        let tags = object.list("tags", MessageTag::FORM, MOST, text(MessageTag::parse))?;
        for (at, tag) in tags.iter().enumerate() {
            if tags[..at].contains(tag) {
                object.error(&format!("tags[{at}]"), "every tag once", "one that stands before it");
            }
        }
        Self::new(tags).ok()
    }

    /// As they are stored and logged: with a space between them; `None` if there are none.
    pub fn to_text(&self) -> Option<String> {
        let texts: Vec<&str> = self.iter().map(MessageTag::as_str).collect();
        (!texts.is_empty()).then(|| texts.join(" "))
    }

    /// Reads a text; `None` if it is not one that this version wrote.
    pub fn from_text(text: &str) -> Option<Self> {
        let tags: Option<Vec<MessageTag>> = text.split(' ').map(MessageTag::parse).collect();
        Self::new(tags?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tags;

    #[test]
    fn a_message_s_tags_are_short_words_with_dots_and_colons_and_read_back() {
        for good in ["a", "9", "gdpr:art-6.1b", "order_17", "eu-west.1", &"a".repeat(32)] {
            assert!(MessageTag::parse(good).is_some(), "{good}");
        }
        for bad in ["", "-a", ".a", ":a", "_a", "A", "a b", "a,b", "a*", "é", "a\"", &"a".repeat(33)] {
            assert_eq!(MessageTag::parse(bad), None, "{bad}");
        }
        let parsed = |text: &str| MessageTag::parse(text).expect("a tag");
        let tags = MessageTags::new(vec![parsed("order"), parsed("eu:de")]).expect("two");
        assert_eq!(tags.to_text().as_deref(), Some("eu:de order"));
        assert_eq!(MessageTags::from_text("eu:de order"), Some(tags));
        assert_eq!(MessageTags::default().to_text(), None);
        for other in ["", "eu  de", "eu EU", "eu eu"] {
            assert_eq!(MessageTags::from_text(other), None, "{other}");
        }
    }

    #[test]
    fn tags_are_at_most_ten_sorted_unique_and_compared_as_sets() {
        let list = |texts: &[String]| texts.iter().map(|text| Tag::parse(text).expect("a tag")).collect();
        assert_eq!(tags(&["sport", "news"]).iter().map(Tag::as_str).collect::<Vec<_>>(), ["news", "sport"]);
        assert_eq!(Tags::new(list(&["a", "b", "a"].map(str::to_owned))), Err(TagsError::Twice));
        let many: Vec<String> = (0..11).map(|n| format!("t{n}")).collect();
        assert!(Tags::new(list(&many[..10])).is_ok());
        assert_eq!(Tags::new(list(&many)), Err(TagsError::TooMany));
        for (some, others, are_within) in [
            (&["news"][..], &["news", "sport"][..], true),
            (&[], &[], true),
            (&["news", "sport"], &["news"], false),
        ] {
            assert_eq!(tags(some).are_within(&tags(others)), are_within, "{some:?} within {others:?}");
        }
    }
}
