//! Brings a packaged template up through CloudFormation: artifacts into S3 by plain PUT, then `CreateStack`.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_cloudformation::{
    Client,
    error::ProvideErrorMetadata as _,
    types::{Capability, Parameter, ResourceStatus, StackEvent, StackStatus},
};

use super::{
    StackKey,
    bootstraps::Bundle,
    clients::signed_put,
    error::{LocalError, call, chain},
    package,
};

/// The bucket that templates and code are uploaded to, each stack's into a folder of its own: several may be deployed to one emulator
/// at once.
const BUCKET: &str = "redial-artifacts";

const NO_REASON: &str = "no reason given";
const TEMPLATE_KEY: &str = "template.yaml";
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How often a deletion is seen to have failed before it has: for half a minute.
const MOST_FAILURES: u32 = 60;
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How long a deployment may take: half a second on the embedded emulator, minutes on a LocalStack that loads services.
const DEPLOY_LIMIT: Duration = Duration::from_secs(600);

/// Where the artifacts of the stack of this name lie: the bucket, and the folder in it.
pub(super) fn artifacts(name: &str) -> String {
    format!("{BUCKET}/{name}")
}

pub(super) struct Deployment<'a> {
    pub(super) name: &'a str,
    /// Packaged for [`artifacts`].
    pub(super) template: &'a package::Template,
    pub(super) definition: &'a str,
    pub(super) bundles: Vec<Bundle>,
    pub(super) key: &'a StackKey,
    pub(super) parameters: &'a BTreeMap<String, String>,
}

impl Deployment<'_> {
    /// Uploads and creates; returns the stack's outputs once it is complete.
    pub(super) async fn run(
        self,
        endpoint: &str,
        http: &reqwest::Client,
        cloudformation: &Client,
    ) -> Result<BTreeMap<String, String>, LocalError> {
        let folder = format!("{endpoint}/{}", artifacts(self.name));
        let put = async |url: &str, body: Vec<u8>| put(signed_put(http, url, self.key)?, url, body).await;
        put(&format!("{endpoint}/{BUCKET}"), Vec::new()).await?;
        for bundle in self.bundles {
            put(&format!("{folder}/{}", package::code_key(bundle.function)), bundle.zip).await?;
        }
        put(&format!("{folder}/{}", package::DEFINITION_KEY), self.definition.into()).await?;
        let template_url = format!("{folder}/{TEMPLATE_KEY}");
        put(&template_url, self.template.0.as_str().into()).await?;

        let parameters = self
            .parameters
            .iter()
            .map(|(key, value)| Parameter::builder().parameter_key(key).parameter_value(value).build())
            .collect();
        let created = cloudformation
            .create_stack()
            .stack_name(self.name)
            .template_url(template_url)
            .set_parameters(Some(parameters))
            .capabilities(Capability::CapabilityIam)
            .capabilities(Capability::CapabilityAutoExpand)
            .send()
            .await;
        if let Err(error) = &created
            && error.code() == Some("AlreadyExistsException")
        {
            return Err(LocalError::AlreadyUp(self.name.to_owned()));
        }
        created.map_err(call("CreateStack"))?;
        let outputs = outputs_when_complete(cloudformation, self.name);
        tokio::time::timeout(DEPLOY_LIMIT, outputs).await.unwrap_or_else(|_| {
            let status = format!("not complete after {} s", DEPLOY_LIMIT.as_secs());
            Err(LocalError::Deploy { status, failures: Vec::new() })
        })
    }
}

/// Waits for the end of a creation, if one is under way: what it makes after a deletion would stay.
pub(super) async fn until_created(cloudformation: &Client, name: &str) {
    let _outcome = tokio::time::timeout(DEPLOY_LIMIT, outputs_when_complete(cloudformation, name)).await;
}

pub(super) async fn delete(cloudformation: &Client, name: &str) -> Result<(), LocalError> {
    cloudformation.delete_stack().stack_name(name).send().await.map_err(call("DeleteStack"))?;
    let mut failures = 0;
    loop {
        match cloudformation.describe_stacks().stack_name(name).send().await {
            Err(error) if error.code() == Some("ValidationError") => return Ok(()),
            Err(error) => return Err(call("DescribeStacks")(error)),
            Ok(answer) => match answer.stacks().first().and_then(|stack| stack.stack_status()) {
                None | Some(StackStatus::DeleteComplete) => return Ok(()),
                // LocalStack says so of each resource that it deletes a moment later.
                Some(StackStatus::DeleteFailed) if failures < MOST_FAILURES => {
                    failures += 1;
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                Some(StackStatus::DeleteFailed) => {
                    return Err(LocalError::Deploy {
                        status: "DELETE_FAILED".to_owned(),
                        failures: Vec::new(),
                    });
                }
                Some(_) => tokio::time::sleep(POLL_INTERVAL).await,
            },
        }
    }
}

async fn put(request: reqwest::RequestBuilder, url: &str, body: Vec<u8>) -> Result<(), LocalError> {
    let failed = |message: String| LocalError::Call { call: "PutObject", message };
    let answer = request.body(body).send().await.map_err(|error| failed(chain(&error)))?;
    let status = answer.status();
    if status.is_success() || status == reqwest::StatusCode::CONFLICT {
        return Ok(());
    }
    Err(failed(format!("{status} for {url}")))
}

async fn outputs_when_complete(
    cloudformation: &Client,
    name: &str,
) -> Result<BTreeMap<String, String>, LocalError> {
    loop {
        let answer = cloudformation.describe_stacks().stack_name(name).send().await;
        let answer = answer.map_err(call("DescribeStacks"))?;
        let stack = answer.stacks().first();
        match stack.and_then(|stack| stack.stack_status()) {
            Some(StackStatus::CreateComplete) => {
                let outputs = stack.map(|stack| stack.outputs()).unwrap_or_default();
                return Ok(outputs
                    .iter()
                    .filter_map(|output| Some((output.output_key.clone()?, output.output_value.clone()?)))
                    .collect());
            }
            Some(StackStatus::CreateInProgress) => tokio::time::sleep(POLL_INTERVAL).await,
            status => {
                let status = status.map_or("absent", StackStatus::as_str).to_owned();
                return Err(LocalError::Deploy { status, failures: failures(cloudformation, name).await });
            }
        }
    }
}

/// What failed, oldest first; empty if the events cannot be read.
async fn failures(cloudformation: &Client, name: &str) -> Vec<String> {
    let Ok(answer) = cloudformation.describe_stack_events().stack_name(name).send().await else {
        return Vec::new();
    };
    reasons(answer.stack_events())
}

/// Of events, the youngest first.
fn reasons(events: &[StackEvent]) -> Vec<String> {
    let failed = events.iter().filter(|event| event.resource_status() == Some(&ResourceStatus::CreateFailed));
    let reason = |event: &StackEvent| {
        let resource = event.logical_resource_id().unwrap_or("?");
        format!("{resource}: {}", event.resource_status_reason().unwrap_or(NO_REASON))
    };
    let mut failures: Vec<String> = failed.map(reason).collect();
    // What failed because of another resource has no reason of its own on LocalStack. If it cannot transform a template, the reason is in
    // the event of the stack's roll-back.
    if failures.iter().all(|failure| failure.ends_with(NO_REASON)) {
        let of_stack = |event: &&StackEvent| {
            event.resource_status() == Some(&ResourceStatus::RollbackInProgress)
                && event.resource_status_reason().is_some()
        };
        failures.extend(events.iter().filter(of_stack).map(reason));
    }
    if failures.iter().any(|failure| !failure.ends_with(NO_REASON)) {
        failures.retain(|failure| !failure.ends_with(NO_REASON));
    }
    failures.reverse();
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(resource: &str, status: ResourceStatus, reason: Option<&str>) -> StackEvent {
        let event = StackEvent::builder().logical_resource_id(resource).resource_status(status);
        event.set_resource_status_reason(reason.map(str::to_owned)).build()
    }

    #[test]
    fn each_resource_that_failed_is_named_with_its_reason_and_its_consequences_are_not() {
        let events = [
            event("shop", ResourceStatus::CreateFailed, None),
            event("RetryQueue", ResourceStatus::CreateFailed, Some("no such key")),
            event("CleanupFunction", ResourceStatus::CreateFailed, Some("no Docker")),
            event("IngestQueue", ResourceStatus::CreateComplete, Some("made")),
        ];
        assert_eq!(reasons(&events), ["CleanupFunction: no Docker", "RetryQueue: no such key"]);
        assert_eq!(reasons(&events[..1]), ["shop: no reason given"]);
        let rolled_back = event("shop", ResourceStatus::RollbackInProgress, Some("no region"));
        assert_eq!(reasons(&[events[0].clone(), rolled_back]), ["shop: no region"]);
    }
}
