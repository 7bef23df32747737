//! Tags: what a tenant's subscriptions are gathered by into audiences.

use std::fmt;

use serde::Serialize;

/// A tag: `^[a-z0-9][a-z0-9_-]{0,31}$`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct Tag(String);

impl Tag {
    /// The form, as errors name it.
    pub const FORM: &str = "^[a-z0-9][a-z0-9_-]{0,31}$";

    /// The text if it is a tag, else `None`.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=32).contains(&text.len())
            && !text.starts_with(['_', '-'])
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
        fits.then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A subscription's tags: ten at most, each once, in the order of their texts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Tags(Vec<Tag>);

/// Why some tags are none that a subscription may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TagsError {
    /// More than [`Tags::MOST`].
    #[error("more than {} tags", Tags::MOST)]
    TooMany,
    /// One of them stands there twice.
    #[error("a tag that stands there twice")]
    Twice,
}

impl Tags {
    /// No subscription has more: every one is a row that is written together with it.
    pub const MOST: usize = 10;

    /// These tags, in any order.
    pub fn new(mut tags: Vec<Tag>) -> Result<Self, TagsError> {
        if tags.len() > Self::MOST {
            return Err(TagsError::TooMany);
        }
        tags.sort_unstable();
        if tags.windows(2).any(|two| two[0] == two[1]) {
            return Err(TagsError::Twice);
        }
        Ok(Self(tags))
    }

    /// Them, in order.
    pub fn as_slice(&self) -> &[Tag] {
        &self.0
    }

    /// Them, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Tag> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is one of them.
    pub fn contains(&self, tag: &Tag) -> bool {
        self.0.binary_search(tag).is_ok()
    }

    /// Whether `other` has all of them.
    pub fn are_within(&self, other: &Self) -> bool {
        self.0.iter().all(|tag| other.contains(tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(texts: &[&str]) -> Vec<Tag> {
        texts.iter().map(|text| Tag::parse(text).expect("a tag")).collect()
    }

    #[test]
    fn a_tag_has_its_form() {
        let long = "x".repeat(33);
        for text in ["", "-a", "_a", "A", "a b", "a#b", "ä", &long] {
            assert_eq!(Tag::parse(text), None, "{text}");
        }
        for text in ["a", "9", "news-de_1", &long[1..]] {
            assert!(Tag::parse(text).is_some(), "{text}");
        }
    }

    #[test]
    fn tags_are_sorted_each_once_and_ten_at_most() {
        let two = Tags::new(tags(&["sport", "news"])).expect("two");
        assert_eq!(two.as_slice(), tags(&["news", "sport"]));
        assert_eq!(Tags::new(tags(&["news", "sport", "news"])), Err(TagsError::Twice));
        let many: Vec<String> = (0..11).map(|n| format!("t{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(Tags::new(tags(&many[..10])).is_ok());
        assert_eq!(Tags::new(tags(&many)), Err(TagsError::TooMany));
    }

    #[test]
    fn tags_lie_within_others_or_do_not() {
        let of = |texts: &[&str]| Tags::new(tags(texts)).expect("valid");
        assert!(of(&["news"]).are_within(&of(&["news", "sport"])));
        assert!(of(&[]).are_within(&of(&[])));
        assert!(!of(&["news", "sport"]).are_within(&of(&["news"])));
    }
}
