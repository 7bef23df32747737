//! The template's parameters, and whether values for them are right: said before anything is built or started.
//!
//! CloudFormation checks the same, and says so after ten seconds of work.

use std::collections::BTreeMap;

use redial_core::slip::meant;

use super::{LocalError, package::Template};

/// What the template declares of a parameter.
#[derive(Debug, Default)]
struct Declared<'t> {
    name: &'t str,
    allowed: Vec<&'t str>,
    pattern: Option<&'t str>,
    range: [Option<f64>; 2],
    /// What to say of a value that is not right.
    constraint: Option<&'t str>,
    is_secret: bool,
}

/// Refuses names that the template does not have, and values that it does not take.
pub(super) fn check(template: &Template, given: &BTreeMap<String, String>) -> Result<(), LocalError> {
    let declared = declared(&template.0);
    let wrong: Vec<String> = given
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}: {}", wrong(&declared, name, value)?)))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(LocalError::Parameters(wrong)) }
}

/// What is wrong with this parameter, if anything is.
fn wrong(declared: &[Declared<'_>], name: &str, value: &str) -> Option<String> {
    let Some(parameter) = declared.iter().find(|it| it.name == name) else {
        let near = meant(name, declared.iter().map(|it| it.name));
        let hint = near.map(|near| format!(": did you mean {near}?")).unwrap_or_default();
        return Some(format!("infra/template.yaml has no such parameter{hint}"));
    };
    let expected = parameter.expected_instead_of(value)?;
    let found = if parameter.is_secret { "another text" } else { value };
    Some(format!("expected {expected}, found {found}"))
}

impl Declared<'_> {
    /// `None` if the value is right.
    fn expected_instead_of(&self, value: &str) -> Option<String> {
        let Self { allowed, pattern, range: [least, most], constraint, .. } = self;
        if !allowed.is_empty() {
            return (!allowed.contains(&value)).then(|| format!("one of {}", allowed.join(", ")));
        }
        if least.is_some() || most.is_some() {
            let number = value.parse::<f64>().ok();
            let is_within = number.is_some_and(|it| {
                least.is_none_or(|least| it >= least) && most.is_none_or(|most| it <= most)
            });
            let bound = |of: &Option<f64>| of.map_or("any".to_owned(), |it| it.to_string());
            return (!is_within).then(|| format!("a number from {} to {}", bound(least), bound(most)));
        }
        let pattern = (*pattern)?;
        let is_right = regex_lite::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(value));
        (!is_right).then(|| constraint.map_or_else(|| format!("a text of the form {pattern}"), str::to_owned))
    }
}

/// The section `Parameters` of the template, which has one indentation throughout.
fn declared(template: &str) -> Vec<Declared<'_>> {
    let section = template.lines().skip_while(|line| *line != "Parameters:").skip(1);
    let section =
        section.take_while(|line| line.is_empty() || line.starts_with(' ') || line.starts_with('#'));
    let mut declared: Vec<Declared<'_>> = Vec::new();
    for line in section {
        let text = line.trim_start();
        if let (2, Some(name)) = (line.len() - text.len(), text.strip_suffix(':')) {
            declared.push(Declared { name, ..Declared::default() });
        }
        let (Some(parameter), Some((property, value))) = (declared.last_mut(), text.split_once(": ")) else {
            continue;
        };
        match property {
            "AllowedValues" => {
                let values = value.trim_matches(['[', ']']).split(", ");
                parameter.allowed = values.map(|it| it.trim_matches('"')).collect();
            }
            "AllowedPattern" => parameter.pattern = Some(value),
            "MinValue" => parameter.range[0] = value.parse().ok(),
            "MaxValue" => parameter.range[1] = value.parse().ok(),
            "ConstraintDescription" => parameter.constraint = Some(value),
            "NoEcho" => parameter.is_secret = value == "true",
            _ => {}
        }
    }
    declared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Template {
        Template(include_str!("../../../../infra/template.yaml").to_owned())
    }

    fn said(name: &str, value: &str) -> String {
        let given = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        check(&template(), &given).map_or_else(|error| error.to_string(), |()| "right".to_owned())
    }

    #[test]
    fn a_wrong_parameter_is_named_with_what_would_do() {
        for (name, value, expected) in [
            (
                "WaitShard",
                "4",
                "WaitShard: infra/template.yaml has no such parameter: did you mean WaitShards?",
            ),
            ("Colour", "red", "Colour: infra/template.yaml has no such parameter"),
            ("WaitShards", "0", "WaitShards: expected a number from 1 to 999, found 0"),
            ("WaitShards", "many", "WaitShards: expected a number from 1 to 999, found many"),
            ("LogLevel", "loud", "LogLevel: expected one of error, warn, info, debug, found loud"),
            ("VapidSubject", "me", "VapidSubject: expected a mailto address or an https address, found me"),
        ] {
            assert!(said(name, value).ends_with(expected), "{}", said(name, value));
        }
        for (name, value) in [
            ("WaitShards", "999"),
            ("LogLevel", "debug"),
            ("Breaker", "off"),
            ("EgressAllow", "https://localhost:8443,https://localhost:8444"),
            ("LogRetentionDays", "365"),
            ("VapidSubject", "mailto:ops@shop.example"),
        ] {
            assert_eq!(said(name, value), "right", "{name}");
        }
    }

    #[test]
    fn every_parameter_of_the_template_is_read_with_its_default() {
        let template = template();
        let all = declared(&template.0);
        assert!(all.len() > 35, "{}", all.len());
        let patterns = all.iter().filter_map(|it| it.pattern);
        assert!(patterns.clone().count() > 15);
        for pattern in patterns {
            assert!(regex_lite::Regex::new(pattern).is_ok(), "{pattern}");
        }
        assert!(all.iter().any(|it| it.is_secret), "the VAPID key is not shown");
    }
}
