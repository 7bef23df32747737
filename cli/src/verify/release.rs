//! What this release's template makes of a stack: the template that is compiled in, with the stack's own parameters and names.

use redial_console::template::{self, TemplateError};
use serde_json::{Map, Value};

use super::expression::Scope;
use crate::doctor::{Resource, Stack};

const TEMPLATE: &str = include_str!("../../../infra/template.yaml");
const DEFINITION: &str = include_str!("../../../infra/wait.asl.json");

/// The outputs that name a function, by the function. A local stack hosts some functions beside CloudFormation.
const FUNCTIONS: [&str; 3] = ["DispatchFunction", "CleanupFunction", "IngestFunction"];

pub(super) struct Release {
    template: Value,
    scope: Scope,
}

/// A resource that the template makes for this stack.
pub(super) struct Part<'a> {
    /// In the template.
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    pub(super) properties: &'a Value,
    /// `None` if the stack does not have it.
    pub(super) deployed_as: Option<&'a str>,
}

impl Release {
    pub(super) fn of(stack: &Stack, resources: &[Resource]) -> Result<Self, TemplateError> {
        let template = template::read(TEMPLATE)?;
        let members = |section: &str| template[section].as_object().cloned().unwrap_or_default();
        let of_template = members("Parameters").into_iter().filter_map(|(name, parameter)| {
            super::expression::scalar(&parameter["Default"]).map(|default| (name, default))
        });
        let parameters = of_template.chain(stack.parameters.clone()).collect();
        let resource = |it: &Resource| (it.name.clone(), (it.kind.clone(), it.deployed_as.clone()));
        let target = &stack.target;
        let functions = FUNCTIONS.into_iter().zip([&target.dispatch, &target.cleanup, &target.ingest]);
        let function = |(name, deployed_as): (&str, &String)| {
            (name.to_owned(), ("AWS::Lambda::Function".to_owned(), deployed_as.clone()))
        };
        let scope = Scope {
            stack_id: stack.id.clone().unwrap_or_default(),
            stack_name: stack.name.clone(),
            parameters,
            conditions: members("Conditions"),
            resources: resources.iter().map(resource).chain(functions.map(function)).collect(),
        };
        Ok(Self { template, scope })
    }

    /// What the template makes for this stack; a condition that cannot be evaluated counts as one that holds.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let resources = self.template["Resources"].as_object();
        resources.into_iter().flatten().filter(|(_, resource)| self.is_made(resource)).map(
            |(name, resource)| Part {
                name,
                kind: resource["Type"].as_str().unwrap_or_default(),
                properties: &resource["Properties"],
                deployed_as: self.deployed_as(name),
            },
        )
    }

    pub(super) fn parts_of(&self, kind: &str) -> impl Iterator<Item = Part<'_>> {
        self.parts().filter(move |part| part.kind == kind)
    }

    fn is_made(&self, resource: &Value) -> bool {
        let condition = resource["Condition"].as_str();
        condition.is_none_or(|condition| self.scope.holds(condition).unwrap_or(true))
    }

    pub(super) fn deployed_as(&self, name: &str) -> Option<&str> {
        self.scope.resources.get(name).map(|(_, deployed_as)| deployed_as.as_str())
    }

    /// The value of a property, that of all functions included; null if the template does not set it, `None` if its value
    /// cannot be known.
    pub(super) fn property(&self, part: &Part<'_>, property: &str) -> Option<Value> {
        let own = &part.properties[property];
        let is_function = part.kind == "AWS::Serverless::Function";
        let of_all = &self.template["Globals"]["Function"][property];
        if is_function && property == "Environment" {
            // The one property that a function has besides what all have.
            let mut both = of_all.clone();
            let own = own["Variables"].as_object().cloned().unwrap_or_default();
            both["Variables"].as_object_mut()?.extend(own);
            return self.resolve(&both);
        }
        self.resolve(if own.is_null() && is_function { of_all } else { own })
    }

    pub(super) fn resolve(&self, value: &Value) -> Option<Value> {
        self.scope.resolve(value)
    }

    /// The definition of the state machine, with what the template substitutes in it.
    pub(super) fn definition(&self, part: &Part<'_>) -> Option<Value> {
        let substitutions: Map<String, Value> =
            self.property(part, "DefinitionSubstitutions")?.as_object().cloned().unwrap_or_default();
        let definition = substitutions.iter().fold(DEFINITION.to_owned(), |text, (name, value)| {
            text.replace(&format!("${{{name}}}"), value.as_str().unwrap_or_default())
        });
        serde_json::from_str(&definition).ok()
    }
}
