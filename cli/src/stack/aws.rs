//! A stack in the user's AWS account, found by its name.
//!
//! Region and credentials come from where every AWS tool reads them (environment, profile, single sign-on, instance role);
//! `AWS_ENDPOINT_URL` works too, and leads to an emulator.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_cloudformation::error::ProvideErrorMetadata as _;
use redial_adapters::aws_http::{CA_BUNDLE_VARIABLE, http_client};

use super::{
    outputs,
    target::{Target, TargetError, timeouts},
};
use crate::aws_error;

/// One attempt of a call: long enough for a mebibyte over a slow line.
const ATTEMPT: Duration = Duration::from_secs(30);

pub(super) async fn deployed(
    name: &str,
    region: Option<&str>,
    profile: Option<&str>,
) -> Result<Target, TargetError> {
    let sdk = sdk_config(region, profile).await?;
    let region = sdk.region().ok_or(TargetError::NoRegion)?.to_string();
    let client = aws_sdk_cloudformation::Client::new(&sdk);
    let answer = client.describe_stacks().stack_name(name).send().await.map_err(|error| {
        let message = error.message().unwrap_or_default();
        if error.code() == Some("ValidationError") && message.contains("does not exist") {
            TargetError::NoStack { name: name.to_owned(), region: region.clone() }
        } else {
            TargetError::Lookup { name: name.to_owned(), message: aws_error::message(&error) }
        }
    })?;
    let values: BTreeMap<&str, &str> = answer
        .stacks()
        .iter()
        .flat_map(|stack| stack.outputs())
        .filter_map(|output| Some((output.output_key()?, output.output_value()?)))
        .collect();
    outputs::target(name, sdk, &values)
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
    Ok(loader.load().await)
}
