//! Settings as AWS has them, against those that the template makes.
//!
//! A reader returns the settings of a resource by the names that the template has for them, and [`Check::compare`] reports
//! each that differs. Numbers and truth values are compared as texts, and lists without their order, as CloudFormation does.

use serde_json::Value;

use super::{
    expression::scalar,
    release::{Part, Release},
};
use crate::{
    aws_error::AwsError,
    doctor::{Report, Severity},
};

/// Settings whose difference loses and delays nothing.
const HARMLESS: [&str; 6] =
    ["BillingMode", "MemorySize", "PointInTimeRecovery", "RetentionInDays", "Runtime", "AlarmDescription"];

/// The most characters of a value that a finding shows.
const SHOWN: usize = 120;

/// What is found of one resource: settings by their names.
pub(super) type Settings = Vec<(&'static str, Value)>;

pub(super) struct Check<'a> {
    pub(super) release: &'a Release,
    pub(super) report: &'a mut Report,
}

impl Check<'_> {
    /// Compares what was read of a part with the template. `remedy` is what sets a setting, in the words of a command.
    pub(super) fn compare(&mut self, part: &Part<'_>, read: Result<Settings, AwsError>, remedy: &str) {
        let why = "another check reports that it does not exist";
        let what = format!("the settings of {}", part.name);
        for (setting, found) in self.report.read_if_present(what, read, why).into_iter().flatten() {
            let expected = self.release.property(part, setting);
            self.judge(part.name, setting, expected.as_ref(), &found, remedy);
        }
    }

    /// Reports a setting that is not the expected one; `None` if that is not known.
    pub(super) fn judge(
        &mut self,
        name: &str,
        setting: &str,
        expected: Option<&Value>,
        found: &Value,
        remedy: &str,
    ) {
        let Some(expected) = expected else {
            let why = "the template's value depends on something that the stack does not have";
            return self.report.unchecked(format!("{setting} of {name}"), why);
        };
        let expected = &or_default(setting, expected);
        if is_same(expected, &or_default(setting, found)) {
            return;
        }
        let severity = if HARMLESS.contains(&setting) { Severity::Warning } else { Severity::Fault };
        self.report.finding(
            severity,
            format!("{setting} of {name} is {}; the template has {}", shown(found), shown(expected)),
            remedy,
        );
    }
}

/// What AWS takes for a setting that is not set (CloudFormation user guide, each resource's properties).
fn or_default(setting: &str, value: &Value) -> Value {
    if !value.is_null() {
        return value.clone();
    }
    match setting {
        "DelaySeconds" | "MaximumBatchingWindowInSeconds" => 0.into(),
        "PointInTimeRecovery" => false.into(),
        "State" => "ENABLED".into(),
        _ => Value::Null,
    }
}

pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().all(|a| b.iter().any(|b| is_same(a, b)))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        (a, b) => scalar(a) == scalar(b) && a.is_null() == b.is_null() && scalar(a).is_some() | a.is_null(),
    }
}

fn shown(value: &Value) -> String {
    if value.is_null() {
        return "not set".to_owned();
    }
    let text = scalar(value).unwrap_or_else(|| value.to_string());
    match text.char_indices().nth(SHOWN) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_numbers_lists_have_no_order_and_nothing_is_nothing_else() {
        for (a, b, expected) in [
            (json!("10"), json!(10), true),
            (json!(1.0), json!(1), true),
            (json!("true"), json!(true), true),
            (json!([1, 2]), json!(["2", "1"]), true),
            (json!([1]), json!([1, 2]), false),
            (json!({"a": [1]}), json!({"a": ["1"]}), true),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!(null), json!(null), true),
            (json!(null), json!(0), false),
            (json!([]), json!({}), false),
        ] {
            assert_eq!(is_same(&a, &b), expected, "{a} {b}");
            assert_eq!(is_same(&b, &a), expected, "{b} {a}");
        }
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        assert_eq!(shown(&json!("ä".repeat(121))), format!("{}…", "ä".repeat(120)));
        assert_eq!((shown(&Value::Null), shown(&json!([1]))), ("not set".to_owned(), "[1]".to_owned()));
    }
}
