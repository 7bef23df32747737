//! A LocalStack, which its user starts and stops: whether there is one, and what a stack leaves in it.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_cloudformation::{Client, error::ProvideErrorMetadata as _, types::StackResource};
use serde_json::Value;

use super::{
    Description, Emulator, FunctionsIn, LocalError, Queues,
    error::{call, chain},
    package::Template,
};

const HEALTH: &str = "/_localstack/health";
const HEALTH_LIMIT: Duration = Duration::from_secs(20);

/// What listens at an address.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Listener {
    LocalStack,
    /// Nothing, or something else: a sentence's end.
    Other(String),
    Nothing(String),
}

/// Asks for LocalStack's health, which nothing else answers.
pub(super) async fn listener(http: &reqwest::Client, endpoint: &str) -> Listener {
    let answer = match http.get(format!("{endpoint}{HEALTH}")).timeout(HEALTH_LIMIT).send().await {
        Ok(answer) => answer,
        Err(error) if error.is_connect() || error.is_builder() => return Listener::Nothing(chain(&error)),
        Err(error) => return Listener::Other(chain(&error)),
    };
    let status = answer.status();
    let body = answer.bytes().await.unwrap_or_default();
    let health: Option<Value> = serde_json::from_slice(&body).ok();
    if status.is_success() && health.is_some_and(|health| health["services"].is_object()) {
        return Listener::LocalStack;
    }
    Listener::Other(format!("GET {HEALTH} answered {status} without LocalStack's services"))
}

/// That there is a LocalStack.
pub(super) async fn check(http: &reqwest::Client, endpoint: &str) -> Result<(), LocalError> {
    let found = match listener(http, endpoint).await {
        Listener::LocalStack => return Ok(()),
        Listener::Nothing(found) => format!("nothing listens there ({found})"),
        Listener::Other(found) => format!("something else listens there ({found})"),
    };
    Err(LocalError::NoLocalStack { endpoint: endpoint.to_owned(), found })
}

/// Whether LocalStack has a stack of this name: after a restart it usually has none.
pub(super) async fn has(cloudformation: &Client, name: &str) -> Result<bool, LocalError> {
    match cloudformation.describe_stacks().stack_name(name).send().await {
        Ok(answer) => Ok(!answer.stacks().is_empty()),
        Err(error) if error.code() == Some("ValidationError") => Ok(false),
        Err(error) => Err(call("DescribeStacks")(error)),
    }
}

/// Whether LocalStack has a queue with this URL.
pub(super) async fn has_queue(sdk: &SdkConfig, url: &str) -> Result<bool, LocalError> {
    match aws_sdk_sqs::Client::new(sdk).get_queue_attributes().queue_url(url).send().await {
        Ok(_) => Ok(true),
        Err(error) if is_absent_queue(error.code()) => Ok(false),
        Err(error) => Err(call("GetQueueAttributes")(error)),
    }
}

/// Of the protocols that SQS has, each has a name for it.
pub(super) fn is_absent_queue(code: Option<&str>) -> bool {
    code.is_some_and(|code| code.contains("NonExistentQueue") || code == "QueueDoesNotExist")
}

/// Leaves out what LocalStack announces that it will refuse.
pub(super) fn adapted(template: &Template) -> Template {
    let is_kept =
        |entry: &&str| !entry.starts_with("  Dashboard:\n") && !entry.starts_with("  DashboardName:\n");
    Template(template.entries().filter(is_kept).collect())
}

/// Says what functions in LocalStack's Lambda need, if a function is what failed.
pub(super) fn with_hint(mut error: LocalError, emulator: &Emulator) -> LocalError {
    let is_in_lambda = matches!(emulator, Emulator::LocalStack { functions: FunctionsIn::Lambda, .. });
    if let LocalError::Deploy { failures, .. } = &mut error
        && is_in_lambda
        && failures.iter().any(|failure| failure.contains("Function"))
    {
        failures.push(
            "LocalStack runs functions in Docker: it needs the Docker socket, and a build of them for Linux. Without \
             --functions lambda they run on this machine, without Docker"
                .to_owned(),
        );
    }
    error
}

/// Gives queues the addresses that lead to them at this endpoint. LocalStack's own have a name that needs public DNS, and some SDKs
/// (JavaScript's) call a queue at its address.
pub(super) fn address_queues(description: &mut Description, endpoint: &str) {
    let Queues { ingest, bulk, retry, retry_bulk, dead_letter, quarantine, events, relay } =
        &mut description.queues;
    let own = [ingest, bulk, retry, retry_bulk, dead_letter, quarantine];
    for url in own.into_iter().chain(events).chain(relay) {
        if let Some((_, path)) = url.split_once("://").and_then(|(_, address)| address.split_once('/')) {
            *url = format!("{endpoint}/{path}");
        }
    }
}

/// What stays when a stack is deleted, because on AWS it is worth keeping: tables and secrets.
pub(super) async fn retained(cloudformation: &Client, name: &str) -> Result<Vec<StackResource>, LocalError> {
    if !has(cloudformation, name).await? {
        return Ok(Vec::new());
    }
    let answer = cloudformation.describe_stack_resources().stack_name(name).send().await;
    let resources = answer.map_err(call("DescribeStackResources"))?.stack_resources.unwrap_or_default();
    let is_retained = |resource: &StackResource| {
        matches!(resource.resource_type(), Some("AWS::DynamoDB::Table" | "AWS::SecretsManager::Secret"))
    };
    Ok(resources.into_iter().filter(is_retained).collect())
}

/// Removes the queue of events, and what a deleted stack left. What is gone already is no error.
pub(super) async fn remove(
    sdk: &SdkConfig,
    events: Option<&str>,
    retained: Vec<StackResource>,
) -> Result<(), LocalError> {
    let dynamodb = aws_sdk_dynamodb::Client::new(sdk);
    let secrets = aws_sdk_secretsmanager::Client::new(sdk);
    for resource in retained {
        let Some(id) = resource.physical_resource_id() else { continue };
        if resource.resource_type() == Some("AWS::DynamoDB::Table") {
            match dynamodb.delete_table().table_name(id).send().await {
                Err(error) if error.code() != Some("ResourceNotFoundException") => {
                    return Err(call("DeleteTable")(error));
                }
                Ok(_) | Err(_) => {}
            }
        } else {
            let delete = secrets.delete_secret().secret_id(id).force_delete_without_recovery(true);
            match delete.send().await {
                Err(error) if error.code() != Some("ResourceNotFoundException") => {
                    return Err(call("DeleteSecret")(error));
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    if let Some(url) = events {
        match aws_sdk_sqs::Client::new(sdk).delete_queue().queue_url(url).send().await {
            Err(error) if !is_absent_queue(error.code()) => return Err(call("DeleteQueue")(error)),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;
    use crate::local::http_client;

    /// An address that answers one request with this.
    fn answering(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a request");
            let _request = stream.read(&mut [0; 4_096]);
            stream.write_all(answer.as_bytes()).expect("it is read");
        });
        format!("http://{address}")
    }

    #[tokio::test]
    async fn a_localstack_is_distinguished_from_other_servers_and_from_none() {
        let http = http_client().expect("a client");
        let healthy =
            answering("HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\n{\"services\":{\"sqs\":\"running\"}}");
        let other = answering("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("it is bound");
        let none = format!("http://{free}");
        assert_eq!(listener(&http, &healthy).await, Listener::LocalStack);
        for (endpoint, expected) in [
            (&other, "something else listens there (GET /_localstack/health answered 404 Not Found"),
            (&none, "nothing listens there ("),
        ] {
            let error = check(&http, endpoint).await.expect_err("there is none").to_string();
            assert!(error.contains(expected) && error.contains(endpoint.as_str()), "{error}");
            assert!(error.contains("localstack start") && error.contains("--endpoint"), "{error}");
        }
    }

    #[test]
    fn a_function_that_failed_in_lambda_has_a_hint_about_docker() {
        let failed = |functions, failure: &str| {
            let failures = vec![failure.to_owned()];
            let error = LocalError::Deploy { status: "CREATE_FAILED".to_owned(), failures };
            with_hint(error, &Emulator::LocalStack { endpoint: String::new(), functions }).to_string()
        };
        let function = "CleanupFunction: Error while creating lambda";
        assert!(failed(FunctionsIn::Lambda, function).contains("it needs the Docker socket"));
        assert!(!failed(FunctionsIn::Lambda, "IngestQueue: no").contains("Docker"));
        assert!(!failed(FunctionsIn::Here, function).contains("Docker"));
    }

    #[test]
    fn a_queue_s_address_leads_to_it_without_public_dns() {
        let name = "http://sqs.us-east-1.localhost.localstack.cloud:4566/000000000000/shop-Ingest";
        let queues = ["ingest", "bulk", "retry", "retry_bulk", "dead_letter", "quarantine"];
        let queues: serde_json::Map<_, _> =
            queues.into_iter().map(|queue| (queue.to_owned(), name.into())).collect();
        let tables = ["deliveries", "subscriptions", "audiences", "parked", "dead_letters", "control"];
        let tables: serde_json::Map<_, _> =
            tables.into_iter().map(|table| (table.to_owned(), table.into())).collect();
        let description = serde_json::json!({
            "endpoint": "http://localhost:4566", "region": "us-east-1", "queues": queues, "tables": tables,
            "state_machine": "", "functions": {"dispatch": "", "cleanup": "", "ingest": ""}, "api_url": null,
            "webhook_key_secret": "", "pid": null, "vapid_public_key": "",
        });
        let mut description: Description = serde_json::from_value(description).expect("a description");
        address_queues(&mut description, "http://localhost:4566");
        assert_eq!(description.queues.ingest, "http://localhost:4566/000000000000/shop-Ingest");
        assert_eq!(
            (&description.queues.quarantine, description.queues.events),
            (&description.queues.ingest, None)
        );
    }

    #[test]
    fn the_dashboard_and_its_output_are_left_out() {
        let template = Template(include_str!("../../../../infra/template.yaml").to_owned());
        let adapted = adapted(&template).0;
        assert!(!adapted.contains("AWS::CloudWatch::Dashboard") && !adapted.contains("!Ref Dashboard\n"));
        assert!(adapted.contains("\nOutputs:\n") && adapted.contains("  RequestsFailedAlarm:\n"));
    }
}
