//! Reading and writing DynamoDB attributes.

use std::collections::HashMap;
use std::str::FromStr;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::time::Timestamp;

pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn item<const N: usize>(fields: [(&str, AttributeValue); N]) -> Item {
    fields.map(|(name, value)| (name.to_owned(), value)).into()
}

/// The key of an item in a table with a sort key.
pub(crate) fn key(pk: impl Into<String>, sk: impl Into<String>) -> Item {
    item([("pk", s(pk)), ("sk", s(sk))])
}

pub(crate) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(crate) fn n(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(crate) fn b(bytes: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

/// Epoch milliseconds.
pub(crate) fn ms(at: Timestamp) -> AttributeValue {
    n(at.as_ms())
}

/// Epoch seconds, as DynamoDB's TTL reads them.
pub(crate) fn expiry(at: Timestamp) -> AttributeValue {
    n(at.as_secs())
}

/// A value, or NULL, which a statement with a fixed text can set.
pub(crate) fn or_null(value: Option<AttributeValue>) -> AttributeValue {
    value.unwrap_or(AttributeValue::Null(true))
}

/// Reading by name; a missing attribute, NULL and one of another type are all `None`.
pub(crate) trait Read {
    fn value(&self, name: &str) -> Option<&AttributeValue>;

    fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.as_s().ok().map(String::as_str)
    }

    fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.value(name)?.as_b().ok().map(AsRef::as_ref)
    }

    fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.value(name)?.as_n().ok()?.parse().ok()
    }

    /// `false` where there is no boolean.
    fn truth(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value.as_bool() == Ok(&true))
    }

    /// Epoch milliseconds.
    fn time(&self, name: &str) -> Option<Timestamp> {
        self.number(name).map(Timestamp::from_ms)
    }

    /// When DynamoDB may delete it, which it does late; in epoch seconds.
    fn expires_at(&self) -> Option<Timestamp> {
        self.number("expires_at").map(Timestamp::from_secs)
    }

    /// The texts of a list; empty where there is no list.
    fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let list = self.value(name).and_then(|value| value.as_l().ok()).into_iter().flatten();
        list.filter_map(|value| value.as_s().ok().map(String::as_str))
    }
}

impl Read for Item {
    fn value(&self, name: &str) -> Option<&AttributeValue> {
        self.get(name)
    }
}
