//! Tags: an audience is all of a tenant's subscriptions that have one tag.

use serde::{Deserialize, Serialize};

use crate::text::{checked_text, is_lower_case_word};

checked_text! {
    /// `^[a-z0-9][a-z0-9_-]{0,31}$`.
    Tag, |text| is_lower_case_word(text, 32);
}

impl Tag {
    pub const FORM: &str = "^[a-z0-9][a-z0-9_-]{0,31}$";
}

/// A subscription's tags: ten at most, each once, sorted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Tag>")]
pub struct Tags(Vec<Tag>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TagsError {
    #[error("more than {} tags", Tags::MOST)]
    TooMany,
    #[error("a tag is repeated")]
    Twice,
}

impl Tags {
    /// No subscription has more: every one is a row that is written together with it.
    pub const MOST: usize = 10;

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

    pub fn as_slice(&self) -> &[Tag] {
        &self.0
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Tag> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, tag: &Tag) -> bool {
        self.0.binary_search(tag).is_ok()
    }

    pub fn common(&self, other: &Self) -> Self {
        Self(self.0.iter().filter(|tag| other.contains(tag)).cloned().collect())
    }

    pub fn are_within(&self, other: &Self) -> bool {
        self.0.iter().all(|tag| other.contains(tag))
    }
}

impl TryFrom<Vec<Tag>> for Tags {
    type Error = TagsError;

    fn try_from(tags: Vec<Tag>) -> Result<Self, TagsError> {
        Self::new(tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tags;

    #[test]
    fn tags_are_sorted_and_unique_at_most_ten_and_within_others_that_have_all_of_them() {
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
