//! CloudFormation's expressions, evaluated: references, attributes and conditions, as far as the template uses them.
//!
//! CloudFormation returns what was deployed with its expressions, never with their values. What the values are follows from the
//! parameters of the stack, the names of its resources, and the ARNs that AWS forms of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What expressions of one stack's template refer to.
pub(super) struct Scope {
    /// The stack's ARN, `arn:PARTITION:cloudformation:REGION:ACCOUNT:stack/NAME/ID`.
    pub(super) stack_id: String,
    pub(super) stack_name: String,
    pub(super) parameters: BTreeMap<String, String>,
    /// The template's conditions, as expressions.
    pub(super) conditions: Map<String, Value>,
    /// By their names in the template: their types, and what they are deployed as.
    pub(super) resources: BTreeMap<String, (String, String)>,
}

impl Scope {
    /// The value; `None` if it depends on something that is not known. `AWS::NoValue` leaves out what it stands for.
    pub(super) fn resolve(&self, value: &Value) -> Option<Value> {
        if let Some((function, argument)) = expression(value) {
            return self.evaluate(function, argument);
        }
        Some(match value {
            Value::Array(items) => {
                let items = items.iter().map(|item| self.resolve(item)).collect::<Option<Vec<_>>>()?;
                items.into_iter().filter(|item| !item.is_null()).collect()
            }
            Value::Object(members) => {
                let mut resolved = Map::new();
                for (name, member) in members {
                    let member = self.resolve(member)?;
                    if !member.is_null() {
                        resolved.insert(name.clone(), member);
                    }
                }
                resolved.into()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        })
    }

    fn evaluate(&self, function: &str, argument: &Value) -> Option<Value> {
        match function {
            "Ref" => self.reference(argument.as_str()?),
            "Fn::GetAtt" => self.attribute(argument[0].as_str()?, argument[1].as_str()?).map(Value::from),
            "Fn::If" => {
                let branch = if self.holds(argument[0].as_str()?)? { &argument[1] } else { &argument[2] };
                self.resolve(branch)
            }
            "Fn::Sub" => match argument {
                Value::Array(_) => self.substituted(argument[0].as_str()?, &argument[1]),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                    self.substituted(argument.as_str()?, &Value::Null)
                }
            }
            .map(Value::from),
            "Fn::Select" => {
                let items = self.resolve(&argument[1])?;
                items.get(usize::try_from(argument[0].as_u64()?).ok()?).cloned()
            }
            "Fn::Split" => {
                let text = self.resolve(&argument[1])?;
                let parts = text.as_str()?.split(argument[0].as_str()?);
                Some(parts.map(Value::from).collect())
            }
            _ => None,
        }
    }

    fn reference(&self, name: &str) -> Option<Value> {
        let of_id = |at: usize| self.stack_id.split(':').nth(at).map(Value::from);
        match name {
            "AWS::NoValue" => Some(Value::Null),
            "AWS::StackName" => Some(self.stack_name.as_str().into()),
            "AWS::StackId" => Some(self.stack_id.as_str().into()),
            "AWS::Partition" => of_id(1),
            "AWS::Region" => of_id(3),
            "AWS::AccountId" => of_id(4),
            _ => {
                let parameter = self.parameters.get(name);
                let value =
                    parameter.or_else(|| self.resources.get(name).map(|(_, deployed_as)| deployed_as));
                value.map(|value| value.as_str().into())
            }
        }
    }

    fn attribute(&self, resource: &str, attribute: &str) -> Option<String> {
        let (kind, deployed_as) = self.resources.get(resource)?;
        let last = deployed_as.rsplit(['/', ':']).next()?;
        let mut of_id = self.stack_id.split(':');
        let (partition, region, account) = (of_id.nth(1)?, of_id.nth(1)?, of_id.next()?);
        let arn =
            |service: &str, rest: String| format!("arn:{partition}:{service}:{region}:{account}:{rest}");
        match (kind.as_str(), attribute) {
            ("AWS::SQS::Queue", "Arn") => Some(arn("sqs", last.to_owned())),
            ("AWS::DynamoDB::Table", "Arn") => Some(arn("dynamodb", format!("table/{deployed_as}"))),
            ("AWS::Logs::LogGroup", "Arn") => Some(arn("logs", format!("log-group:{deployed_as}:*"))),
            ("AWS::Serverless::Function" | "AWS::Lambda::Function", "Arn") => {
                Some(arn("lambda", format!("function:{deployed_as}")))
            }
            ("AWS::IAM::Role", "Arn") => Some(format!("arn:{partition}:iam::{account}:role/{deployed_as}")),
            (
                "AWS::SQS::Queue" | "AWS::Serverless::StateMachine" | "AWS::StepFunctions::StateMachine",
                "QueueName" | "Name",
            ) => Some(last.to_owned()),
            _ => None,
        }
    }

    fn substituted(&self, text: &str, own: &Value) -> Option<String> {
        let mut parts = text.split("${");
        let mut result = parts.next()?.to_owned();
        for part in parts {
            let (name, after) = part.split_once('}')?;
            let value = match (own.get(name), name.split_once('.')) {
                (Some(value), _) => self.resolve(value)?,
                (None, Some((resource, attribute))) => self.attribute(resource, attribute)?.into(),
                (None, None) => self.reference(name)?,
            };
            result.push_str(&scalar(&value)?);
            result.push_str(after);
        }
        Some(result)
    }

    /// Whether a condition of the template holds.
    pub(super) fn holds(&self, condition: &str) -> Option<bool> {
        self.is_true(self.conditions.get(condition)?)
    }

    fn is_true(&self, condition: &Value) -> Option<bool> {
        let (function, argument) = expression(condition)?;
        let all = || argument.as_array()?.iter().map(|it| self.is_true(it)).collect::<Option<Vec<bool>>>();
        match function {
            "Condition" => self.holds(argument.as_str()?),
            "Fn::Equals" => {
                let side = |at: usize| scalar(&self.resolve(&argument[at])?);
                Some(side(0)? == side(1)?)
            }
            "Fn::Not" => self.is_true(&argument[0]).map(|holds| !holds),
            "Fn::And" => all().map(|all| all.into_iter().all(|it| it)),
            "Fn::Or" => all().map(|all| all.into_iter().any(|it| it)),
            _ => None,
        }
    }
}

/// A function and its argument.
fn expression(value: &Value) -> Option<(&str, &Value)> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    let (name, argument) = members.iter().next()?;
    let is_function = matches!(name.as_str(), "Ref" | "Condition" if argument.is_string());
    (is_function || name.starts_with("Fn::")).then_some((name.as_str(), argument))
}

/// CloudFormation knows numbers and truth values also as texts.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => {
            Some(number.as_f64().map_or_else(|| number.to_string(), |it| it.to_string()))
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use redial_console::template;
    use serde_json::json;

    use super::*;

    pub(crate) fn scope() -> Scope {
        let resource = |name: &str, kind: &str, deployed_as: &str| {
            (name.to_owned(), (kind.to_owned(), deployed_as.to_owned()))
        };
        let conditions = json!({
            "HasApi": {"Fn::Not": [{"Fn::Equals": [{"Ref": "ApiKind"}, "None"]}]},
            "Reserves": {"Fn::And": [{"Condition": "HasApi"}, {"Fn::Not": [{"Fn::Equals": [{"Ref": "Api"}, 0]}]}]},
            "Either": {"Fn::Or": [{"Condition": "HasApi"}, {"Condition": "Absent"}]},
        });
        Scope {
            stack_id: "arn:aws:cloudformation:eu-central-1:111122223333:stack/shop/1".to_owned(),
            stack_name: "shop".to_owned(),
            parameters: [("ApiKind", "HttpApi"), ("Api", "0"), ("Id", "arn:x:secret:a")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            conditions: conditions.as_object().cloned().unwrap_or_default(),
            resources: BTreeMap::from([
                resource("Queue", "AWS::SQS::Queue", "https://sqs.eu-central-1.amazonaws.com/1/shop-q"),
                resource("Table", "AWS::DynamoDB::Table", "shop-t"),
                resource("Logs", "AWS::Logs::LogGroup", "/shop/logs"),
                resource("Role", "AWS::IAM::Role", "shop-r"),
                resource("Wait", "AWS::Serverless::StateMachine", "arn:aws:states:r:1:stateMachine:w"),
            ]),
        }
    }

    #[test]
    fn expressions_have_the_values_that_cloudformation_gives_them() {
        for (text, expected) in [
            ("!GetAtt Queue.Arn", json!("arn:aws:sqs:eu-central-1:111122223333:shop-q")),
            (
                "!Sub ${Table.Arn}/index/i",
                json!("arn:aws:dynamodb:eu-central-1:111122223333:table/shop-t/index/i"),
            ),
            ("!GetAtt Logs.Arn", json!("arn:aws:logs:eu-central-1:111122223333:log-group:/shop/logs:*")),
            ("!GetAtt Role.Arn", json!("arn:aws:iam::111122223333:role/shop-r")),
            ("!Sub \"${AWS::StackName}:${Wait.Name}:*\"", json!("shop:w:*")),
            (
                "!Sub [\"${Name}-x\", { Name: !Select [1, !Split [\":secret:\", !Sub \"${Id}:secret:${Id}\"]] }]",
                json!("a-x"),
            ),
            ("[!If [Reserves, 1, !Ref AWS::NoValue], !If [HasApi, 2, 3]]", json!([2])),
            ("{ a: !Ref AWS::NoValue, b: !Ref ApiKind }", json!({"b": "HttpApi"})),
        ] {
            let value = template::read(text).expect("YAML");
            assert_eq!(scope().resolve(&value), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_known_has_no_value() {
        for text in ["!Ref Nowhere", "[!GetAtt Nowhere.Arn]", "!If [Either, 1, 2]", "!ImportValue x"] {
            assert_eq!(scope().resolve(&template::read(text).expect("YAML")), None, "{text}");
        }
        assert_eq!(scope().holds("Reserves"), Some(false));
    }
}
