//! What a role's policies allow and deny: one action on one resource under one condition each, so that two policies can be
//! compared however they are written.

use serde_json::Value;

use crate::verify::expression::scalar;

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Permission {
    /// `sqs:SendMessage`; may have wildcards.
    pub(super) action: String,
    /// An ARN; may have wildcards.
    pub(super) resource: String,
    /// Null if there is none.
    pub(super) condition: Value,
}

/// A set of policies, taken apart.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Permissions {
    pub(super) allowed: Vec<Permission>,
    pub(super) denied: Vec<Permission>,
    /// Statements of a form that Redial's policies do not have, such as `NotAction`.
    pub(super) others: usize,
}

impl Permissions {
    pub(super) fn add(&mut self, policy: &Value) {
        for statement in listed(&policy["Statement"]) {
            let actions = texts(&statement["Action"]);
            let resources = texts(&statement["Resource"]);
            if actions.is_empty() || resources.is_empty() {
                self.others += 1;
                continue;
            }
            let denies = statement["Effect"] == "Deny";
            let all = if denies { &mut self.denied } else { &mut self.allowed };
            for action in &actions {
                all.extend(resources.iter().map(|resource| Permission {
                    action: action.clone(),
                    resource: resource.clone(),
                    condition: statement["Condition"].clone(),
                }));
            }
        }
    }

    /// Those of `expected` that none of these allows.
    pub(super) fn missing<'a>(&self, expected: &'a Self) -> Vec<&'a Permission> {
        expected.allowed.iter().filter(|it| !self.allowed.iter().any(|own| own.covers(it))).collect()
    }
}

impl Permission {
    /// Whether who has this also has the other.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let action = |permission: &Self| permission.action.to_ascii_lowercase();
        is_like(&action(other), &action(self))
            && is_like(&other.resource, &self.resource)
            && (self.condition.is_null() || is_as(&self.condition, &other.condition))
    }

    /// What of the resource distinguishes it: all that follows the account.
    pub(super) fn on(&self) -> &str {
        self.resource.splitn(6, ':').nth(5).unwrap_or(&self.resource)
    }
}

/// Whether a text is like one of IAM's patterns, in which `*` is any text and `?` any character.
fn is_like(text: &str, pattern: &str) -> bool {
    match pattern.chars().next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = &pattern[1..];
            text.char_indices().map(|(at, _)| &text[at..]).chain([""]).any(|text| is_like(text, rest))
        }
        Some(first) => {
            let mut characters = text.chars();
            let is_first = characters.next().is_some_and(|it| first == '?' || it == first);
            is_first && is_like(characters.as_str(), &pattern[first.len_utf8()..])
        }
    }
}

/// Conditions are the same where their values are, in any order, one or a list.
fn is_as(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_as(a, b)))
        }
        (Value::Object(_), _) | (_, Value::Object(_)) => false,
        (a, b) => {
            let (mut a, mut b) = (texts(a), texts(b));
            a.sort();
            b.sort();
            a == b
        }
    }
}

fn listed(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Null => Vec::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => vec![value],
    }
}

fn texts(value: &Value) -> Vec<String> {
    listed(value).into_iter().filter_map(scalar).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn allowing(actions: &[&str], resource: &str) -> Permissions {
        let mut permissions = Permissions::default();
        permissions.add(&json!({"Statement": {"Effect": "Allow", "Action": actions, "Resource": resource}}));
        permissions
    }

    #[test]
    fn a_pattern_of_iam_s_matches_what_iam_matches() {
        for (text, pattern, expected) in [
            ("sqs:SendMessage", "sqs:*", true),
            ("sqs:SendMessage", "sqs:Send*e", true),
            ("sqs:SendMessage", "sqs:sendMessage", false),
            ("arn:secret:a-AbCdEf", "arn:secret:a-??????", true),
            ("arn:secret:a-AbCdE", "arn:secret:a-??????", false),
            ("", "*", true),
            ("ä", "?", true),
        ] {
            assert_eq!(is_like(text, pattern), expected, "{text} {pattern}");
        }
    }

    #[test]
    fn what_is_missing_and_what_is_more_is_found_however_it_is_written() {
        let template = allowing(&["sqs:SendMessage", "sqs:ReceiveMessage"], "arn:aws:sqs:r:1:q");
        let actions =
            |found: Vec<&Permission>| found.into_iter().map(|it| it.action.clone()).collect::<Vec<_>>();
        for (found, missing, more) in [
            (allowing(&["sqs:ReceiveMessage", "SQS:sendmessage"], "arn:aws:sqs:r:1:q"), vec![], vec![]),
            (allowing(&["sqs:ReceiveMessage"], "arn:aws:sqs:r:1:q"), vec!["sqs:SendMessage"], vec![]),
            (allowing(&["sqs:*"], "*"), vec![], vec!["sqs:*"]),
            (
                allowing(&["sqs:SendMessage", "sqs:ReceiveMessage"], "arn:aws:sqs:r:1:p"),
                vec!["sqs:SendMessage", "sqs:ReceiveMessage"],
                vec!["sqs:SendMessage", "sqs:ReceiveMessage"],
            ),
        ] {
            assert_eq!(actions(found.missing(&template)), missing);
            assert_eq!(actions(template.missing(&found)), more);
        }
    }

    #[test]
    fn a_condition_limits_a_permission() {
        let with = |keys: &Value| {
            let condition = json!({"ForAllValues:StringLike": {"dynamodb:LeadingKeys": keys}});
            let mut permissions = Permissions::default();
            permissions.add(&json!({"Statement": [
                {"Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": "t", "Condition": condition},
            ]}));
            permissions
        };
        let two = with(&json!(["waits", "limits"]));
        let unlimited = allowing(&["dynamodb:GetItem"], "t");
        for (found, missing, more) in
            [(with(&json!(["limits", "waits"])), 0, 0), (with(&json!("waits")), 1, 1), (unlimited, 0, 1)]
        {
            assert_eq!((found.missing(&two).len(), two.missing(&found).len()), (missing, more), "{found:?}");
        }
    }

    #[test]
    fn denials_and_other_forms_are_kept_apart() {
        let mut permissions = Permissions::default();
        permissions.add(&json!({"Statement": [
            {"Effect": "Deny", "Action": "*", "Resource": "*"},
            {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"},
        ]}));
        assert_eq!((permissions.allowed.len(), permissions.denied.len(), permissions.others), (0, 1, 1));
        assert_eq!(allowing(&["a:b"], "arn:aws:sqs:r:1:q").allowed[0].on(), "q");
        assert_eq!(allowing(&["a:b"], "*").allowed[0].on(), "*");
    }
}
