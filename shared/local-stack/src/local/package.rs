//! What `sam package` does, for this template: local paths become addresses in S3, and the caller's settings go in.
//!
//! It edits lines instead of parsing YAML, because the deployed text has to be the file's own, tags, order and all. Each
//! edit is asked for by name and fails if the template has no such line, so that a change of the template's
//! shape is an error here and not a stack that lacks something.

use std::collections::BTreeMap;

use super::{LocalError, bootstraps::FUNCTIONS};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Template(pub(super) String);

impl Template {
    /// Points the code of every function, and the state machine's definition, into `s3://folder/…`, under the names
    /// that [`code_key`] and [`DEFINITION_KEY`] give. The folder begins with its bucket.
    pub(super) fn with_artifacts_in(mut self, folder: &str) -> Result<Self, LocalError> {
        for function in FUNCTIONS {
            self = self.with_line(
                &format!("CodeUri: ../functions/{function}"),
                &format!("CodeUri: s3://{folder}/{}", code_key(function)),
            )?;
        }
        self.with_line(
            &format!("DefinitionUri: {DEFINITION_KEY}"),
            &format!("DefinitionUri: s3://{folder}/{DEFINITION_KEY}"),
        )
    }

    /// Sets environment variables of all functions, over those that the template gives them.
    pub(super) fn with_environment(self, environment: &BTreeMap<String, String>) -> Result<Self, LocalError> {
        const HEADING: &str = "      Variables:\n";
        let (before, rest) = self
            .0
            .split_once(HEADING)
            .ok_or_else(|| LocalError::Template("no environment variables in Globals".to_owned()))?;
        let end = rest
            .split_inclusive('\n')
            .take_while(|line| line.starts_with("        "))
            .map(str::len)
            .sum::<usize>();
        let (variables, after) = rest.split_at(end);
        let mut text = format!("{before}{HEADING}");
        for line in variables.split_inclusive('\n') {
            let name = line.trim_start().split(':').next().unwrap_or_default();
            if !environment.contains_key(name) {
                text.push_str(line);
            }
        }
        for (name, value) in environment {
            // A JSON string is a YAML string.
            text.push_str(&format!("        {name}: {}\n", serde_json::Value::from(value.as_str())));
        }
        text.push_str(after);
        Ok(Self(text))
    }

    /// Replaces the one line that reads `from`, whatever its indentation.
    pub(super) fn with_line(self, from: &str, to: &str) -> Result<Self, LocalError> {
        let found = self.0.lines().filter(|line| line.trim_start() == from).count();
        if found != 1 {
            return Err(LocalError::Template(format!("expected one line {from:?}, found {found}")));
        }
        let lines = self
            .0
            .split_inclusive('\n')
            .map(|line| if line.trim() == from { line.replace(from, to) } else { line.to_owned() });
        Ok(Self(lines.collect()))
    }

    /// The entries of the template's sections (two spaces deep), and the text between them, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = &str> {
        let mut rest = self.0.as_str();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let end = rest
                .match_indices('\n')
                .map(|(at, _)| at + 1)
                .find(|at| opens_entry(&rest[*at..]))
                .unwrap_or(rest.len());
            let (entry, after) = rest.split_at(end);
            rest = after;
            Some(entry)
        })
    }
}

/// Where the definition of the state machine lies, beside the template and in the bucket.
pub(super) const DEFINITION_KEY: &str = "wait.asl.json";

pub(super) fn code_key(function: &str) -> String {
    format!("{function}.zip")
}

/// Whether `text` begins with a line `  Name:`, or with one that is not indented.
fn opens_entry(text: &str) -> bool {
    let line = text.lines().next().unwrap_or_default();
    let deep = line.len() - line.trim_start().len();
    !line.trim().is_empty() && (deep == 0 || (deep == 2 && !line.trim_start().starts_with('#')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = include_str!("../../../../infra/template.yaml");

    #[test]
    fn every_local_path_of_the_template_is_replaced() {
        let packaged =
            Template(TEMPLATE.to_owned()).with_artifacts_in("artifacts").expect("the template's lines");
        assert_eq!(packaged.0.matches("s3://artifacts/").count(), FUNCTIONS.len() + 1);
        assert!(!packaged.0.contains("Uri: ../"));
    }

    #[test]
    fn entries_put_together_are_the_template() {
        let template = Template(TEMPLATE.to_owned());
        assert_eq!(template.entries().collect::<String>(), TEMPLATE);
        assert!(
            template.entries().any(|entry| entry.starts_with("  IngestQueue:\n    Type: AWS::SQS::Queue"))
        );
    }

    #[test]
    fn given_variables_replace_and_add_to_those_of_the_template() {
        let given = [("WAIT_SHARDS", "1"), ("NEW", "a \"b\"")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let changed =
            Template(TEMPLATE.to_owned()).with_environment(&given.into()).expect("the template's block").0;
        assert!(changed.contains("        WAIT_SHARDS: \"1\"\n"));
        assert!(changed.contains("        NEW: \"a \\\"b\\\"\"\n"));
        assert!(!changed.contains("WAIT_SHARDS: !Ref"));
        assert_eq!(changed.lines().count(), TEMPLATE.lines().count() + 1);
    }

    #[test]
    fn a_template_without_the_expected_line_is_refused() {
        assert!(Template("Resources:\n".to_owned()).with_artifacts_in("artifacts").is_err());
    }
}
