//! What a function's response says of a batch.

use std::collections::BTreeSet;

use serde_json::Value;

/// The ids of the messages that failed; `None` if the whole batch counts as failed.
///
/// An empty or absent list is a success of all. An identifier that is missing, empty, not a text, or of no message of the batch fails
/// the batch (Lambda developer guide, "Success and failure conditions").
pub(super) fn failed<'a>(
    response: &'a Value,
    reports_failures: bool,
    batch: impl Iterator<Item = &'a str>,
) -> Option<BTreeSet<&'a str>> {
    if !reports_failures {
        return Some(BTreeSet::new());
    }
    let failures = match response {
        Value::Null => return Some(BTreeSet::new()),
        Value::Object(response) => match response.get("batchItemFailures") {
            None | Some(Value::Null) => return Some(BTreeSet::new()),
            Some(failures) => failures.as_array()?,
        },
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => return None,
    };
    let failed: Option<BTreeSet<&str>> =
        failures.iter().map(|failure| failure["itemIdentifier"].as_str()).collect();
    let batch: BTreeSet<&str> = batch.collect();
    failed.filter(|failed| failed.is_subset(&batch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(response: &Value) -> Option<Vec<&str>> {
        failed(response, true, ["a", "b"].into_iter()).map(|failed| failed.into_iter().collect())
    }

    #[test]
    fn the_named_messages_failed_and_the_others_did_not() {
        let response = json!({"batchItemFailures": [{"itemIdentifier": "b"}]});
        assert_eq!(read(&response), Some(vec!["b"]));
    }

    #[test]
    fn nothing_named_is_a_success() {
        for response in
            [json!(null), json!({}), json!({"batchItemFailures": null}), json!({"batchItemFailures": []})]
        {
            assert_eq!(read(&response), Some(Vec::new()), "{response}");
        }
    }

    #[test]
    fn an_identifier_that_cannot_be_read_fails_the_batch() {
        let naming = |identifier: Value| json!({"batchItemFailures": [{"itemIdentifier": "a"}, identifier]});
        for response in [
            naming(json!({"itemIdentifier": ""})),
            naming(json!({"itemIdentifier": null})),
            naming(json!({"itemIdentifier": "c"})),
            naming(json!({"id": "b"})),
            naming(json!("b")),
            json!({"batchItemFailures": "b"}),
            json!("b"),
        ] {
            assert_eq!(read(&response), None, "{response}");
        }
    }

    #[test]
    fn a_response_without_meaning_is_a_success_where_failures_are_not_reported() {
        assert_eq!(failed(&json!("b"), false, ["a"].into_iter()), Some(BTreeSet::new()));
    }
}
