//! Reading a policy from JSON: every field checked, all errors at once.
//!
//! ```json
//! {"base_delay_ms": 2000, "multiplier": 2, "max_delay_ms": 120000, "jitter": "full", "max_retries": 5}
//! {"retry_delays": [60, 1800, 10800], "jitter": {"additive": 0.1}}
//! {"wait_factor": 150, "max_retries": 15}
//! {"retries_enabled": false}
//! ```
//!
//! Delays grow by a factor, come from a list (`retry_delays`, in seconds), or follow from a `wait_factor`. The fields that are present
//! select one of the three, and fields of two of them are an error. `jitter` is `"full"`, `"equal"`, `"none"`, `{"additive":
//! FRACTION}`, `{"bounded_ms": MS}` or `{"whole_seconds": MOST}`. The defaults are those of the preset `web-push`, except that a list
//! has additive jitter of 0.1 and as many retries as delays, and a wait factor jitter of 0 to 59 whole seconds.

use std::time::Duration;

use serde_json::value::RawValue;

use super::{Backoff, Exponential, Jitter, MAX_DELAY, Policy, Retries, Schedule, WaitFactor};
use crate::dead_letter::DEFAULT_RETENTION_DAYS;
use crate::shape::{self, Errors, Object, ShapeError, integer, number_in};
use crate::verdict::NOT_OVERRIDABLE_WEBHOOK;

pub const MAX_RETRIES: u64 = 100;

const MAX_DELAY_MS: u64 = MAX_DELAY.as_millis() as u64;

const MAX_DESCRIPTION: usize = 200;

/// The longest list of statuses: all from 400 to 599.
const MAX_STATUSES: usize = 200;

/// Reads a policy named `name` from a JSON object within a message; errors name fields below `path`, and quote no value.
pub fn policy(text: &str, name: &str, path: &str) -> Result<Policy, Vec<ShapeError>> {
    let errors = Errors::default();
    let policy = read(text, name, path, &errors);
    errors.result(policy)
}

/// Reads a policy named `name` from an operator's document; errors quote the invalid values.
pub fn document(text: &str, name: &str) -> Result<Policy, Vec<ShapeError>> {
    let errors = Errors::quoting();
    let policy = read(text, name, "", &errors);
    errors.result(policy)
}

pub(crate) fn read(text: &str, name: &str, path: &str, errors: &Errors) -> Option<Policy> {
    let mut object = Object::parse(text, path, errors)?;
    let (a_boolean, a_share) = ("true or false", "a number from 0 to 1");

    let a_description = "a string of at most 200 bytes";
    let description = object.optional("description", a_description, shape::text_of(0..=MAX_DESCRIPTION));
    let enabled = object.optional("retries_enabled", a_boolean, shape::boolean).unwrap_or(true);
    let max_retries =
        object.optional("max_retries", "an integer from 0 to 100", integer::<u32>(0..=MAX_RETRIES));
    let family = Family::take(&mut object);
    let jitter = object.optional(
        "jitter",
        r#""full", "equal", "none", {"additive": 0 to 10}, {"bounded_ms": 0 to 31536000000} or {"whole_seconds": 0 to 3600}"#,
        read_jitter,
    );
    if let Some(more) = max_retries.filter(|retries| *retries > family.most_retries) {
        let expected = format!("at most {}, the number of `retry_delays`", family.most_retries);
        object.error("max_retries", expected, errors.a_number(more));
    }
    let retries = Retries {
        max_retries: max_retries.unwrap_or(family.default_retries),
        backoff: family.backoff,
        jitter: jitter.unwrap_or(family.default_jitter),
    };

    let retryable = statuses(&mut object, "retryable");
    let permanent = statuses(&mut object, "permanent");
    for both in retryable.iter().filter(|status| permanent.contains(status)) {
        object.error("permanent", "no status that is in `retryable` too", errors.a_number(both));
    }
    let retry_in_doubt = object.optional("retry_in_doubt", a_boolean, shape::boolean).unwrap_or(true);
    let max_delay_ttl_fraction = object.optional("max_delay_ttl_fraction", a_share, number_in(0.0..=1.0));
    let retry_after_smear =
        object.optional("retry_after_smear", a_share, number_in(0.0..=1.0)).unwrap_or(0.1);
    let dlq_retention_days = object
        .optional("dlq_retention_days", "an integer from 1 to 365", integer(1..=365))
        .unwrap_or(DEFAULT_RETENTION_DAYS);
    object.finish();

    Some(Policy {
        name: name.to_owned(),
        description,
        retries: enabled.then_some(retries),
        retryable,
        permanent,
        retry_in_doubt,
        max_delay_ttl_fraction,
        retry_after_smear,
        dlq_retention_days,
    })
}

/// A family of delays, and what a policy has that does not say otherwise.
struct Family {
    backoff: Backoff,
    default_retries: u32,
    most_retries: u32,
    default_jitter: Jitter,
}

impl Family {
    /// Takes the family whose fields are present. In place of invalid fields, which are errors by then, any value will do.
    fn take(object: &mut Object<'_>) -> Self {
        let a_list = object.raw("retry_delays").is_some();
        let a_factor = object.raw("wait_factor").is_some();
        let others = ["wait_factor", "base_delay_ms", "multiplier", "max_delay_ms"];
        let others = if a_list { &others[..] } else { &others[1..] };
        for field in others.iter().filter(|_| a_list || a_factor) {
            if object.raw(field).is_some() {
                let named = if a_list { "retry_delays" } else { "wait_factor" };
                object.error(field, format!("nothing beside `{named}`"), "it");
            }
        }
        if a_list {
            let schedule = schedule(object);
            return Self {
                default_retries: schedule.retries(),
                most_retries: schedule.retries(),
                backoff: Backoff::Schedule(schedule),
                default_jitter: Jitter::Additive { fraction: 0.1 },
            };
        }
        let (backoff, default_jitter) = if a_factor {
            let f = object.optional("wait_factor", "an integer from 10 to 200", integer(10..=200));
            let factor = WaitFactor::new(f.unwrap_or(100)).expect("the range is a factor's");
            (Backoff::WaitFactor(factor), Jitter::WholeSeconds { most: 59 })
        } else {
            (Backoff::Exponential(exponential(object)), Jitter::Full)
        };
        Self { backoff, default_retries: 5, most_retries: u32::MAX, default_jitter }
    }
}

fn schedule(object: &mut Object<'_>) -> Schedule {
    let a_delay = "seconds from 0 to 31536000 (a year)";
    let delays = object.list("retry_delays", a_delay, Schedule::MOST, |raw| {
        Duration::try_from_secs_f64(shape::number(raw)?).ok().filter(|delay| *delay <= MAX_DELAY)
    });
    if delays.as_ref().is_some_and(Vec::is_empty) {
        object.error("retry_delays", "at least one delay", "an empty array");
    }
    let schedule = delays.and_then(Schedule::new).or_else(|| Schedule::new(vec![Duration::ZERO]));
    schedule.expect("one delay is a schedule")
}

fn exponential(object: &mut Object<'_>) -> Exponential {
    let mut delay = |name: &str| {
        let a_delay = "milliseconds from 0 to 31536000000 (a year)";
        object.optional(name, a_delay, integer(0..=MAX_DELAY_MS)).map(Duration::from_millis)
    };
    let base_delay = delay("base_delay_ms").unwrap_or(Duration::from_secs(2));
    let max_delay = delay("max_delay_ms").unwrap_or(Duration::from_secs(120));
    let multiplier = object.optional("multiplier", "a number from 1 to 1000", number_in(1.0..=1000.0));
    Exponential { base_delay, multiplier: multiplier.unwrap_or(2.0), max_delay }
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
    let (name, value) = shape::sole_field(raw.get())?;
    match name.as_ref() {
        "additive" => number_in(0.0..=10.0)(value).map(|fraction| Jitter::Additive { fraction }),
        "bounded_ms" => integer(0..=MAX_DELAY_MS)(value).map(|ms| Jitter::Bounded { ms }),
        "whole_seconds" => integer(0..=3600)(value).map(|most| Jitter::WholeSeconds { most }),
        _ => None,
    }
}

fn statuses(object: &mut Object<'_>, name: &str) -> Vec<u16> {
    let a_status = "an HTTP status from 400 to 599 without 410";
    let read =
        |raw: &RawValue| integer(400..=599)(raw).filter(|status| !NOT_OVERRIDABLE_WEBHOOK.contains(status));
    object.list(name, a_status, MAX_STATUSES, read).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::*;
    use crate::fixtures::texts;

    fn retries(text: &str) -> Retries {
        policy(text, "p", "").expect(text).retries.expect("enabled")
    }

    #[test]
    fn all_errors_come_at_once_each_naming_its_field() {
        let text = r#"{"base_delay_ms": -1, "multiplier": 0.5, "max_retries": 101, "jitter": "some",
            "retryable": [410], "retry_after_smear": 2, "dlq_retention_days": 0, "retries": 3}"#;
        let errors = policy(text, "inline", "retry").expect_err("everything is wrong");
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        let named = "max_retries base_delay_ms multiplier jitter retryable[0] retry_after_smear dlq_retention_days retries";
        assert_eq!(paths, named.split(' ').map(|name| format!("retry.{name}")).collect::<Vec<_>>());
    }

    #[test]
    fn errors_quote_the_values_of_a_document_and_never_of_a_message() {
        let a_status = "expected an HTTP status from 400 to 599 without 410";
        let a_delay = "expected seconds from 0 to 31536000 (a year)";
        let document = |text| texts(&document(text, "p").expect_err(text)).join("\n");
        assert_eq!(
            document(r#"{"wait_factor": 9.5, "max_retries": 101, "retryable": [410, 503, "x"]}"#),
            format!(
                "max_retries: expected an integer from 0 to 100, found an integer: 101\n\
                 wait_factor: expected an integer from 10 to 200, found a number: 9.5\n\
                 retryable[0]: {a_status}, found an integer: 410\n\
                 retryable[2]: {a_status}, found a string: \"x\""
            )
        );
        assert_eq!(
            document(r#"{"retry_delays": [60, -1, 31536001, "soon"]}"#),
            format!(
                "retry_delays[1]: {a_delay}, found an integer: -1\n\
                 retry_delays[2]: {a_delay}, found an integer: 31536001\n\
                 retry_delays[3]: {a_delay}, found a string: \"soon\""
            )
        );
        for (text, expected) in [
            (
                r#"{"retryable":[400],"permanent":[400]}"#,
                "permanent: expected no status that is in `retryable` too, found 400",
            ),
            (r#"{"retry_delays": []}"#, "retry_delays: expected at least one delay, found an empty array"),
            (
                r#"{"retry_delays": [1, 2], "max_retries": 3}"#,
                "max_retries: expected at most 2, the number of `retry_delays`, found 3",
            ),
            (
                r#"{"retry_delays": [1], "wait_factor": 100, "multiplier": 2}"#,
                "wait_factor: expected nothing beside `retry_delays`, found it\n\
                 multiplier: expected nothing beside `retry_delays`, found it",
            ),
            (
                r#"{"wait_factor": 100, "base_delay_ms": 2}"#,
                "base_delay_ms: expected nothing beside `wait_factor`, found it",
            ),
        ] {
            assert_eq!(document(text), expected);
        }
        for (text, unquoted) in [
            (
                r#"{"max_retries": 101}"#,
                "retry.max_retries: expected an integer from 0 to 100, found an integer",
            ),
            (
                r#"{"retry_delays": [1], "max_retries": 77}"#,
                "retry.max_retries: expected at most 1, the number of `retry_delays`, found an integer",
            ),
            (
                r#"{"retryable":[499],"permanent":[499]}"#,
                "retry.permanent: expected no status that is in `retryable` too, found an integer",
            ),
        ] {
            assert_eq!(texts(&policy(text, "inline", "retry").expect_err("invalid")), [unquoted]);
        }
    }

    /// On web push, lists do not apply to 401, 404 and 413 (see [`crate::verdict`]).
    #[test]
    fn every_status_from_400_to_599_may_be_listed_except_410() {
        for list in ["retryable", "permanent"] {
            for status in 0..=1000u16 {
                let read = policy(&format!(r#"{{"{list}":[{status}]}}"#), "p", "");
                let listed =
                    read.is_ok_and(|policy| [policy.retryable, policy.permanent].contains(&vec![status]));
                assert_eq!(listed, (400..=599).contains(&status) && status != 410, "{list}: {status}");
            }
        }
    }

    #[test]
    fn every_jitter_is_read() {
        for (text, jitter) in [
            (r#""full""#, Jitter::Full),
            (r#""equal""#, Jitter::Equal),
            (r#""none""#, Jitter::None),
            (r#"{"additive":0.3}"#, Jitter::Additive { fraction: 0.3 }),
            (r#"{"bounded_ms":1000}"#, Jitter::Bounded { ms: 1000 }),
            (r#"{"whole_seconds":59}"#, Jitter::WholeSeconds { most: 59 }),
        ] {
            assert_eq!(retries(&format!(r#"{{"jitter":{text}}}"#)).jitter, jitter, "{text}");
        }
    }

    #[test]
    fn delays_of_a_list_may_decrease_and_are_at_most_a_year() {
        let falling = retries(r#"{"retry_delays": [600, 0, 0.25, 31536000]}"#);
        let secs: Vec<f64> = (1..=4).map(|retry| falling.backoff.nominal(retry).as_secs_f64()).collect();
        assert_eq!((falling.max_retries, secs), (4, vec![600.0, 0.0, 0.25, 31_536_000.0]));
    }

    #[test]
    fn defaults_are_those_of_the_preset_or_of_the_family() {
        let default = catalogue::presets().get("web-push").expect("a preset");
        let empty = policy("{}", "web-push", "").expect("valid");
        assert_eq!(Policy { description: default.description.clone(), ..empty }, **default);
        let list = retries(r#"{"retry_delays": [5]}"#);
        assert_eq!((list.max_retries, list.jitter), (1, Jitter::Additive { fraction: 0.1 }));
        let factor = retries(r#"{"wait_factor": 10, "max_retries": 0}"#);
        assert_eq!((factor.max_retries, factor.jitter), (0, Jitter::WholeSeconds { most: 59 }));
    }
}
