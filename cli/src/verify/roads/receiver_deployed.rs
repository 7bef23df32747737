//! The receiver as a stack of its own, with one function behind a function URL.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_cloudformation::{
    Client,
    types::{Capability, Parameter, ResourceStatus, StackStatus},
};

use crate::aws_error::{AwsError, classified};

const PAUSE: Duration = Duration::from_secs(2);

pub(super) struct DeployedReceiver {
    client: Client,
    /// In CloudFormation.
    name: String,
}

impl DeployedReceiver {
    pub(super) fn new(sdk: &SdkConfig, name: String) -> Self {
        Self { client: Client::new(sdk), name }
    }

    /// Deploys it with these parameters and returns its URL; what CloudFormation says otherwise.
    pub(super) async fn deploy(
        &self,
        template: &str,
        parameters: [(&str, &str); 6],
    ) -> Result<String, String> {
        let parameter =
            |(name, value)| Parameter::builder().parameter_key(name).parameter_value(value).build();
        let create = self.client.create_stack().stack_name(&self.name).template_body(template);
        let create = create.set_parameters(Some(parameters.map(parameter).into()));
        let create = create.capabilities(Capability::CapabilityIam).send().await;
        classified("cloudformation:CreateStack", create).map_err(|error| error.in_words())?;
        loop {
            let described = self.client.describe_stacks().stack_name(&self.name).send().await;
            let described = classified("cloudformation:DescribeStacks", described);
            let described = described.map_err(|error| error.in_words())?;
            let stack = described.stacks().first().ok_or("CloudFormation does not know it")?;
            match stack.stack_status() {
                Some(StackStatus::CreateComplete) => {
                    let url = stack.outputs().iter().find(|output| output.output_key() == Some("Url"));
                    let url = url.and_then(|output| output.output_value()).ok_or("it has no URL")?;
                    return Ok(url.trim_end_matches('/').to_owned());
                }
                Some(StackStatus::CreateInProgress) => tokio::time::sleep(PAUSE).await,
                _ => return Err(self.reason().await),
            }
        }
    }

    /// Why the first resource failed.
    async fn reason(&self) -> String {
        let events = self.client.describe_stack_events().stack_name(&self.name).send().await;
        let events = events.map(|it| it.stack_events.unwrap_or_default()).unwrap_or_default();
        let failed =
            events.iter().rev().find(|it| it.resource_status() == Some(&ResourceStatus::CreateFailed));
        failed
            .and_then(|it| it.resource_status_reason())
            .unwrap_or("CloudFormation gives no reason")
            .to_owned()
    }

    /// Removes it, also half made; what is not there is no error.
    pub(super) async fn remove(&self) -> Result<(), AwsError> {
        let deleted = self.client.delete_stack().stack_name(&self.name).send().await;
        classified("cloudformation:DeleteStack", deleted)?;
        loop {
            let described = self.client.describe_stacks().stack_name(&self.name).send().await;
            let described = match classified("cloudformation:DescribeStacks", described) {
                Err(AwsError::Absent) => return Ok(()),
                described => described?,
            };
            match described.stacks().first().and_then(|stack| stack.stack_status()) {
                None | Some(StackStatus::DeleteComplete) => return Ok(()),
                Some(StackStatus::DeleteFailed) => {
                    return Err(AwsError::Failed { code: None, words: "the deletion failed".to_owned() });
                }
                Some(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}
