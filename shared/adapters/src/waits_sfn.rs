//! Step Functions executions that end waits.
//!
//! One execution a bucket, named after it: StartExecution with the same name and input is idempotent while it runs. Where
//! an earlier one of that name has ended (it failed, or was stopped by hand), the next number is started.

use aws_sdk_sfn::Client;
use aws_sdk_sfn::operation::start_execution::StartExecutionError;
use aws_sdk_sfn::types::ExecutionStatus;
use redial_core::wait::WaitBucket;
use redial_engine::ports::{PortError, WaitExecutions};

use crate::aws_error;
use crate::cache::Cache;
use crate::on_first_use::OnFirstUse;
use crate::outbox_sqs::QueueUrls;

/// How many executions of a bucket may fail before it is left to the sweep.
const MOST_EXECUTIONS: u32 = 10;

/// The state machine of `infra/wait.asl.json`.
#[derive(Debug)]
pub struct SfnWaits {
    client: OnFirstUse<Client>,
    state_machine_arn: String,
    urls: QueueUrls,
    started: Cache<WaitBucket, ()>,
}

impl SfnWaits {
    pub fn new(client: impl Into<OnFirstUse<Client>>, state_machine_arn: String, urls: QueueUrls) -> Self {
        Self { client: client.into(), state_machine_arn, urls, started: Cache::default() }
    }

    /// The input of a bucket's execution: the same from every worker, and no payload.
    fn input(&self, bucket: WaitBucket) -> String {
        serde_json::json!({
            "release": bucket.name(),
            "until": bucket.start().to_rfc3339_seconds(),
            "queue_url": self.urls.retry_of(bucket.lane()),
        })
        .to_string()
    }

    async fn is_running(&self, execution: &str) -> Result<bool, PortError> {
        let arn = format!("{}:{execution}", self.state_machine_arn.replace(":stateMachine:", ":execution:"));
        let described = self.client.describe_execution().execution_arn(arn).send().await;
        let described = described.map_err(|error| aws_error::of_call("DescribeExecution", &error))?;
        Ok(*described.status() == ExecutionStatus::Running)
    }
}

impl WaitExecutions for SfnWaits {
    async fn ensure_running(&self, bucket: WaitBucket) -> Result<(), PortError> {
        if self.started.contains(&bucket) {
            return Ok(());
        }
        for n in 1..=MOST_EXECUTIONS {
            let name = bucket.execution_name(n);
            let start = self.client.start_execution().state_machine_arn(&self.state_machine_arn);
            let started = Box::pin(start.name(&name).input(self.input(bucket)).send()).await;
            let is_running = match started {
                Ok(_) => true,
                Err(error) => match error.as_service_error() {
                    Some(StartExecutionError::ExecutionAlreadyExists(_)) => self.is_running(&name).await?,
                    _ => return Err(aws_error::of_call("StartExecution", &error)),
                },
            };
            if is_running {
                self.started.insert(bucket, (), |()| 0);
                return Ok(());
            }
        }
        tracing::warn!(
            event = "wait_not_started",
            bucket = bucket.name(),
            "the executions of a bucket keep ending early; the sweep will release it"
        );
        Ok(())
    }
}
