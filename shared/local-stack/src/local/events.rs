//! A queue of events for a local stack: on AWS it is the producers' own, and here there are none.

use aws_config::SdkConfig;
use aws_sdk_sqs::error::ProvideErrorMetadata as _;

use super::{
    clients::REGION,
    error::{LocalError, call},
    localstack,
};

const ACCOUNT: &str = "000000000000";

fn name(stack: &str) -> String {
    format!("{stack}-events")
}

/// Its ARN, which the template is given.
pub(super) fn arn(stack: &str) -> String {
    format!("arn:aws:sqs:{}:{ACCOUNT}:{}", REGION, name(stack))
}

/// Makes it, and answers its URL.
pub(super) async fn create(sdk: &SdkConfig, stack: &str) -> Result<String, LocalError> {
    let made = aws_sdk_sqs::Client::new(sdk).create_queue().queue_name(name(stack)).send().await;
    let url = made.map_err(call("CreateQueue"))?.queue_url;
    url.ok_or_else(|| LocalError::Call { call: "CreateQueue", message: "no URL was answered".to_owned() })
}

/// The URL of that of a stack, if it was made.
pub(super) async fn find(sdk: &SdkConfig, stack: &str) -> Result<Option<String>, LocalError> {
    match aws_sdk_sqs::Client::new(sdk).get_queue_url().queue_name(name(stack)).send().await {
        Err(error) if localstack::is_absent_queue(error.code()) => Ok(None),
        found => Ok(found.map_err(call("GetQueueUrl"))?.queue_url),
    }
}
