//! JSON in tests.

use serde_json::Value;

/// # Panics
/// With the text, if it is not JSON.
#[track_caller]
pub fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The object has these fields, and may have others.
///
/// # Panics
/// With the first that it has not.
#[track_caller]
pub fn assert_fields(object: &Value, fields: Value) {
    for (name, expected) in fields.as_object().expect("fields") {
        assert_eq!(object[name], *expected, "{name} of {object}");
    }
}

/// A JSON object with further fields, or others.
pub fn with_fields(mut object: Value, fields: &Value) -> Value {
    let fields = fields.as_object().expect("fields").clone();
    object.as_object_mut().expect("an object").extend(fields);
    object
}
