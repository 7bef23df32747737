//! Parts a template into what is deployed and what is hosted here.

use std::collections::BTreeSet;

use redial_console::template;
use serde_json::{Map, Value};

use super::{
    super::{LocalError, clients::REGION, package::Template},
    plan::Plan,
};

const ACCOUNT: &str = "000000000000";
/// What is a service's that calls functions, and leads nowhere without them. Roles, log groups and alarms are harmless and stay.
const LEFT_OUT: [&str; 3] = ["AWS::Serverless::Function", "AWS::Lambda::", "AWS::ApiGatewayV2::"];

/// The template, as JSON, of a stack of this name without its functions and what calls them, and the plan of hosting those.
pub(in super::super) fn split(template: &Template, stack: &str) -> Result<(Template, Plan), LocalError> {
    let mut document =
        template::read(&template.0).map_err(|error| LocalError::Template(error.to_string()))?;
    let resources = section(&mut document, "Resources")?;
    let is_left_out = |resource: &Value| {
        let kind = resource["Type"].as_str().unwrap_or_default();
        LEFT_OUT.iter().any(|left_out| kind.starts_with(left_out))
    };
    let mut left_out = Map::new();
    resources.retain(|name, resource| {
        let stays = !is_left_out(resource);
        if !stays {
            left_out.insert(name.clone(), resource.take());
        }
        stays
    });

    let names: BTreeSet<String> = left_out.keys().cloned().collect();
    let absent = Absent { stack, names: &names };
    let outputs = section(&mut document, "Outputs")?;
    // The API's address is of no resource of the stack then.
    outputs.remove("ApiUrl");
    absent.replace_in(&mut document);
    let mut left_out = Value::Object(left_out);
    absent.replace_in(&mut left_out);

    let globals = document["Globals"]["Function"].take();
    if let Some(document) = document.as_object_mut() {
        document.remove("Globals");
    }
    let functions = left_out.as_object().into_iter().flatten().map(|(name, resource)| {
        let name = absent.name_of(name);
        (name, resource)
    });
    let plan = Plan::of(functions, &globals)?;
    section(&mut document, "Outputs")?.extend(plan.outputs());
    Ok((Template(document.to_string()), plan))
}

fn section<'a>(document: &'a mut Value, name: &str) -> Result<&'a mut Map<String, Value>, LocalError> {
    document[name].as_object_mut().ok_or_else(|| LocalError::Template(format!("no section {name}")))
}

/// Resources that are not in the template any more, though others refer to them.
struct Absent<'a> {
    stack: &'a str,
    names: &'a BTreeSet<String>,
}

impl Absent<'_> {
    fn name_of(&self, resource: &str) -> String {
        format!("{}-{resource}", self.stack)
    }

    fn arn_of(&self, resource: &str) -> String {
        format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{}", self.name_of(resource))
    }

    /// Writes a name or an ARN in the place of each reference to one of them.
    fn replace_in(&self, value: &mut Value) {
        if let Some(text) = self.literal(value) {
            *value = text.into();
            return;
        }
        match value {
            Value::Object(object) => {
                if let Some(text) = object.get_mut("Fn::Sub") {
                    let text = if text.is_array() { &mut text[0] } else { text };
                    if let Some(substituted) = text.as_str().map(|text| self.substituted(text)) {
                        *text = substituted.into();
                    }
                }
                object.values_mut().for_each(|value| self.replace_in(value));
            }
            Value::Array(items) => items.iter_mut().for_each(|value| self.replace_in(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn literal(&self, value: &Value) -> Option<String> {
        let (name, argument) = value.as_object().filter(|object| object.len() == 1)?.iter().next()?;
        let is_absent =
            |resource: &Value| resource.as_str().filter(|name| self.names.contains(*name)).is_some();
        match name.as_str() {
            "Ref" if is_absent(argument) => Some(self.name_of(argument.as_str()?)),
            "Fn::GetAtt" if is_absent(&argument[0]) => {
                let resource = argument[0].as_str()?;
                Some(if argument[1] == "Arn" { self.arn_of(resource) } else { self.name_of(resource) })
            }
            _ => None,
        }
    }

    fn substituted(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, name| {
            let text = text.replace(&format!("${{{name}}}"), &self.name_of(name));
            text.replace(&format!("${{{name}.Arn}}"), &self.arn_of(name))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reference(name: &str) -> Value {
        json!({"Ref": name})
    }

    fn whole() -> (Value, Plan) {
        let template = Template(include_str!("../../../../../infra/template.yaml").to_owned());
        let (deployed, plan) = split(&template, "shop").expect("the template's shape");
        (serde_json::from_str(&deployed.0).expect("JSON"), plan)
    }

    #[test]
    fn functions_and_what_calls_them_are_left_out_and_everything_else_stays() {
        let (deployed, _) = whole();
        let resources = deployed["Resources"].as_object().expect("resources");
        let kinds: BTreeSet<&str> =
            resources.values().map(|resource| resource["Type"].as_str().expect("a type")).collect();
        assert!(
            !kinds.iter().any(|kind| LEFT_OUT.iter().any(|left_out| kind.starts_with(left_out))),
            "{kinds:?}"
        );
        for stays in
            ["IngestQueue", "ControlTable", "WaitStateMachine", "VapidSecret", "DispatchLogs", "IngestRole"]
        {
            assert!(resources.contains_key(stays), "{stays}");
        }
        assert!(deployed.get("Globals").is_none() && deployed["Outputs"].get("ApiUrl").is_none());
    }

    #[test]
    fn nothing_that_is_deployed_refers_to_what_is_left_out() {
        let (deployed, _) = whole();
        let text = deployed.to_string();
        for name in ["DispatchFunction", "CleanupFunction", "IngestFunction", "IngestUrl", "IngestHttpApi"] {
            for reference in
                [format!("{{\"Ref\":\"{name}\"}}"), format!("[\"{name}\","), format!("${{{name}")]
            {
                assert!(!text.contains(&reference), "{reference}");
            }
        }
        assert_eq!(deployed["Outputs"]["DispatchFunctionName"]["Value"], "shop-DispatchFunction");
    }

    #[test]
    fn references_become_names_and_arns() {
        let names = BTreeSet::from(["F".to_owned()]);
        let mut value = json!([
            reference("F"), reference("G"), {"Fn::GetAtt": ["F", "Arn"]}, {"Fn::Sub": "${F}-${G}-${F.Arn}"},
            {"Fn::Sub": ["${F}", {"X": reference("F")}]},
        ]);
        Absent { stack: "shop", names: &names }.replace_in(&mut value);
        let arn = "arn:aws:lambda:us-east-1:000000000000:function:shop-F";
        assert_eq!(
            value,
            json!([
                "shop-F", reference("G"), arn, {"Fn::Sub": format!("shop-F-${{G}}-{arn}")},
                {"Fn::Sub": ["shop-F", {"X": "shop-F"}]},
            ])
        );
    }
}
