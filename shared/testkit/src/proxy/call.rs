//! One call of AWS's API, as it passed.

use std::time::Instant;

use http::HeaderMap;
use hyper::body::Bytes;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AwsService {
    DynamoDb,
    Sqs,
    StepFunctions,
    SecretsManager,
    /// Any other target, as it was sent; empty if there was none.
    Other(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injected {
    KilledBefore,
    /// The call was carried out, and the caller killed before the answer.
    KilledAfter,
    /// The call was answered by the proxy and not carried out.
    Status,
    /// One statement of it was not carried out.
    FailedStatement,
    /// One entry of it was not carried out.
    FailedEntry,
    /// The fault does not fit this call (no such statement or entry), which was carried out whole.
    NotApplicable,
}

#[derive(Clone, Debug)]
pub struct Call {
    /// Its place among the calls since the last reset, from 1.
    pub number: usize,
    /// From `X-Amz-Target`, before the point.
    pub service: AwsService,
    /// From `X-Amz-Target`, after the point: `BatchExecuteStatement`; else the method and path.
    pub operation: String,
    /// When it had arrived whole.
    pub at: Instant,
    /// The same in milliseconds since the Unix epoch.
    pub at_ms: u64,
    pub body: Bytes,
    /// What the caller was answered, or would have been; `None` while it is under way.
    pub response_status: Option<u16>,
    pub injected: Option<Injected>,
    /// Distinguishes this call from one of the same number before a reset.
    pub(super) name: u128,
}

impl Call {
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

pub(super) fn target(headers: &HeaderMap) -> Option<(AwsService, String)> {
    let target = headers.get("x-amz-target")?.to_str().ok()?;
    let (service, operation) = target.split_once('.')?;
    let service = match service {
        "AmazonSQS" => AwsService::Sqs,
        "AWSStepFunctions" => AwsService::StepFunctions,
        "secretsmanager" => AwsService::SecretsManager,
        versioned if versioned.starts_with("DynamoDB_") => AwsService::DynamoDb,
        other => AwsService::Other(other.to_owned()),
    };
    Some((service, operation.to_owned()))
}
