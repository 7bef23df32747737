//! Reading and writing DynamoDB attributes.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::time::Timestamp;

/// A DynamoDB item.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// A string attribute.
pub(crate) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

/// A number attribute.
pub(crate) fn n(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// A time, in epoch milliseconds.
pub(crate) fn ms(at: Timestamp) -> AttributeValue {
    n(at.as_ms())
}

/// An expiry as DynamoDB's own TTL reads it: epoch seconds.
pub(crate) fn expiry(at: Timestamp) -> AttributeValue {
    n(at.as_secs())
}

/// A value, or NULL, which a statement with a fixed text can set.
pub(crate) fn or_null(value: Option<AttributeValue>) -> AttributeValue {
    value.unwrap_or(AttributeValue::Null(true))
}

/// Reading by name; a missing attribute, NULL and one of another type are all `None`.
pub(crate) trait Read {
    /// A string.
    fn text(&self, name: &str) -> Option<&str>;
    /// A whole number.
    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T>;
    /// A boolean.
    fn truth(&self, name: &str) -> bool;
    /// Epoch milliseconds.
    fn time(&self, name: &str) -> Option<Timestamp>;
}

impl Read for Item {
    fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_s().ok().map(String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.as_n().ok()?.parse().ok()
    }

    fn truth(&self, name: &str) -> bool {
        self.get(name).and_then(|value| value.as_bool().ok()).copied().unwrap_or(false)
    }

    fn time(&self, name: &str) -> Option<Timestamp> {
        self.number(name).map(Timestamp::from_ms)
    }
}
