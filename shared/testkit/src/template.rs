//! `infra/template.yaml`, parsed. CloudFormation's short forms stay as tags: `!Ref Name` is [`Value::Tagged`] with the tag `Ref`;
//! `as_str` and indexing look through a tag.

use std::ops::Deref;

pub use yaml_serde::Value;

const TEXT: &str = include_str!("../../../infra/template.yaml");

/// The whole document: `template["Outputs"]["ControlTableName"]["Value"]`.
#[derive(Clone, Debug)]
pub struct Template(Value);

impl Deref for Template {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl Template {
    #[must_use]
    pub fn read() -> Self {
        Self(yaml_serde::from_str(TEXT).expect("invariant: the template is YAML"))
    }

    /// Name and properties of every resource of a type, such as `AWS::SQS::Queue`, in their order.
    pub fn resources(&self, of: &str) -> impl Iterator<Item = (&str, &Value)> {
        let all = self.0["Resources"].as_mapping().into_iter().flatten();
        all.filter(move |(_, resource)| resource["Type"] == of)
            .filter_map(|(name, resource)| Some((name.as_str()?, &resource["Properties"])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_stay_as_tags_and_can_be_looked_through() {
        let template = Template::read();
        let value = &template["Outputs"]["ControlTableName"]["Value"];
        let Value::Tagged(tagged) = value else { panic!("{value:?}") };
        assert!(tagged.tag == "Ref" && value.as_str() == Some("ControlTable"), "{value:?}");
        assert!(template.resources("AWS::DynamoDB::Table").any(|(name, _)| name == "ControlTable"));
    }
}
