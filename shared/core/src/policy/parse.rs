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
//! select one of the three, and fields of two of them are an error. `jitter` is `"full"`, `"equal"`, `"none"`,
//! `{"additive": FRACTION}`, `{"bounded_ms": MS}` or `{"whole_seconds": MOST}`. The defaults are those of the preset
//! `web-push`, except that a list has additive jitter of 0.1 and as many retries as delays, and a wait factor jitter of 0 to 59 whole
//! seconds.

use std::time::Duration;

use serde_json::value::RawValue;

use super::{Backoff, Exponential, Jitter, MAX_DELAY, Policy, Retries, Schedule, WaitFactor};
use crate::dead_letter::DEFAULT_RETENTION_DAYS;
use crate::shape::{self, Errors, Object, ShapeError, integer, number_in};
use crate::verdict::NOT_OVERRIDABLE_WEBHOOK;

/// The most retries that a policy may ask for.
pub const MAX_RETRIES: u64 = 100;

const MAX_DELAY_MS: u64 = MAX_DELAY.as_millis() as u64;

/// The longest description, in bytes.
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

fn read(text: &str, name: &str, path: &str, errors: &Errors) -> Option<Policy> {
    let mut object = Object::parse(text, path, errors)?;
    let (a_boolean, a_share) = ("true or false", "a number from 0 to 1");

    let a_description = "a string of at most 200 bytes";
    let description = object.optional("description", a_description, shape::text_of(0..=MAX_DESCRIPTION));
    let enabled = object.optional("retries_enabled", a_boolean, shape::boolean).unwrap_or(true);
    let max_retries = object.optional("max_retries", "an integer from 0 to 100", integer(0..=MAX_RETRIES));
    let family = Family::read(&mut object, errors);
    let jitter = object.optional(
        "jitter",
        r#""full", "equal", "none", {"additive": 0 to 10}, {"bounded_ms": 0 to 31536000000} or {"whole_seconds": 0 to 3600}"#,
        read_jitter,
    );
    let retries = family.retries(max_retries, jitter, &object, errors);

    let retryable = statuses(&mut object, "retryable");
    let permanent = statuses(&mut object, "permanent");
    for both in retryable.iter().filter(|status| permanent.contains(status)) {
        errors.add(&object.path_of("permanent"), "no status that is in `retryable` too", both.to_string());
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

/// The family of delays, by the fields that are present; `None` where they were invalid.
enum Family {
    Exponential(Exponential),
    Schedule(Option<Schedule>),
    WaitFactor(Option<WaitFactor>),
}

impl Family {
    fn read(object: &mut Object<'_>, errors: &Errors) -> Self {
        const EXPONENTIAL: [&str; 3] = ["base_delay_ms", "multiplier", "max_delay_ms"];
        let a_list = object.raw("retry_delays").is_some();
        let a_factor = object.raw("wait_factor").is_some();
        let others = [(a_list && a_factor).then_some("wait_factor")].into_iter().flatten();
        let others = others.chain(EXPONENTIAL.into_iter().filter(|_| a_list || a_factor));
        let named = if a_list { "retry_delays" } else { "wait_factor" };
        for field in others {
            if object.raw(field).is_some() {
                errors.add(&object.path_of(field), format!("nothing beside `{named}`"), "it");
            }
        }
        if a_list {
            let a_delay = "seconds from 0 to 31536000 (a year)";
            let delays = object.list("retry_delays", a_delay, Schedule::MOST, |raw| {
                shape::number(raw)
                    .and_then(|secs| Duration::try_from_secs_f64(secs).ok())
                    .filter(|delay| *delay <= MAX_DELAY)
            });
            if delays.as_ref().is_some_and(Vec::is_empty) {
                errors.add(&object.path_of("retry_delays"), "at least one delay", "an empty array");
            }
            return Self::Schedule(delays.and_then(Schedule::new));
        }
        if a_factor {
            let f = object.optional("wait_factor", "an integer from 10 to 200", integer(10..=200));
            return Self::WaitFactor(f.and_then(WaitFactor::new));
        }
        Self::Exponential(exponential(object))
    }

    fn retries(
        self,
        max_retries: Option<u32>,
        jitter: Option<Jitter>,
        object: &Object<'_>,
        errors: &Errors,
    ) -> Retries {
        match self {
            Self::Exponential(it) => Retries {
                max_retries: max_retries.unwrap_or(5),
                backoff: Backoff::Exponential(it),
                jitter: jitter.unwrap_or(Jitter::Full),
            },
            Self::Schedule(it) => {
                // An invalid list is an error already: any value will do.
                let it = it.or_else(|| Schedule::new(vec![Duration::ZERO])).expect("one delay is a schedule");
                let delays = it.retries();
                if let Some(more) = max_retries.filter(|retries| *retries > delays) {
                    let expected = format!("at most {delays}, the number of `retry_delays`");
                    errors.add(&object.path_of("max_retries"), expected, more.to_string());
                }
                Retries {
                    max_retries: max_retries.unwrap_or(delays),
                    backoff: Backoff::Schedule(it),
                    jitter: jitter.unwrap_or(Jitter::Additive { fraction: 0.1 }),
                }
            }
            Self::WaitFactor(it) => Retries {
                max_retries: max_retries.unwrap_or(5),
                backoff: Backoff::WaitFactor(
                    it.or_else(|| WaitFactor::new(100)).expect("100 is in the range"),
                ),
                jitter: jitter.unwrap_or(Jitter::WholeSeconds { most: 59 }),
            },
        }
    }
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

    #[test]
    fn all_errors_come_at_once_each_naming_its_field() {
        let text = r#"{"base_delay_ms": -1, "multiplier": 0.5, "max_retries": 101, "jitter": "some",
            "retryable": [410], "retry_after_smear": 2, "dlq_retention_days": 0, "retries": 3}"#;
        let errors = policy(text, "inline", "retry").expect_err("everything is wrong");
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "retry.max_retries",
                "retry.base_delay_ms",
                "retry.multiplier",
                "retry.jitter",
                "retry.retryable[0]",
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
            let read = policy(&format!(r#"{{"jitter":{text}}}"#), "p", "").expect("valid");
            assert_eq!(read.retries.expect("enabled").jitter, jitter, "{text}");
        }
    }

    fn errors_of(text: &str) -> Vec<String> {
        texts(&document(text, "p").expect_err("invalid"))
    }

    #[test]
    fn errors_quote_the_values_of_a_document_and_never_of_a_message() {
        assert_eq!(
            errors_of(r#"{"wait_factor": 9.5, "max_retries": 101, "retryable": [410, 503, "x"]}"#),
            [
                "max_retries: expected an integer from 0 to 100, found an integer: 101",
                "wait_factor: expected an integer from 10 to 200, found a number: 9.5",
                "retryable[0]: expected an HTTP status from 400 to 599 without 410, found an integer: 410",
                r#"retryable[2]: expected an HTTP status from 400 to 599 without 410, found a string: "x""#,
            ]
        );
        let errors = policy(r#"{"max_retries": 101}"#, "inline", "retry").expect_err("invalid");
        assert_eq!(
            errors[0].to_string(),
            "retry.max_retries: expected an integer from 0 to 100, found an integer"
        );
    }

    #[test]
    fn delays_of_a_list_may_decrease_and_are_at_most_a_year() {
        let falling = policy(r#"{"retry_delays": [600, 0, 0.25, 31536000]}"#, "p", "").expect("valid");
        let retries = falling.retries.expect("enabled");
        let secs: Vec<f64> = (1..=4).map(|retry| retries.backoff.nominal(retry).as_secs_f64()).collect();
        assert_eq!((retries.max_retries, secs), (4, vec![600.0, 0.0, 0.25, 31_536_000.0]));
        assert_eq!(
            errors_of(r#"{"retry_delays": [60, -1, 31536001, "soon"]}"#),
            [
                "retry_delays[1]: expected seconds from 0 to 31536000 (a year), found an integer: -1",
                "retry_delays[2]: expected seconds from 0 to 31536000 (a year), found an integer: 31536001",
                r#"retry_delays[3]: expected seconds from 0 to 31536000 (a year), found a string: "soon""#,
            ]
        );
        assert_eq!(
            errors_of(r#"{"retry_delays": []}"#),
            ["retry_delays: expected at least one delay, found an empty array"]
        );
        assert_eq!(
            errors_of(r#"{"retry_delays": [1, 2], "max_retries": 3}"#),
            ["max_retries: expected at most 2, the number of `retry_delays`, found 3"]
        );
    }

    #[test]
    fn two_families_in_one_policy_are_an_error() {
        assert_eq!(
            errors_of(r#"{"retry_delays": [1], "wait_factor": 100, "multiplier": 2}"#),
            [
                "wait_factor: expected nothing beside `retry_delays`, found it",
                "multiplier: expected nothing beside `retry_delays`, found it",
            ]
        );
        assert_eq!(
            errors_of(r#"{"wait_factor": 100, "base_delay_ms": 2}"#),
            ["base_delay_ms: expected nothing beside `wait_factor`, found it"]
        );
    }

    #[test]
    fn defaults_are_those_of_the_preset_or_of_the_family() {
        let default = catalogue::presets().get("web-push").expect("a preset");
        let empty = policy("{}", "web-push", "").expect("valid");
        assert_eq!(Policy { description: default.description.clone(), ..empty }, **default);
        let retries = |text| policy(text, "p", "").expect("valid").retries.expect("enabled");
        let list = retries(r#"{"retry_delays": [5]}"#);
        assert_eq!((list.max_retries, list.jitter), (1, Jitter::Additive { fraction: 0.1 }));
        let factor = retries(r#"{"wait_factor": 10, "max_retries": 0}"#);
        assert_eq!((factor.max_retries, factor.jitter), (0, Jitter::WholeSeconds { most: 59 }));
    }
}
