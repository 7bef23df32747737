//! What listens where a part should: asked before anything is started, and for `local status`.

use std::time::Duration;

use aws_config::SdkConfig;
use serde_json::{Value, json};

use super::{
    Description, LocalError,
    error::{call, chain},
    parts::{Parts, Service},
};

/// A LocalStack starts a service at its first call, and Java takes its time.
const PROBE_LIMIT: Duration = Duration::from_secs(60);

/// That each part is what it should be, and takes any key.
pub(super) async fn check(http: &reqwest::Client, parts: &Parts) -> Result<(), LocalError> {
    for (service, endpoint) in parts.all() {
        if let Err(found) = probed(http, service, endpoint).await {
            let (service, option, example) = (service.name(), service.option(), example(service));
            return Err(LocalError::NoPart {
                service,
                option,
                endpoint: endpoint.to_owned(),
                found,
                example,
            });
        }
    }
    Ok(())
}

/// What does not answer as it should now, or does not have any more what it had, each as a sentence.
pub(super) async fn findings(
    parts: &Parts,
    http: &reqwest::Client,
    sdk: &SdkConfig,
    stack: &Description,
) -> Vec<String> {
    let mut findings = Vec::new();
    for (service, endpoint) in parts.all() {
        if let Err(found) = probed(http, service, endpoint).await {
            findings.push(format!("{} at {endpoint}: {found}", service.name()));
        }
    }
    if findings.is_empty()
        && let Err(error) = reach(sdk, stack).await
    {
        findings.push(format!("a part was restarted, or lacks something else ({error})"));
    }
    findings
}

/// How one is started, for example.
fn example(service: Service) -> &'static str {
    match service {
        Service::Sqs | Service::StepFunctions => "start one with `localstack start`, say",
        Service::DynamoDb => {
            "start one with `java -jar DynamoDBLocal.jar -inMemory` or `localstack start`, say"
        }
    }
}

/// A call that changes nothing: its target, its body, and whether this answer to it is the service's.
fn probe(service: Service) -> (&'static str, Value, fn(u16, &Value) -> bool) {
    match service {
        // An error that no other service has.
        Service::Sqs => ("AmazonSQS.GetQueueUrl", json!({"QueueName": "redial-probe"}), |status, answer| {
            let code = answer["__type"].as_str().unwrap_or_default();
            let is_absent = code.contains("QueueDoesNotExist") || code.contains("NonExistentQueue");
            is_absent || (status == 200 && answer["QueueUrl"].is_string())
        }),
        Service::StepFunctions => ("AWSStepFunctions.ListStateMachines", json!({}), |status, answer| {
            status == 200 && answer["stateMachines"].is_array()
        }),
        // A claim is such a statement, which not every emulator of DynamoDB carries out. No table has the name.
        Service::DynamoDb => {
            let statement = json!({
                "Statement": "INSERT INTO \"redial-probe\" VALUE {'pk': ?}",
                "Parameters": [{"S": "probe"}],
            });
            let body = json!({"Statements": [statement]});
            ("DynamoDB_20120810.BatchExecuteStatement", body, |status, answer| {
                let code = answer["__type"].as_str().unwrap_or_default();
                code.contains("ResourceNotFound") || (status == 200 && answer["Responses"].is_array())
            })
        }
    }
}

/// Says what is there instead of the service, as a sentence's end.
async fn probed(http: &reqwest::Client, service: Service, endpoint: &str) -> Result<(), String> {
    let (target, body, is_answer) = probe(service);
    let signing = match service {
        Service::Sqs => "sqs",
        Service::StepFunctions => "states",
        Service::DynamoDb => "dynamodb",
    };
    // Wanted, and not checked.
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential=REDIAL/20260101/{}/{signing}/aws4_request, SignedHeaders=host;x-amz-date, Signature={}",
        super::REGION,
        "0".repeat(64)
    );
    let request = http
        .post(endpoint)
        .timeout(PROBE_LIMIT)
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-target", target)
        .header("x-amz-date", "20260101T000000Z")
        .header("authorization", authorization)
        .body(body.to_string());
    let answer = match request.send().await {
        Ok(answer) => answer,
        Err(error) if error.is_connect() => return Err(format!("nothing listens there ({})", chain(&error))),
        Err(error) => return Err(format!("something else listens there ({})", chain(&error))),
    };
    let status = answer.status();
    let body = answer.bytes().await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if is_answer(status.as_u16(), &body) {
        return Ok(());
    }
    let code = body["__type"].as_str().unwrap_or_default().rsplit('#').next().unwrap_or_default();
    if matches!(status.as_u16(), 401 | 403) {
        return Err(format!("it checks signatures ({status} {code}), and a part has to take any key"));
    }
    if status.is_server_error() {
        return Err(format!("it fails at {target} ({status})"));
    }
    Err(format!("something else listens there ({target} answered {status} {code})").replace(" )", ")"))
}

/// Has the emulator make what it has not made at the parts yet, and says why if it cannot.
pub(super) async fn reach(sdk: &SdkConfig, stack: &Description) -> Result<(), LocalError> {
    let sqs = aws_sdk_sqs::Client::new(sdk);
    let queues = &stack.queues;
    let urls = [
        &queues.ingest,
        &queues.bulk,
        &queues.retry,
        &queues.retry_bulk,
        &queues.dead_letter,
        &queues.quarantine,
    ];
    for url in urls.into_iter().chain(&queues.events).chain(&queues.relay) {
        let read = sqs.get_queue_attributes().queue_url(url).attribute_names("QueueArn".into()).send().await;
        read.map_err(call("GetQueueAttributes"))?;
    }
    let machine =
        aws_sdk_sfn::Client::new(sdk).describe_state_machine().state_machine_arn(&stack.state_machine);
    machine.send().await.map_err(call("DescribeStateMachine"))?;
    let dynamodb = aws_sdk_dynamodb::Client::new(sdk);
    for table in stack.tables.all() {
        dynamodb.describe_table().table_name(table).send().await.map_err(call("DescribeTable"))?;
    }
    Ok(())
}
