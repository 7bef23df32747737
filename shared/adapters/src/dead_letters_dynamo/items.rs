//! The items of a dead letter: its description, with the reference's fields as attributes beside the keys, and the parts of its body.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::dead_letter::{DeadLetterKey, Reference};
use redial_core::lane::Lane;
use redial_core::time::Timestamp;
use serde_json::Value;

use crate::table::attributes::{Item, Read, expiry, key, n, s};

/// The partitions of a tenant's day.
pub(super) const DAY_SHARDS: u32 = 4;

/// A dead letter's description, and whether it was replayed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    pub reference: Reference,
    /// When an operator last sent it again; the mark may be lost.
    pub replayed_at: Option<Timestamp>,
    pub kept_until: Option<Timestamp>,
}

impl Described {
    /// Whether its retention is not over; the table may remove it days late.
    pub fn is_kept(&self, now: Timestamp) -> bool {
        self.kept_until.is_none_or(|until| until > now)
    }
}

pub(super) fn item(reference: &Reference, now: Timestamp) -> Item {
    let letter = reference.key();
    let at = Timestamp::from_ms(reference.at);
    let kept = Duration::from_secs(u64::from(reference.retention_days) * 86_400);
    let day = partition(&letter.tenant, &at.day(), shard(&letter, DAY_SHARDS));
    let mut item = key(letter.partition(), &letter.letter);
    item.insert("gsi_pk".to_owned(), s(day));
    item.insert("gsi_sk".to_owned(), s(sort(at, &letter)));
    item.insert("expires_at".to_owned(), expiry(now.plus(kept)));
    let described = serde_json::to_value(reference).expect("a reference is plain strings and numbers");
    for (name, value) in described.as_object().into_iter().flatten() {
        let value = match value {
            Value::String(text) => s(text),
            Value::Number(number) => n(number),
            Value::Bool(truth) => AttributeValue::Bool(*truth),
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
        };
        item.insert(name.clone(), value);
    }
    item
}

/// A partition of the index `by_day`.
pub(super) fn partition(tenant: &str, day: &str, shard: u32) -> String {
    format!("{tenant}#{day}#{shard}")
}

/// A dead letter's sort key in the index.
pub(super) fn sort(at: Timestamp, key: &DeadLetterKey) -> String {
    format!("{}#{}#{}", moment(at), key.id, key.letter)
}

/// Reads an item; `None` if it is no description of this version.
pub(super) fn read(item: &Item) -> Option<Described> {
    let value = |value: &AttributeValue| {
        let number = value.as_n().ok().and_then(|number| number.parse::<i64>().ok());
        let text = value.as_s().ok().map(|text| Value::from(text.as_str()));
        text.or_else(|| number.map(Value::from))
            .or_else(|| value.as_bool().ok().map(|truth| Value::from(*truth)))
    };
    let fields = item.iter().filter_map(|(name, field)| Some((name.clone(), value(field)?))).collect();
    let reference: Reference = serde_json::from_value(Value::Object(fields)).ok()?;
    (reference.v == Reference::VERSION).then(|| Described {
        reference,
        replayed_at: item.time("replayed_at"),
        kept_until: item.expires_at(),
    })
}

/// Thirteen digits of milliseconds, so that text order is the order of time.
pub(super) fn moment(at: Timestamp) -> String {
    format!("{:013}", at.as_ms())
}

pub(super) fn shard(key: &DeadLetterKey, shards: u32) -> u32 {
    let text = format!("{}#{}", key.partition(), key.letter);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    u32::from(digest.as_ref()[0]) % shards
}

/// In a sort key, between the dead letter's name and the number of a part of its body.
pub(super) const PART: &str = "#body.";

/// The lane stored with a part of a body; `None` for one that this version does not know.
pub(super) fn lane_of(part: &Item) -> Option<Lane> {
    Lane::from_label(part.text("lane")?)
}

/// The key of an item that was read.
pub(super) fn key_of(item: &Item) -> Item {
    ["pk", "sk"].into_iter().filter_map(|name| Some((name.to_owned(), item.get(name)?.clone()))).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in super::super) fn reference(tenant: &str, id: &str, at: i64) -> Reference {
        let fields = json!({
            "v": Reference::VERSION, "kind": "failed", "tenant": tenant, "id": id, "letter": "lineage-0", "lineage": 0,
            "channel": "web_push", "subscription": "s1", "reason": "retries_exhausted", "status": 503, "attempts": 6, "tags": "eu order",
            "first_sent": 1, "at": at, "retention_days": 14,
        });
        serde_json::from_value(fields).expect("a reference")
    }

    #[test]
    fn a_description_reads_back() {
        let reference = reference("acme", "d1", 1_795_000_000_000);
        let mut item = item(&reference, Timestamp::from_secs(1_795_000_100));
        let day = 14 * 86_400;
        let kept_until = Some(Timestamp::from_secs(1_795_000_100 + day));
        let described = Described { reference, replayed_at: None, kept_until };
        assert_eq!(read(&item), Some(described.clone()));
        item.insert("replayed_at".to_owned(), n(5));
        assert_eq!(read(&item), Some(Described { replayed_at: Some(Timestamp::from_ms(5)), ..described }));
        item.insert("v".to_owned(), n(2));
        assert_eq!(read(&item), None);
    }
}
