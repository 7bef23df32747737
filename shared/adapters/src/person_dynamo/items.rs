//! Items as JSON.

use aws_sdk_dynamodb::types::AttributeValue;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use crate::table::attributes::Item;

/// An item's attributes, but for these.
pub(super) fn to_json(item: &Item, without: &[&str]) -> Map<String, Value> {
    let shown = item.iter().filter(|(name, _)| !without.contains(&name.as_str()));
    shown.map(|(name, value)| (name.clone(), value_of(value))).collect()
}

/// Sets, which no item has, are null.
fn value_of(value: &AttributeValue) -> Value {
    if let Ok(text) = value.as_s() {
        text.as_str().into()
    } else if let Ok(number) = value.as_n() {
        serde_json::from_str(number).unwrap_or_else(|_| number.as_str().into())
    } else if let Ok(truth) = value.as_bool() {
        (*truth).into()
    } else if let Ok(bytes) = value.as_b() {
        let text = std::str::from_utf8(bytes.as_ref()).map(Value::from);
        text.unwrap_or_else(|_| STANDARD.encode(bytes.as_ref()).into())
    } else if let Ok(list) = value.as_l() {
        list.iter().map(value_of).collect()
    } else if let Ok(map) = value.as_m() {
        Value::Object(to_json(map, &[]))
    } else {
        Value::Null
    }
}
