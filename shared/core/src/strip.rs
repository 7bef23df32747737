//! Fields that the payloads of pushes lose before they are sealed: what the operator's own systems add, and no browser needs.
//!
//! Only members of the payload's outermost object are left out, by their names. The others stay byte for byte as they were written.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::payload::{Media, Payload};

/// Names of fields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StripFields(Vec<String>);

impl StripFields {
    /// The most names, and the longest, in bytes.
    pub const MOST: usize = 32;
    pub const LONGEST: usize = 128;

    /// Names with commas between them; `None` if there are too many, or if one is empty or too long.
    pub fn parse(list: &str) -> Option<Self> {
        if list.trim().is_empty() {
            return Some(Self::default());
        }
        let names: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
        let is_name = |name: &String| (1..=Self::LONGEST).contains(&name.len());
        (names.len() <= Self::MOST && names.iter().all(is_name)).then_some(Self(names))
    }

    /// The payload without these fields; `None` if it has none of them.
    pub fn without(&self, payload: &Payload) -> Option<Payload> {
        if self.0.is_empty() || payload.media() != Media::Json {
            return None;
        }
        // Anything but an object has no fields.
        let Members(members) = serde_json::from_slice(payload.expose()).ok()?;
        let is_kept = |(name, _): &&(String, &RawValue)| !self.0.contains(name);
        let kept: Vec<String> = (members.iter().filter(is_kept))
            .map(|(name, value)| format!("{}:{}", serde_json::Value::from(name.as_str()), value.get()))
            .collect();
        let is_changed = kept.len() < members.len();
        is_changed.then(|| Payload::written_as(Media::Json, format!("{{{}}}", kept.join(",")).into_bytes()))
    }
}

/// An object's members, in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(fields: &str, payload: &str) -> Option<String> {
        let payload = Payload::written_as(Media::Json, payload.as_bytes().to_vec());
        let without = StripFields::parse(fields).expect("names").without(&payload)?;
        assert_eq!(without.media(), Media::Json);
        Some(String::from_utf8(without.expose().to_vec()).expect("text"))
    }

    #[test]
    fn named_members_of_the_outermost_object_are_left_out() {
        let payload = r#"{ "title":"caf\u00e9", "debug" : {"title":1}, "n":1.0, "\u0064ebug":2 }"#;
        assert_eq!(stripped("debug, trace", payload).as_deref(), Some(r#"{"title":"caf\u00e9","n":1.0}"#));
        assert_eq!(stripped("title,debug,n", payload).as_deref(), Some("{}"));
        for kept in [payload, "[1]", "true", "\"debug\"", "{}"] {
            assert_eq!(stripped("other", kept), None, "{kept}");
            assert_eq!(stripped("", kept), None, "{kept}");
        }
    }

    #[test]
    fn text_and_bytes_have_no_fields() {
        for media in [Media::Text, Media::Bytes] {
            let payload = Payload::written_as(media, br#"{"debug":1}"#.to_vec());
            assert_eq!(StripFields::parse("debug").expect("a name").without(&payload), None);
        }
    }

    #[test]
    fn names_are_neither_empty_nor_too_many_nor_too_long() {
        let many = vec!["n"; StripFields::MOST + 1].join(",");
        for bad in ["a,,b", "a,", &many, &"n".repeat(StripFields::LONGEST + 1)] {
            assert_eq!(StripFields::parse(bad), None, "{bad}");
        }
        assert_eq!(StripFields::parse(" "), Some(StripFields::default()));
    }
}
