//! A stack in the user's AWS account, found by its name.
//!
//! Region and credentials come from where every AWS tool reads them (environment, profile, single sign-on, instance role);
//! `AWS_ENDPOINT_URL` works too, and leads to an emulator.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_cloudformation::types::{Output, Stack};
use redial_adapters::{
    aws_http::{CA_BUNDLE_VARIABLE, http_client},
    config::Tables,
    outbox_sqs::QueueUrls,
};

use super::target::{Target, TargetError, timeouts};
use crate::{
    aws_error::{AwsError, classified},
    no_answer::naming_endpoints,
};

/// One attempt of a call: long enough for a mebibyte over a slow line.
const ATTEMPT: Duration = Duration::from_secs(30);

pub(super) async fn deployed(
    name: &str,
    region: Option<&str>,
    profile: Option<&str>,
) -> Result<Target, TargetError> {
    let sdk = sdk_config(region, profile).await?;
    let region = sdk.region().ok_or(TargetError::NoRegion)?.to_string();
    let stack = described(&sdk, name).await.map_err(|error| match error {
        AwsError::Absent => TargetError::NoStack { name: name.to_owned(), region: region.clone() },
        error @ (AwsError::Refused { .. } | AwsError::Failed { .. }) => {
            TargetError::Lookup { name: name.to_owned(), words: error.in_words() }
        }
    })?;
    let values =
        stack.outputs().iter().filter_map(|output| Some((output.output_key()?, output.output_value()?)));
    target(name, sdk, &values.collect())
}

async fn described(sdk: &SdkConfig, name: &str) -> Result<Stack, AwsError> {
    let described = aws_sdk_cloudformation::Client::new(sdk).describe_stacks().stack_name(name).send().await;
    let described = classified("cloudformation:DescribeStacks", described)?;
    described.stacks.into_iter().flatten().next().ok_or(AwsError::Absent)
}

impl Target {
    /// The stack of that name, if it is the one with this target's functions.
    pub(crate) async fn described(&self, name: &str) -> Result<Stack, AwsError> {
        let stack = described(&self.sdk, name).await?;
        let is_ours = |output: &Output| {
            output.output_key() == Some("DispatchFunctionName")
                && output.output_value() == Some(&self.dispatch)
        };
        if stack.outputs().iter().any(is_ours) { Ok(stack) } else { Err(AwsError::Absent) }
    }
}

async fn sdk_config(region: Option<&str>, profile: Option<&str>) -> Result<SdkConfig, TargetError> {
    let ca_bundle = std::env::var_os(CA_BUNDLE_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http_client(ca_bundle.as_deref())?)
        .timeout_config(timeouts(ATTEMPT));
    if let Some(region) = region {
        loader = loader.region(Region::new(region.to_owned()));
    }
    if let Some(profile) = profile {
        loader = loader.profile_name(profile);
    }
    Ok(naming_endpoints(loader.load().await))
}

/// All missing outputs are reported together.
fn target(name: &str, sdk: SdkConfig, outputs: &BTreeMap<&str, &str>) -> Result<Target, TargetError> {
    let mut missing = Vec::new();
    let mut output = |name: &'static str| {
        outputs.get(name).map(|value| (*value).to_owned()).unwrap_or_else(|| {
            missing.push(name);
            String::new()
        })
    };
    let target = Target {
        name: name.to_owned(),
        sdk,
        queues: QueueUrls {
            ingest: output("IngestQueueUrl"),
            bulk: output("BulkQueueUrl"),
            retry: output("RetryQueueUrl"),
            retry_bulk: output("RetryBulkQueueUrl"),
            dead_letters: output("DeadLetterQueueUrl"),
        },
        quarantine: output("QuarantineQueueUrl"),
        relay: outputs.get("EventsRelayQueueUrl").map(|url| (*url).to_owned()),
        tables: Tables {
            deliveries: output("DeliveriesTableName"),
            subscriptions: output("SubscriptionsTableName"),
            audiences: output("AudiencesTableName"),
            parked: output("ParkedTableName"),
            dead_letters: output("DeadLettersTableName"),
            control: output("ControlTableName"),
        },
        webhook_key_secret: output("WebhookKeySecretId"),
        dispatch: output("DispatchFunctionName"),
        cleanup: output("CleanupFunctionName"),
        ingest: output("IngestFunctionName"),
        lambda_endpoint: None,
    };
    if missing.is_empty() {
        return Ok(target);
    }
    Err(TargetError::NotOurs { name: name.to_owned(), missing: missing.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The template itself: an output that is renamed there and not here fails this test.
    const TEMPLATE: &str = include_str!("../../../infra/template.yaml");

    fn names() -> Vec<&'static str> {
        let (_, outputs) = TEMPLATE.split_once("\nOutputs:\n").expect("it has outputs");
        let name =
            |line: &'static str| line.strip_prefix("  ")?.strip_suffix(':').filter(|n| !n.contains(' '));
        outputs.lines().filter_map(name).collect()
    }

    #[test]
    fn the_template_has_all_outputs_that_are_needed() {
        let outputs = names().into_iter().map(|name| (name, name)).collect();
        let target = target("redial", SdkConfig::builder().build(), &outputs).expect("complete");
        assert_eq!(target.queues.retry_bulk, "RetryBulkQueueUrl");
        assert_eq!(target.quarantine, "QuarantineQueueUrl");
        assert_eq!(target.relay.as_deref(), Some("EventsRelayQueueUrl"));
        assert!(!target.is_emulated());
        assert_eq!(target.tables.control, "ControlTableName");
        assert_eq!(target.webhook_key_secret, "WebhookKeySecretId");
    }

    #[test]
    fn a_stack_that_relays_no_events_has_no_queue_for_them() {
        let outputs = names().into_iter().filter(|name| *name != "EventsRelayQueueUrl");
        let outputs = outputs.map(|name| (name, name)).collect();
        assert_eq!(target("redial", SdkConfig::builder().build(), &outputs).expect("complete").relay, None);
    }

    #[test]
    fn all_missing_outputs_are_reported_together() {
        let mut outputs: BTreeMap<_, _> = names().into_iter().map(|name| (name, name)).collect();
        outputs.remove("BulkQueueUrl");
        outputs.remove("DeadLettersTableName");
        let error =
            target("other", SdkConfig::builder().build(), &outputs).expect_err("incomplete").to_string();
        assert!(error.contains("BulkQueueUrl, DeadLettersTableName"), "{error}");
    }
}
