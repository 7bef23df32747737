//! The part of Lambda's API that commands use about a stack: it reads configurations, event source mappings and concurrency,
//! invokes functions, disables and enables mappings, and changes variables, with which new instances are started. No other setting changes.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use http_body_util::Full;
use hyper::{Method, Response, StatusCode, body::Bytes, http::request::Parts};
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;
use redial_function_host::{
    function::{Function, Invoke as _},
    mapping::Switch,
    runtime_api::InvokeError,
};
use redial_receivers::serve::{self, Port};
use serde_json::{Value, json};

use super::hosted::HostedFunction;

/// Lambda's default quota of concurrent executions. There is no limit on this machine.
const CONCURRENT_EXECUTIONS: u64 = 1_000;

/// Answers by path.
pub(super) struct LambdaApi {
    configurations: Mutex<BTreeMap<String, Value>>,
    /// By function, null without one.
    reserved: BTreeMap<String, Option<u64>>,
    mappings: Vec<Mapping>,
    functions: BTreeMap<String, Arc<Function>>,
}

struct Mapping {
    uuid: String,
    /// Without its state.
    configuration: Value,
    switch: Arc<Switch>,
}

impl Mapping {
    fn described(&self) -> Value {
        let mut described = self.configuration.clone();
        described["State"] = self.switch.state().name().into();
        described
    }
}

/// A response's body, and for an invocation that failed the header that says so.
struct Answer {
    body: Value,
    has_failed: bool,
}

impl Answer {
    fn of(body: Value) -> Self {
        Self { body, has_failed: false }
    }
}

impl LambdaApi {
    /// Of functions that run, by their names, and of their mappings in their order.
    pub(super) fn new(
        hosted: &[HostedFunction],
        functions: BTreeMap<String, Arc<Function>>,
        switches: &BTreeMap<String, Vec<Arc<Switch>>>,
    ) -> Self {
        let configuration = |function: &HostedFunction| {
            json!({
                "FunctionName": function.name,
                "FunctionArn": arn(&function.name),
                "Runtime": "provided.al2023",
                "Handler": "bootstrap",
                "Role": function.role_arn,
                "PackageType": "Zip",
                "State": "Active",
                "LastUpdateStatus": "Successful",
                "LastModified": System.now().to_rfc3339(),
                "Timeout": function.timeout_s,
                "MemorySize": function.memory_mb,
                "Environment": {"Variables": function.environment},
                "LoggingConfig": {"LogFormat": "Text", "LogGroup": function.log_group},
            })
        };
        let mapping = |function: &HostedFunction| -> Vec<Mapping> {
            let (arn, switches) = (arn(&function.name), switches.get(&function.name));
            let of = |(number, mapping): (usize, &super::hosted::HostedMapping)| {
                let responses: &[&str] =
                    if mapping.reports_failures { &["ReportBatchItemFailures"] } else { &[] };
                let uuid = format!("{}-{number}", function.name);
                let configuration = json!({
                    "UUID": uuid,
                    "EventSourceArn": mapping.queue_arn,
                    "FunctionArn": arn,
                    "BatchSize": mapping.batch_size,
                    "MaximumBatchingWindowInSeconds": mapping.window_s,
                    "ScalingConfig": {"MaximumConcurrency": mapping.maximum_concurrency},
                    "FunctionResponseTypes": responses,
                });
                let switch = switches.and_then(|switches| switches.get(number).cloned()).unwrap_or_default();
                Mapping { uuid, configuration, switch }
            };
            function.mappings.iter().enumerate().map(of).collect()
        };
        Self {
            configurations: Mutex::new(
                hosted.iter().map(|it| (it.name.clone(), configuration(it))).collect(),
            ),
            reserved: hosted.iter().map(|it| (it.name.clone(), it.reserved_concurrency)).collect(),
            mappings: hosted.iter().flat_map(mapping).collect(),
            functions,
        }
    }

    fn configuration(&self, name: &str) -> Option<Value> {
        self.configurations.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Has the function's later instances start with these variables, as Lambda does. `None` for any other setting.
    async fn updated(&self, name: &str, request: &Bytes) -> Option<Value> {
        let request: BTreeMap<String, Value> = serde_json::from_slice(request).ok()?;
        let is_known = |it: &String| matches!(it.as_str(), "Environment" | "RevisionId" | "FunctionName");
        let variables = request.get("Environment").map(variables);
        let (function, known) = (self.functions.get(name)?, self.configuration(name)?);
        if !request.keys().all(is_known) {
            return None;
        }
        let Some(new) = variables else {
            function.restart(|_| {}).await;
            return Some(known);
        };
        let old = self::variables(&known["Environment"]);
        let configuration = {
            let mut all = self.configurations.lock().unwrap_or_else(PoisonError::into_inner);
            let configuration = all.get_mut(name)?;
            configuration["Environment"]["Variables"] = json!(new);
            configuration["LastModified"] = System.now().to_rfc3339().into();
            configuration.clone()
        };
        let change = |environment: &mut BTreeMap<String, String>| {
            // What AWS's SDKs read is set by the host, too.
            environment.retain(|name, _| name.starts_with("AWS_") || !old.contains_key(name));
            environment.extend(new);
        };
        function.restart(change).await;
        Some(configuration)
    }

    /// What its paths begin with is `root`.
    async fn answer(&self, root: &str, request: &Parts, body: &Bytes) -> Option<Answer> {
        // The first step is the date of a version of the API.
        let path = request.uri.path().strip_prefix(root)?;
        let steps: Vec<&str> = path.trim_end_matches('/').split('/').skip(2).collect();
        if let (&Method::POST, ["functions", name, "invocations"]) = (&request.method, &steps[..]) {
            return Some(self.invoked(self.functions.get(*name)?, body).await);
        }
        self.described(request, &steps, body).await.map(Answer::of)
    }

    async fn invoked(&self, function: &Function, event: &Bytes) -> Answer {
        let event = serde_json::from_slice(event).unwrap_or(Value::Null);
        match function.invoke(event).await {
            Ok(body) => Answer::of(body),
            Err(InvokeError::Failed(body)) => Answer { body, has_failed: true },
            Err(error) => Answer { body: json!({"errorMessage": error.to_string()}), has_failed: true },
        }
    }

    async fn described(&self, request: &Parts, steps: &[&str], body: &Bytes) -> Option<Value> {
        match (&request.method, steps) {
            (&Method::GET, ["functions", name, "concurrency"]) => {
                let reserved = self.reserved.get(*name)?;
                Some(reserved.map_or_else(|| json!({}), |most| json!({"ReservedConcurrentExecutions": most})))
            }
            (&Method::GET, ["functions", name, "recursion-config"]) => {
                // Rounds of a loop are not counted here.
                self.configuration(name).map(|_| json!({"RecursiveLoop": "Allow"}))
            }
            (&Method::GET, ["account-settings"]) => {
                let reserved: u64 = self.reserved.values().flatten().sum();
                let left = CONCURRENT_EXECUTIONS.saturating_sub(reserved);
                Some(json!({"AccountLimit": {
                    "ConcurrentExecutions": CONCURRENT_EXECUTIONS, "UnreservedConcurrentExecutions": left,
                }}))
            }
            (&Method::GET, ["functions", name, "configuration"]) => self.configuration(name),
            (&Method::PUT, ["functions", name, "configuration"]) => self.updated(name, body).await,
            (&Method::GET, ["event-source-mappings"]) => {
                let query = request.uri.query().unwrap_or_default();
                let name = query.split('&').find_map(|pair| pair.strip_prefix("FunctionName="));
                let of_function = |mapping: &&Mapping| {
                    name.is_none_or(|name| mapping.configuration["FunctionArn"] == arn(name).as_str())
                };
                let mappings: Vec<Value> =
                    self.mappings.iter().filter(of_function).map(Mapping::described).collect();
                Some(json!({"EventSourceMappings": mappings}))
            }
            (&Method::GET, ["event-source-mappings", uuid]) => {
                self.mappings.iter().find(|it| it.uuid == *uuid).map(Mapping::described)
            }
            (&Method::PUT, ["event-source-mappings", uuid]) => {
                let mapping = self.mappings.iter().find(|it| it.uuid == *uuid)?;
                let asked: Value = serde_json::from_slice(body).ok()?;
                // Of its settings, only this one can change while it runs.
                mapping.switch.set(asked["Enabled"].as_bool()?);
                Some(mapping.described())
            }
            _ => None,
        }
    }
}

/// `{"Variables": {NAME: VALUE}}`
fn variables(environment: &Value) -> BTreeMap<String, String> {
    let variables = environment["Variables"].as_object().into_iter().flatten();
    variables.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn arn(name: &str) -> String {
    format!("arn:aws:lambda:{}:000000000000:function:{name}", super::super::clients::REGION)
}

/// Answers at the port, under paths that begin with `root`, until it is dropped.
pub(super) async fn run(port: Port, root: String, api: LambdaApi) -> io::Result<()> {
    let (api, root): (_, Arc<str>) = (Arc::new(api), root.into());
    serve::accept(port.listen()?, move |stream| {
        let (api, root) = (Arc::clone(&api), Arc::clone(&root));
        serve::http(serve::http_versions(), stream, move |parts, body| {
            let (api, root) = (Arc::clone(&api), Arc::clone(&root));
            async move { Some(response(api.answer(&root, &parts, &body).await)) }
        })
    })
    .await;
    Ok(())
}

fn response(answer: Option<Answer>) -> Response<Full<Bytes>> {
    let response = Response::builder().header("content-type", "application/json");
    let (response, body) = match answer {
        Some(Answer { body, has_failed: false }) => (response, body),
        Some(Answer { body, has_failed: true }) => {
            (response.header("x-amz-function-error", "Unhandled"), body)
        }
        None => {
            let message = "not available of functions that run on this machine";
            let response = response
                .status(StatusCode::NOT_FOUND)
                .header("x-amzn-errortype", "ResourceNotFoundException");
            (response, json!({"Type": "User", "Message": message}))
        }
    };
    response.body(Full::from(body.to_string())).expect("invariant: fixed headers are well formed")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redial_function_host::{function::Definition, runtime_api::Confinement};

    use super::{super::hosted::HostedMapping, *};

    fn api() -> LambdaApi {
        let mapping = HostedMapping {
            queue_arn: "arn:aws:sqs:us-east-1:0:bulk".to_owned(),
            batch_size: 10,
            window_s: 1,
            maximum_concurrency: 5,
            reports_failures: true,
            enabled: true,
        };
        let hosted = HostedFunction {
            name: "shop-DispatchFunction".to_owned(),
            binary: "dispatch".to_owned(),
            environment: BTreeMap::from([("SUCCESS_LOGS".to_owned(), "all".to_owned())]),
            timeout_s: 30,
            memory_mb: 256,
            reserved_concurrency: Some(50),
            role_arn: "arn:aws:iam::000000000000:role/shop-DispatchRole".to_owned(),
            log_group: "shop-DispatchLogs".to_owned(),
            mappings: vec![mapping],
            schedules: Vec::new(),
            url_is_open: None,
        };
        let function = Function::new(Definition {
            bootstrap: "/nowhere/bootstrap".into(),
            environment: BTreeMap::new(),
            timeout: Duration::from_secs(30),
            reserved_concurrency: None,
            confinement: Confinement::default(),
        });
        let functions = BTreeMap::from([(hosted.name.clone(), Arc::new(function))]);
        LambdaApi::new(&[hosted], functions, &BTreeMap::new())
    }

    async fn get(path: &str) -> Option<Value> {
        under("/s3cret", &format!("/s3cret{path}")).await
    }

    async fn under(root: &str, path: &str) -> Option<Value> {
        call(&api(), root, Method::GET, path, "").await
    }

    async fn call(api: &LambdaApi, root: &str, method: Method, path: &str, body: &str) -> Option<Value> {
        let request = hyper::Request::builder().method(method).uri(path).body(()).expect("a request");
        let (parts, ()) = request.into_parts();
        api.answer(root, &parts, &Bytes::from(body.to_owned())).await.map(|answer| answer.body)
    }

    #[tokio::test]
    async fn a_mapping_is_disabled_and_enabled_and_no_other_setting_changes() {
        let api = api();
        let put = async |uuid: &str, body: &str| {
            let path = format!("/r/2015-03-31/event-source-mappings/{uuid}");
            call(&api, "/r", Method::PUT, &path, body).await
        };
        let mapping = "shop-DispatchFunction-0";
        let disabled = put(mapping, r#"{"Enabled": false}"#).await.expect("it is there");
        assert_eq!((&disabled["State"], &disabled["BatchSize"]), (&json!("Disabling"), &json!(10)));
        let enabled = put(mapping, r#"{"Enabled": true}"#).await.expect("it is there");
        assert_eq!(enabled["State"], "Enabled");
        assert_eq!(put(mapping, r#"{"BatchSize": 1}"#).await, None);
        assert_eq!(put("other", r#"{"Enabled": true}"#).await, None);
    }

    #[tokio::test]
    async fn a_function_s_configuration_is_that_of_the_template() {
        let answer =
            get("/2015-03-31/functions/shop-DispatchFunction/configuration").await.expect("it is hosted");
        assert_eq!(answer["LoggingConfig"]["LogGroup"], "shop-DispatchLogs");
        assert_eq!(answer["Role"], "arn:aws:iam::000000000000:role/shop-DispatchRole");
        assert_eq!(
            (&answer["Timeout"], &answer["Environment"]["Variables"]["SUCCESS_LOGS"]),
            (&json!(30), &json!("all"))
        );
        assert_eq!(get("/2015-03-31/functions/other/configuration").await, None);
        let path = "/2015-03-31/functions/shop-DispatchFunction/configuration";
        assert_eq!(under("/s3cret", path).await, None, "who does not know the path reads nothing");
    }

    #[tokio::test]
    async fn variables_of_a_function_change_and_no_other_setting() {
        let api = api();
        let path = "/r/2015-03-31/functions/shop-DispatchFunction/configuration";
        let put = async |body: &str| call(&api, "/r", Method::PUT, path, body).await;
        let changed = json!({"OTLP_ENDPOINT": "http://localhost:4318"});
        let body = json!({"Environment": {"Variables": changed}, "RevisionId": "1"}).to_string();
        let answer = put(&body).await.expect("it is hosted");
        assert_eq!((&answer["Environment"]["Variables"], &answer["Timeout"]), (&changed, &json!(30)));
        assert_eq!(put(r#"{"Timeout": 5}"#).await, None);
        assert!(put("{}").await.is_some(), "an update without a change is one");
        let read = call(&api, "/r", Method::GET, path, "").await.expect("it is hosted");
        assert_eq!((&read["Environment"]["Variables"], &read["Timeout"]), (&changed, &json!(30)));
    }

    #[tokio::test]
    async fn concurrency_is_the_default_quota_less_what_is_reserved() {
        let account = get("/2016-08-19/account-settings/").await.expect("an account");
        assert_eq!(account["AccountLimit"]["UnreservedConcurrentExecutions"], 950);
        let own = get("/2019-09-30/functions/shop-DispatchFunction/concurrency").await;
        assert_eq!(own, Some(json!({"ReservedConcurrentExecutions": 50})));
        let recursion = get("/2024-08-31/functions/shop-DispatchFunction/recursion-config").await;
        assert_eq!(recursion, Some(json!({"RecursiveLoop": "Allow"})));
        assert_eq!(get("/2019-09-30/functions/other/concurrency").await, None);
    }

    #[tokio::test]
    async fn mappings_are_those_of_the_function_that_is_asked_for() {
        let count = async |query: &str| {
            let answer = get(&format!("/2015-03-31/event-source-mappings{query}")).await.expect("a list");
            answer["EventSourceMappings"].as_array().expect("a list").len()
        };
        for (query, expected) in
            [("", 1), ("?FunctionName=shop-DispatchFunction", 1), ("/?FunctionName=other", 0)]
        {
            assert_eq!(count(query).await, expected, "{query}");
        }
    }
}
