//! Reading a policy from JSON: every field checked, all errors at once.
//!
//! ```json
//! {"base_delay_ms": 2000, "multiplier": 2, "max_delay_ms": 120000, "jitter": "full", "max_retries": 5}
//! ```
//!
//! `jitter` is `"full"`, `"equal"`, `"none"`, `{"additive": FRACTION}` or `{"bounded_ms": MS}`. What is left out is as in the
//! preset `web-push`. `{"retries_enabled": false}` retries nothing.

use std::time::Duration;

use serde_json::value::RawValue;

use super::{Exponential, Jitter, MAX_DELAY, Policy, Retries};
use crate::shape::{self, Errors, Object, ShapeError};

/// The most retries that a policy may ask for.
pub const MAX_RETRIES: u64 = 100;

/// Reads a policy named `name` from a JSON object; errors name fields below `path`.
pub fn policy(text: &str, name: &str, path: &str) -> Result<Policy, Vec<ShapeError>> {
    let errors = Errors::default();
    let policy = read(text, name, path, &errors);
    match (policy, errors.is_empty()) {
        (Some(policy), true) => Ok(policy),
        (_, _) => Err(errors.into_vec()),
    }
}

fn read(text: &str, name: &str, path: &str, errors: &Errors) -> Option<Policy> {
    let mut object = Object::parse(text, path, errors)?;
    let max_delay_ms = u64::try_from(MAX_DELAY.as_millis()).unwrap_or(u64::MAX);
    let delay =
        |raw: &RawValue| shape::unsigned(raw).filter(|ms| *ms <= max_delay_ms).map(Duration::from_millis);
    let share = |raw: &RawValue| shape::number(raw).filter(|n| (0.0..=1.0).contains(n));

    let enabled = object.optional("retries_enabled", "true or false", shape::boolean).unwrap_or(true);
    let a_delay = "milliseconds from 0 to 31536000000 (a year)";
    let base_delay = object.optional("base_delay_ms", a_delay, delay).unwrap_or(Duration::from_secs(2));
    let max_delay = object.optional("max_delay_ms", a_delay, delay).unwrap_or(Duration::from_secs(120));
    let multiplier = object
        .optional("multiplier", "a number from 1 to 1000", |raw| {
            shape::number(raw).filter(|n| (1.0..=1000.0).contains(n))
        })
        .unwrap_or(2.0);
    let max_retries = object
        .optional("max_retries", "an integer from 0 to 100", |raw| {
            shape::unsigned(raw).filter(|n| *n <= MAX_RETRIES).and_then(|n| u32::try_from(n).ok())
        })
        .unwrap_or(5);
    let jitter = object
        .optional(
            "jitter",
            r#""full", "equal", "none", {"additive": 0 to 10} or {"bounded_ms": MS}"#,
            read_jitter,
        )
        .unwrap_or(Jitter::Full);
    let a_list = "a list of HTTP statuses from 400 to 599 without 401, 404, 410 and 413";
    let retryable = object.optional("retryable", a_list, statuses).unwrap_or_default();
    let permanent = object.optional("permanent", a_list, statuses).unwrap_or_default();
    if retryable.iter().any(|status| permanent.contains(status)) {
        errors.add(&object.path_of("permanent"), "no status that is in `retryable` too", "an array");
    }
    let retry_in_doubt = object.optional("retry_in_doubt", "true or false", shape::boolean).unwrap_or(true);
    let max_delay_ttl_fraction = object.optional("max_delay_ttl_fraction", "a number from 0 to 1", share);
    let retry_after_smear =
        object.optional("retry_after_smear", "a number from 0 to 1", share).unwrap_or(0.1);
    let dlq_retention_days = object
        .optional("dlq_retention_days", "an integer from 1 to 365", |raw| {
            shape::unsigned(raw).filter(|n| (1..=365).contains(n)).and_then(|n| u16::try_from(n).ok())
        })
        .unwrap_or(14);
    object.finish();

    let backoff = Exponential { base_delay, multiplier, max_delay };
    Some(Policy {
        name: name.to_owned(),
        retries: enabled.then_some(Retries { max_retries, backoff, jitter }),
        retryable,
        permanent,
        retry_in_doubt,
        max_delay_ttl_fraction,
        retry_after_smear,
        dlq_retention_days,
    })
}

fn read_jitter(raw: &RawValue) -> Option<Jitter> {
    if let Some(name) = shape::string(raw) {
        return match name.as_str() {
            "full" => Some(Jitter::Full),
            "equal" => Some(Jitter::Equal),
            "none" => Some(Jitter::None),
            _ => None,
        };
    }
    let fields = shape::raw_fields(raw.get()).ok()?;
    let [(name, value)] = fields.as_slice() else { return None };
    match name.as_ref() {
        "additive" => shape::number(value)
            .filter(|n| (0.0..=10.0).contains(n))
            .map(|fraction| Jitter::Additive { fraction }),
        "bounded_ms" => shape::unsigned(value)
            .filter(|ms| u128::from(*ms) <= MAX_DELAY.as_millis())
            .map(|ms| Jitter::Bounded { ms }),
        _ => None,
    }
}

fn statuses(raw: &RawValue) -> Option<Vec<u16>> {
    let list: Vec<u16> = serde_json::from_str(raw.get()).ok()?;
    list.iter()
        .all(|s| (400..=599).contains(s) && !crate::verdict::NOT_OVERRIDABLE_WEB_PUSH.contains(s))
        .then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_errors_come_at_once_each_naming_its_field() {
        let text = r#"{"base_delay_ms": -1, "multiplier": 0.5, "max_retries": 101, "jitter": "some",
            "retryable": [404], "retry_after_smear": 2, "dlq_retention_days": 0, "retries": 3}"#;
        let errors = policy(text, "inline", "retry").expect_err("everything is wrong");
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "retry.base_delay_ms",
                "retry.multiplier",
                "retry.max_retries",
                "retry.jitter",
                "retry.retryable",
                "retry.retry_after_smear",
                "retry.dlq_retention_days",
                "retry.retries",
            ]
        );
    }

    #[test]
    fn a_status_cannot_be_retryable_and_permanent() {
        let errors = policy(r#"{"retryable":[400],"permanent":[400]}"#, "p", "").expect_err("both");
        assert_eq!(errors[0].path, "permanent");
    }

    #[test]
    fn every_jitter_has_its_spelling() {
        for (text, jitter) in [
            (r#""full""#, Jitter::Full),
            (r#""equal""#, Jitter::Equal),
            (r#""none""#, Jitter::None),
            (r#"{"additive":0.3}"#, Jitter::Additive { fraction: 0.3 }),
            (r#"{"bounded_ms":1000}"#, Jitter::Bounded { ms: 1000 }),
        ] {
            let read = policy(&format!(r#"{{"jitter":{text}}}"#), "p", "").expect("valid");
            assert_eq!(read.retries.expect("enabled").jitter, jitter, "{text}");
        }
    }

    #[test]
    fn what_is_left_out_is_as_in_the_default_preset() {
        let empty = policy("{}", "web-push", "").expect("valid");
        assert_eq!(&empty, super::super::presets::get("web-push").expect("a preset"));
    }
}
