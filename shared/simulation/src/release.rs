//! Two releases side by side: what a newer one writes on the queues that workers share, and how it reads that.

use std::borrow::Cow;

use serde_json::{Value, json};

/// What a newer release adds: a field that no older one has.
const FIELD: &str = "\"from_the_next_release\":1,";

/// A kind of message that no older release has.
const KIND: &str = "next_kind";

/// A body as a newer release writes it.
pub fn written(body: String, is_a_kind: bool) -> String {
    if body != read(&body) {
        return body;
    }
    if is_a_kind { json!({KIND: body}).to_string() } else { body.replacen('{', &format!("{{{FIELD}"), 1) }
}

/// The body as a newer release reads it: what this one writes.
pub fn read(body: &str) -> Cow<'_, str> {
    let is_of_kind = body.strip_prefix("{\"").is_some_and(|rest| rest.starts_with(KIND));
    let of_kind = is_of_kind.then(|| serde_json::from_str::<Value>(body).ok()).flatten();
    match of_kind.as_ref().and_then(|value| value[KIND].as_str()) {
        Some(inner) => Cow::Owned(inner.to_owned()),
        None if body.contains(FIELD) => Cow::Owned(body.replacen(FIELD, "", 1)),
        None => Cow::Borrowed(body),
    }
}
