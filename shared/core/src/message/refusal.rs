//! What is wrong with a body that is no message.
//!
//! An unknown field's name is the producer's own text, and may be what it wanted to send: `{"4111 1111 …": 1}`. The producer that is
//! answered sees it as it is; what is stored and logged names only fields of a message, and what differs from one by a slip.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use super::SCHEMA;
use crate::identity::Tenant;
use crate::reason::Reason;
use crate::shape::{NO_SUCH_FIELD, ShapeError, joined};
use crate::slip::meant;

/// How many errors a dead letter names.
const ERRORS_NAMED: usize = 8;

/// What an error expects at a version that this release does not know.
pub(super) const A_VERSION: &str = "1, the only version there is";

/// Takes the place of a name that is the producer's own.
const OWN_NAME: &str = "…";

/// An array in a body of 1 MiB has fewer than a million elements: a longer number is the producer's own.
const INDEX_DIGITS: usize = 6;

/// Everything that is wrong with a body that is not a valid message. Never holds a value of the body.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}: {}", joined(errors))]
pub struct Refusal {
    pub reason: Reason,
    /// At least one, in the order of the fields.
    pub errors: Vec<ShapeError>,
    pub tenant: Option<Tenant>,
}

impl Refusal {
    /// Whether the body has a field, or a form of one, that this release does not know. On a retry queue another release wrote
    /// that, and can read it.
    pub fn is_of_another_release(&self) -> bool {
        let unknown = [NO_SUCH_FIELD, A_VERSION];
        self.errors.iter().any(|error| unknown.contains(&error.expected.as_ref()))
    }

    /// The first errors for logs and dead letters, without names of the producer's own.
    pub fn detail(&self) -> String {
        let is_own = |error: &&ShapeError| {
            error.expected == NO_SUCH_FIELD && without_own_names(&error.path).ends_with(OWN_NAME)
        };
        let (own, named): (Vec<_>, Vec<_>) = self.errors.iter().partition(is_own);
        let errors = named.iter().take(ERRORS_NAMED);
        let mut detail: Vec<String> = errors
            .map(|error| ShapeError { path: without_own_names(&error.path), ..(*error).clone() }.to_string())
            .collect();
        if named.len() > ERRORS_NAMED {
            detail.push(format!("and {} more", named.len() - ERRORS_NAMED));
        }
        if !own.is_empty() {
            let fields = if own.len() == 1 { "field" } else { "fields" };
            detail.push(format!("{} {fields} that no message has", own.len()));
        }
        detail.join("; ")
    }
}

/// A path with [`OWN_NAME`] for each name that is none of a message's.
fn without_own_names(path: &str) -> String {
    let shown = |name: &str| if is_ours(name) { name.to_owned() } else { OWN_NAME.to_owned() };
    path.split('.').map(shown).collect::<Vec<_>>().join(".")
}

/// Whether a name, with an index or without, is a field of a message, or differs from one by a slip.
fn is_ours(name: &str) -> bool {
    let name = without_index(name);
    names().contains_key(name) || near(name).is_some()
}

/// A name without its index, as in `tags[0]`. What else stands in brackets is the producer's own.
fn without_index(name: &str) -> &str {
    let Some((field, index)) = name.strip_suffix(']').and_then(|name| name.split_once('[')) else {
        return name;
    };
    let is_index =
        (1..=INDEX_DIGITS).contains(&index.len()) && index.bytes().all(|byte| byte.is_ascii_digit());
    if is_index { field } else { name }
}

/// The field of a message that was meant where there is no such field, if the name differs from it by a slip, or its place if that does.
pub fn meant_by(error: &ShapeError) -> Option<&'static str> {
    let name = error.path.rsplit('.').next().unwrap_or_default();
    let meant = near(name).filter(|_| error.expected == NO_SUCH_FIELD)?;
    if meant == name {
        names().get(name).map(String::as_str).filter(|it| *it != error.path)
    } else {
        Some(meant)
    }
}

/// The name of a field that differs from this one by a slip.
fn near(name: &str) -> Option<&'static str> {
    meant(name, names().keys().map(String::as_str).filter(|ours| !ours.is_empty()))
}

/// The names of all fields, each with the path of one that has it.
fn names() -> &'static BTreeMap<String, String> {
    static NAMES: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = BTreeMap::new();
        names.insert(String::new(), String::new());
        let schema = serde_json::from_str(SCHEMA).unwrap_or_default();
        add_names(&schema, &schema, "", &mut names);
        names
    })
}

/// Adds the names of all properties in the part of a JSON schema for what is at this path.
fn add_names(whole: &Value, schema: &Value, path: &str, names: &mut BTreeMap<String, String>) {
    match schema {
        Value::Object(fields) => {
            for (keyword, value) in fields {
                match (keyword.as_str(), value) {
                    ("$defs", _) => {}
                    ("$ref", Value::String(to)) => {
                        let defined = whole.pointer(to.trim_start_matches('#')).unwrap_or(&Value::Null);
                        add_names(whole, defined, path, names);
                    }
                    ("properties", Value::Object(properties)) => {
                        for (name, property) in properties {
                            let dot = if path.is_empty() { "" } else { "." };
                            let path = format!("{path}{dot}{name}");
                            add_names(whole, property, &path, names);
                            names.entry(name.clone()).or_insert(path);
                        }
                    }
                    _ => add_names(whole, value, path, names),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| add_names(whole, value, path, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{QueueKind, parse};
    use crate::time::Timestamp;

    fn detail(body: &str) -> String {
        parse(body, QueueKind::Ingest, "id", Timestamp::default()).expect_err("refused").detail()
    }

    #[test]
    fn names_of_the_producer_s_own_are_counted_and_not_shown() {
        let secret = r#"{"tenant":"acme","to":{"subscription":"s"},"4111111111111111":1,"alice@example.org":2,"paylod":3}"#;
        assert_eq!(
            detail(secret),
            "paylod: expected no such field, found an integer; 2 fields that no message has"
        );
        let nested =
            r#"{"tenant":"acme","to":{"webhook":{"url":"https://a.example","alice":1}},"payload":"x"}"#;
        assert_eq!(detail(nested), "1 field that no message has");
        let headers = r#"{"tenant":"acme","to":{"subscription":"s"},"headers":{"alice":1}}"#;
        assert!(detail(headers).starts_with("headers.…: expected "), "{}", detail(headers));
        // None of them is an index of ours.
        for name in
            ["payload[alice]", "payload[0]alice", "payload[0][bob]", "payload[4111111111111111]", "[alice]"]
        {
            let body = format!(r#"{{"tenant":"acme","to":{{"subscription":"s"}},"{name}":1}}"#);
            assert_eq!(detail(&body), "1 field that no message has", "{name}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_message_s_own_fields_is_named() {
        let body =
            r#"{"to":{"web_push":{"endpoint":"https://a.example","keys":{}}},"retry":{"retryable":["x"]}}"#;
        let detail = detail(body);
        for path in ["tenant: ", "to.web_push.keys.p256dh: ", "retry.retryable[0]: "] {
            assert!(detail.contains(path), "{path} in {detail}");
        }
        assert!(!detail.contains(OWN_NAME), "{detail}");
        assert!(self::detail("nonsense").starts_with("(the whole text): "));
    }

    #[test]
    fn a_slip_in_a_field_s_name_is_known() {
        let body = r#"{"tenant":"acme","to":{"subscripton":"s"},"paylod":3,"colour":1,"ttl":"x","time_zone":"x","max_retries":1}"#;
        let refusal = parse(body, QueueKind::Ingest, "id", Timestamp::default()).expect_err("refused");
        let meant: Vec<_> =
            refusal.errors.iter().filter_map(|error| Some((error.path.as_str(), meant_by(error)?))).collect();
        let expected = [
            ("to.subscripton", "subscription"),
            ("paylod", "payload"),
            ("time_zone", "deliver_between.time_zone"),
            ("max_retries", "retry.max_retries"),
        ];
        assert_eq!(meant, expected, "{refusal}");
    }

    #[test]
    fn at_most_eight_errors_are_named() {
        let fields: String = (0..20).map(|n| format!(r#""retry_delay{}":{n},"#, "s".repeat(n % 3))).collect();
        let detail = detail(&format!(r#"{{{fields}"tenant":1}}"#));
        assert_eq!(detail.split("; ").count(), ERRORS_NAMED + 1, "{detail}");
        assert!(detail.contains("more"), "{detail}");
    }
}
