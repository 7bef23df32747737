//! A CloudFormation template as JSON, in which the short forms of intrinsic functions are their long ones: `!Ref A` is
//! `{"Ref": "A"}`.

use serde_json::{Map, Value};
use yaml_serde::Value as Yaml;

/// Why a text is no template.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(String);

/// # Errors
/// If the text is no YAML, or a name in it is no text.
pub fn read(text: &str) -> Result<Value, TemplateError> {
    json(yaml_serde::from_str(text).map_err(|error| TemplateError(error.to_string()))?)
}

fn json(yaml: Yaml) -> Result<Value, TemplateError> {
    Ok(match yaml {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => value.into(),
        Yaml::Number(number) => serde_json::to_value(number).map_err(|error| unreadable(&error))?,
        Yaml::String(text) => text.into(),
        Yaml::Sequence(items) => items.into_iter().map(json).collect::<Result<_, _>>()?,
        Yaml::Mapping(entries) => {
            let mut object = Map::new();
            for (name, value) in entries {
                let name = match json(name)? {
                    Value::String(name) => name,
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                        return Err(TemplateError("a name is no text".to_owned()));
                    }
                };
                object.insert(name, json(value)?);
            }
            object.into()
        }
        Yaml::Tagged(tagged) => {
            let tag = tagged.tag.to_string();
            let argument = json(tagged.value)?;
            long_form(tag.trim_start_matches('!'), argument)
        }
    })
}

fn unreadable(error: &serde_json::Error) -> TemplateError {
    TemplateError(error.to_string())
}

fn long_form(tag: &str, argument: Value) -> Value {
    let (name, argument) = match (tag, argument) {
        ("Ref" | "Condition", argument) => (tag.to_owned(), argument),
        ("GetAtt", Value::String(path)) => {
            let (resource, attribute) = path.split_once('.').unwrap_or((&path, ""));
            ("Fn::GetAtt".to_owned(), Value::from([resource, attribute].map(Value::from).to_vec()))
        }
        (_, argument) => (format!("Fn::{tag}"), argument),
    };
    Value::Object(Map::from_iter([(name, argument)]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_forms_become_long_ones_also_within_one_another() {
        let text = "A: !If [B, !GetAtt Q.Arn, !Sub \"${AWS::StackName}-x\"]\nC: !Not [!Condition D]\nE: \"2012-10-17\"\nF: on\nG: [5, !Ref H]\n";
        assert_eq!(
            read(text).expect("YAML"),
            json!({
                "A": {"Fn::If": ["B", {"Fn::GetAtt": ["Q", "Arn"]}, {"Fn::Sub": "${AWS::StackName}-x"}]},
                "C": {"Fn::Not": [{"Condition": "D"}]},
                "E": "2012-10-17",
                "F": "on",
                "G": [5, {"Ref": "H"}],
            })
        );
    }

    #[test]
    fn a_text_that_is_no_yaml_is_an_error() {
        assert!(read("a: [").is_err());
    }
}
