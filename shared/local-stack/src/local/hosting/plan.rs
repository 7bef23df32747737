//! What is to be hosted, with questions where the template has expressions, and their answers: outputs of the deployed stack.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    super::LocalError,
    hosted::{HostedFunction, HostedMapping, HostedSchedule},
};

/// Stands in a value for the answer to the question of this number.
const ANSWER: &str = "Redial::Answer";

const DEFAULT_BATCH: u64 = 10;
/// What Lambda scales to at most without a maximum of the mapping.
const DEFAULT_CONCURRENCY: u64 = 1_000;

pub(in super::super) struct Plan {
    functions: Vec<Value>,
    questions: Vec<Value>,
}

impl Plan {
    /// Of resources by their names, of which some are functions, with what all functions have.
    pub(super) fn of<'a>(
        resources: impl Iterator<Item = (String, &'a Value)> + Clone,
        globals: &Value,
    ) -> Result<Self, LocalError> {
        let mut plan = Self { functions: Vec::new(), questions: Vec::new() };
        let mappings: Vec<(String, &Value)> =
            of_type(resources.clone(), "AWS::Lambda::EventSourceMapping").collect();
        let urls: Vec<&Value> = of_type(resources.clone(), "AWS::Lambda::Url").map(|(_, url)| url).collect();
        for (name, resource) in of_type(resources, "AWS::Serverless::Function") {
            let properties = &resource["Properties"];
            let property = |name: &str| {
                let own = &properties[name];
                if own.is_null() { globals[name].clone() } else { own.clone() }
            };
            let mut variables = globals["Environment"]["Variables"].clone();
            if let (Some(all), Some(own)) =
                (variables.as_object_mut(), properties["Environment"]["Variables"].as_object())
            {
                all.extend(own.clone());
            }
            // Behind an HTTP API the events are the same, so that a function which may have a URL is given one in any case.
            let is_called = urls.iter().any(|url| names(&url["Properties"]["TargetFunctionArn"], &name));
            let url = if is_called {
                json!({"has": {"Fn::If": ["HasApi", "yes", ""]}, "auth": {"Ref": "ApiAuth"}})
            } else {
                Value::Null
            };
            let mut events = properties["Events"].clone();
            if let Some(events) = events.as_object_mut() {
                let own = mappings.iter().filter(|(_, it)| it["Properties"]["FunctionName"] == name.as_str());
                events.extend(own.map(|(mapping, resource)| (mapping.clone(), event_of(resource))));
            }
            let function = json!({
                "name": name,
                "binary": resource["Metadata"]["BuildProperties"]["Binary"],
                "variables": variables,
                "timeout": property("Timeout"),
                "memory": property("MemorySize"),
                "reserved": property("ReservedConcurrentExecutions"),
                "role": property("Role"),
                "log_group": property("LoggingConfig")["LogGroup"],
                "events": events,
                "url": url,
            });
            let function = plan.asked(function);
            plan.functions.push(function);
        }
        Ok(plan)
    }

    /// Takes each expression for a question.
    fn asked(&mut self, value: Value) -> Value {
        match value {
            Value::Object(object) if is_expression(&object) => {
                self.questions.push(Value::Object(object));
                json!({ANSWER: self.questions.len() - 1})
            }
            Value::Object(object) => {
                object.into_iter().map(|(name, value)| (name, self.asked(value))).collect()
            }
            Value::Array(items) => items.into_iter().map(|item| self.asked(item)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
        }
    }

    /// The outputs that answer the questions. A value begins with `=`, because no output may be empty.
    pub(super) fn outputs(&self) -> impl Iterator<Item = (String, Value)> {
        self.questions.iter().enumerate().map(|(number, question)| {
            let mut question = question.clone();
            without_no_value(&mut question);
            (output(number), json!({"Value": {"Fn::Join": ["", ["=", question]]}}))
        })
    }

    /// The functions as the deployed stack's outputs have them.
    pub(in super::super) fn answered(
        &self,
        outputs: &BTreeMap<String, String>,
    ) -> Result<Vec<HostedFunction>, LocalError> {
        self.functions.iter().map(|function| hosted(&answered(function, outputs)?)).collect()
    }
}

/// Whether an output only answers a question.
pub(in super::super) fn is_answer(output: &str) -> bool {
    output.strip_prefix("Hosted").is_some_and(|number| number.parse::<usize>().is_ok())
}

fn output(number: usize) -> String {
    format!("Hosted{number}")
}

fn of_type<'a>(
    resources: impl Iterator<Item = (String, &'a Value)>,
    of: &'static str,
) -> impl Iterator<Item = (String, &'a Value)> {
    resources.filter(move |(_, resource)| resource["Type"] == of)
}

/// Whether this is the ARN of the function.
fn names(arn: &Value, function: &str) -> bool {
    arn.as_str().is_some_and(|arn| arn.ends_with(&format!(":{function}")))
}

/// A mapping that is a resource of its own, as an event of its function. The queue of one that depends on a condition is an empty text
/// where the condition does not hold.
fn event_of(mapping: &Value) -> Value {
    let mut properties = mapping["Properties"].clone();
    let mut queue = properties["EventSourceArn"].take();
    if let Some(properties) = properties.as_object_mut() {
        properties.retain(|name, _| name != "EventSourceArn" && name != "FunctionName");
    }
    let condition = &mapping["Condition"];
    if condition.is_string() {
        queue = json!({"Fn::If": [condition, queue, ""]});
    }
    properties["Queue"] = queue;
    json!({"Type": "SQS", "Properties": properties, "Conditional": condition.is_string()})
}

fn is_expression(object: &Map<String, Value>) -> bool {
    object.len() == 1 && object.keys().all(|name| name == "Ref" || name.starts_with("Fn::"))
}

/// `AWS::NoValue` leaves a property out. There is none around it here, so that it is an empty text.
fn without_no_value(value: &mut Value) {
    match value {
        Value::Object(object) if object.get("Ref").is_some_and(|name| name == "AWS::NoValue") => {
            *value = "".into();
        }
        Value::Object(object) => object.values_mut().for_each(without_no_value),
        Value::Array(items) => items.iter_mut().for_each(without_no_value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn answered(value: &Value, outputs: &BTreeMap<String, String>) -> Result<Value, LocalError> {
    Ok(match value {
        Value::Object(object) => match object.get(ANSWER).and_then(Value::as_u64) {
            Some(number) => {
                let name = format!("Hosted{number}");
                let answer = outputs.get(&name).and_then(|answer| answer.strip_prefix('='));
                answer.ok_or_else(|| LocalError::Template(format!("no output named {name}")))?.into()
            }
            None => {
                let values = object.iter().map(|(name, value)| Ok((name.clone(), answered(value, outputs)?)));
                values.collect::<Result<_, LocalError>>()?
            }
        },
        Value::Array(items) => {
            items.iter().map(|item| answered(item, outputs)).collect::<Result<_, LocalError>>()?
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    })
}

fn hosted(function: &Value) -> Result<HostedFunction, LocalError> {
    let name = text(&function["name"]).unwrap_or_default();
    let missing = |what: &str| LocalError::Template(format!("the function {name} has no {what}"));
    let mut mappings = Vec::new();
    let mut schedules = Vec::new();
    for (event, value) in function["events"].as_object().into_iter().flatten() {
        let properties = &value["Properties"];
        match value["Type"].as_str() {
            Some("SQS") if value["Conditional"] == true && text(&properties["Queue"]).is_none() => {}
            Some("SQS") => mappings.push(mapping(&format!("{event} of {name}"), properties)?),
            Some("Schedule") => schedules.push(HostedSchedule {
                expression: Some(text(&properties["Schedule"]).ok_or_else(|| missing("schedule"))?),
                input: input(properties)?,
            }),
            Some("EventBridgeRule") if properties["Pattern"]["source"][0] == "aws.cloudformation" => {
                schedules.push(HostedSchedule { expression: None, input: input(properties)? });
            }
            kind => {
                let kind = kind.unwrap_or("no type");
                return Err(LocalError::Template(format!("{event} of {name} cannot be hosted: {kind}")));
            }
        }
    }
    let variables = function["variables"].as_object().into_iter().flatten();
    let has_url = text(&function["url"]["has"]).is_some();
    Ok(HostedFunction {
        binary: text(&function["binary"]).ok_or_else(|| missing("binary"))?,
        environment: variables.map(|(name, value)| (name.clone(), text(value).unwrap_or_default())).collect(),
        timeout_s: number(&function["timeout"]).ok_or_else(|| missing("timeout"))?,
        memory_mb: number(&function["memory"]).ok_or_else(|| missing("memory size"))?,
        reserved_concurrency: number(&function["reserved"]),
        role_arn: text(&function["role"]).ok_or_else(|| missing("role"))?,
        log_group: text(&function["log_group"]).ok_or_else(|| missing("log group"))?,
        mappings,
        schedules,
        url_is_open: has_url.then(|| function["url"]["auth"] == "NONE"),
        name,
    })
}

/// The properties of a mapping that a host knows what to do with. To pass over another one would be to play another function.
const OF_A_MAPPING: [&str; 6] = [
    "BatchSize",
    "Enabled",
    "FunctionResponseTypes",
    "MaximumBatchingWindowInSeconds",
    "Queue",
    "ScalingConfig",
];

fn mapping(of: &str, properties: &Value) -> Result<HostedMapping, LocalError> {
    let wrong = |name: &str, expected: &str| {
        let found = &properties[name];
        LocalError::Template(format!("{of}: {name}: expected {expected}, found {found}"))
    };
    let unknown =
        properties.as_object().into_iter().flatten().find(|(name, _)| !OF_A_MAPPING.contains(&name.as_str()));
    if let Some((name, _)) = unknown {
        return Err(LocalError::Template(format!("{of}: {name}: cannot be hosted on this machine")));
    }
    let or = |name: &str, value: &Value, default: u64| {
        if value.is_null() { Ok(default) } else { number(value).ok_or_else(|| wrong(name, "a number")) }
    };
    let responses = &properties["FunctionResponseTypes"];
    if !responses.is_null() && !responses.is_array() {
        return Err(wrong("FunctionResponseTypes", "a list"));
    }
    let mut responses = responses.as_array().into_iter().flatten();
    let concurrency = &properties["ScalingConfig"]["MaximumConcurrency"];
    Ok(HostedMapping {
        queue_arn: text(&properties["Queue"]).ok_or_else(|| wrong("Queue", "the ARN of a queue"))?,
        batch_size: or("BatchSize", &properties["BatchSize"], DEFAULT_BATCH)?,
        window_s: or("MaximumBatchingWindowInSeconds", &properties["MaximumBatchingWindowInSeconds"], 0)?,
        maximum_concurrency: or("ScalingConfig", concurrency, DEFAULT_CONCURRENCY)?,
        reports_failures: responses.any(|kind| kind == "ReportBatchItemFailures"),
        enabled: match text(&properties["Enabled"]).map(|text| text.to_ascii_lowercase()).as_deref() {
            None | Some("true") => true,
            Some("false") => false,
            Some(_) => return Err(wrong("Enabled", "true or false")),
        },
    })
}

fn input(properties: &Value) -> Result<Value, LocalError> {
    let input = properties["Input"].as_str().unwrap_or("{}");
    serde_json::from_str(input)
        .map_err(|error| LocalError::Template(format!("a schedule's input is no JSON: {error}")))
}

/// A text, or a number as one; none if it is empty.
fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}

/// Answers are texts.
fn number(value: &Value) -> Option<u64> {
    text(value)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{super::split, *};
    use crate::local::package::Template;

    #[test]
    fn a_mapping_that_is_not_understood_is_refused() {
        let queue = json!({"Queue": "arn:aws:sqs:us-east-1:0:bulk"});
        let whole = mapping("Bulk of dispatch", &queue).expect("the rest has defaults");
        assert_eq!((whole.batch_size, whole.reports_failures), (DEFAULT_BATCH, false));
        for (name, value, expected) in [
            ("FunctionResponseTypes", json!("ReportBatchItemFailures"), "expected a list, found \"Report"),
            ("BatchSize", json!("ten"), "BatchSize: expected a number, found \"ten\""),
            ("Enabled", json!("maybe"), "Enabled: expected true or false, found \"maybe\""),
            ("FilterCriteria", json!({}), "Bulk of dispatch: FilterCriteria: cannot be hosted"),
            ("Queue", Value::Null, "Queue: expected the ARN of a queue, found null"),
        ] {
            let mut properties = queue.clone();
            properties[name] = value;
            let error = mapping("Bulk of dispatch", &properties).expect_err(name).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// Answers each question with its own text, or what was chosen for it.
    fn outputs(plan: &Plan, chosen: &[(&str, &str)]) -> BTreeMap<String, String> {
        let answer = |question: &Value| {
            let text = question.to_string();
            let chosen = chosen.iter().find(|(part, _)| text.contains(part)).map(|(_, answer)| *answer);
            format!("={}", chosen.map_or(text.clone(), str::to_owned))
        };
        plan.questions.iter().enumerate().map(|(n, question)| (output(n), answer(question))).collect()
    }

    fn functions(chosen: &[(&str, &str)]) -> Vec<HostedFunction> {
        let template = Template(include_str!("../../../../../infra/template.yaml").to_owned());
        let (_, plan) = split(&template, "shop").expect("the template's shape");
        let given = [
            ("FunctionTimeout", "30"),
            ("MemorySize", "256"),
            ("ReservesApi", ""),
            ("HasApi", "yes"),
            ("IsStandby", "true"),
        ];
        let numbers =
            [("Concurrency", "7"), ("BulkBatchSize", "10"), ("WindowSeconds", "1"), ("ApiAuth", "NONE")];
        let chosen: Vec<(&str, &str)> = chosen.iter().chain(&given).chain(&numbers).copied().collect();
        plan.answered(&outputs(&plan, &chosen)).expect("all is answered")
    }

    fn function(name: &str, chosen: &[(&str, &str)]) -> HostedFunction {
        functions(chosen).into_iter().find(|function| function.name == name).expect("it is in the template")
    }

    #[test]
    fn functions_have_what_the_template_gives_them() {
        let names: Vec<String> = functions(&[]).into_iter().map(|function| function.name).collect();
        assert_eq!(names, ["shop-CleanupFunction", "shop-DispatchFunction", "shop-IngestFunction"]);
        let dispatch = function("shop-DispatchFunction", &[]);
        assert_eq!((dispatch.binary.as_str(), dispatch.timeout_s, dispatch.memory_mb), ("dispatch", 30, 256));
        assert_eq!(dispatch.environment["INGEST_QUEUE_URL"], "{\"Ref\":\"IngestQueue\"}");
        assert_eq!(dispatch.log_group, "{\"Ref\":\"DispatchLogs\"}");
        assert_eq!((dispatch.url_is_open, dispatch.reserved_concurrency), (None, None));
    }

    #[test]
    fn mappings_have_their_queues_sizes_windows_and_concurrency() {
        let dispatch = function("shop-DispatchFunction", &[]);
        let arn = |queue: &str| format!("{{\"Fn::GetAtt\":[\"{queue}\",\"Arn\"]}}");
        let mapping = |queue: &str, window_s| HostedMapping {
            queue_arn: arn(queue),
            batch_size: 10,
            window_s,
            maximum_concurrency: 7,
            reports_failures: true,
            enabled: true,
        };
        let expected = [("BulkQueue", 1), ("IngestQueue", 0), ("RetryQueue", 0), ("RetryBulkQueue", 1)];
        assert_eq!(dispatch.mappings, expected.map(|(queue, window)| mapping(queue, window)));
    }

    #[test]
    fn a_standby_stack_s_dispatch_begins_without_polling_and_its_cleanup_polls() {
        // LocalStack joins a boolean as Python writes it.
        let standby = [("IsStandby", "False")];
        let polls = |name| function(name, &standby).mappings.into_iter().filter(|it| it.enabled).count();
        // That of relayed events among them.
        assert_eq!((polls("shop-DispatchFunction"), polls("shop-CleanupFunction")), (0, 3));
    }

    #[test]
    fn a_mapping_of_its_own_is_there_where_its_condition_holds() {
        let queues = |chosen: &[(&str, &str)]| -> Vec<(String, u64)> {
            let mappings = function("shop-CleanupFunction", chosen).mappings;
            mappings.into_iter().map(|it| (it.queue_arn, it.maximum_concurrency)).collect()
        };
        let relayed = queues(&[("EventsRelayQueue\",\"Arn\"]},\"\"]", "relayed")]);
        assert!(relayed.contains(&("relayed".to_owned(), 10)), "{relayed:?}");
        let without = queues(&[("EventsRelayQueue\",\"Arn\"]},\"\"]", "")]);
        assert_eq!((without.len(), relayed.len()), (2, 3), "{without:?}");
    }

    #[test]
    fn schedules_have_their_inputs_and_the_rule_of_the_deployment_has_no_time() {
        let of = |name| function(name, &[]).schedules;
        let schedule = |expression: Option<&str>, input| HostedSchedule {
            expression: expression.map(str::to_owned),
            input,
        };
        let publish = json!({"publish": "vapid_keys"});
        assert_eq!(
            of("shop-DispatchFunction"),
            [schedule(Some("rate(5 minutes)"), publish.clone()), schedule(None, publish)]
        );
        assert_eq!(
            of("shop-CleanupFunction"),
            [
                schedule(Some("rate(1 hour)"), json!({"sweep": "bodies"})),
                schedule(Some("rate(5 minutes)"), json!({"sweep": "erasures"})),
                schedule(Some("rate(5 minutes)"), json!({"sweep": "prune"})),
                schedule(Some("rate(1 minute)"), json!({"sweep": "waits"})),
            ]
        );
    }

    #[test]
    fn the_api_has_a_url_unless_it_is_switched_off() {
        let url = |chosen: &[(&str, &str)]| function("shop-IngestFunction", chosen).url_is_open;
        assert_eq!(url(&[]), Some(true));
        assert_eq!(url(&[("ApiAuth", "AWS_IAM")]), Some(false));
        assert_eq!(url(&[("HasApi", "")]), None);
        let reserved = function("shop-IngestFunction", &[("ReservesApi", "50")]).reserved_concurrency;
        assert_eq!(reserved, Some(50));
    }

    #[test]
    fn outputs_hold_no_property_that_is_left_out() {
        let mut value = json!({"Fn::If": ["ReservesApi", {"Ref": "A"}, {"Ref": "AWS::NoValue"}]});
        without_no_value(&mut value);
        assert_eq!(value, json!({"Fn::If": ["ReservesApi", {"Ref": "A"}, ""]}));
        assert!(is_answer("Hosted17") && !is_answer("HostedX") && !is_answer("IngestQueueUrl"));
    }
}
