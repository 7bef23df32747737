//! Which CloudFormation stack manages a secret.
//!
//! CloudFormation writes a secret again whenever its source property changes. The template's own VAPID secret comes from a
//! parameter, so a deployment with another `VapidPrivateKey` would replace all rotated keys by one. A secret that no stack
//! manages is safe from that.

use aws_sdk_cloudformation::types::{ResourceStatus, StackResourceDetail};

use crate::{
    aws_error::{AwsError, classified},
    failure::Failure,
    stack::Target,
};

/// The template's own secret of the VAPID key.
const LOGICAL_ID: &str = "VapidSecret";

/// Fails if the stack manages the secret. Other stacks are not checked: deployments of this one do not write their secrets, and a
/// search by the secret's own id would list a hundred resources at most.
pub(crate) async fn refuse_owned(target: &Target, secret: &str) -> Result<(), Failure> {
    let client = aws_sdk_cloudformation::Client::new(&target.sdk);
    let request = client.describe_stack_resource().stack_name(&target.name).logical_resource_id(LOGICAL_ID);
    let described = classified("cloudformation:DescribeStackResource", request.send().await);
    judge(described.map(|it| it.stack_resource_detail), &target.name, secret)
}

fn judge(
    resource: Result<Option<StackResourceDetail>, AwsError>,
    stack: &str,
    secret: &str,
) -> Result<(), Failure> {
    let resource = match resource {
        Err(AwsError::Absent) => None,
        resource => resource.map_err(|error| {
            error.failure(&format!("cannot determine whether the stack manages the secret {secret}"))
        })?,
    };
    let owns = resource.is_some_and(|resource| {
        let status = resource.resource_status();
        let is_gone = matches!(status, Some(ResourceStatus::DeleteComplete | ResourceStatus::DeleteSkipped));
        resource.physical_resource_id() == Some(secret) && !is_gone
    });
    if !owns {
        return Ok(());
    }
    let words = format!(
        "the stack {stack} made the secret {secret} from VapidPrivateKey, and a deployment with another key would \
         overwrite the rotated keys. Make the stack release the secret first, which changes neither the secret nor the functions: \
         sam build && sam deploy --stack-name {stack} --parameter-overrides VapidSecretId={secret} VapidPrivateKey=none \
         (with your other parameters; and the same two in samconfig.toml)"
    );
    Err(Failure::Failed(words.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "arn:aws:secretsmanager:eu-central-1:1:secret:VapidSecret-a";

    #[test]
    fn a_managed_secret_is_refused_with_the_way_to_release_it_and_so_is_one_with_an_unknown_owner() {
        let managed = |physical_id: &str, status| {
            let detail =
                StackResourceDetail::builder().physical_resource_id(physical_id).resource_status(status);
            Ok(Some(detail.build()))
        };
        let release =
            format!("--stack-name shop --parameter-overrides VapidSecretId={SECRET} VapidPrivateKey=none");
        let denied = AwsError::Refused { permission: "cloudformation:DescribeStackResource".to_owned() };
        for (resource, refused) in [
            (managed(SECRET, ResourceStatus::CreateComplete), Some(release.as_str())),
            (managed("another", ResourceStatus::CreateComplete), None),
            (managed(SECRET, ResourceStatus::DeleteSkipped), None),
            (Err(AwsError::Absent), None),
            (Err(denied), Some("cannot determine whether the stack manages")),
        ] {
            let case = format!("{resource:?}");
            let judged = judge(resource, "shop", SECRET).map_err(|failure| format!("{failure:?}"));
            match refused {
                Some(words) => assert!(judged.is_err_and(|failure| failure.contains(words)), "{case}"),
                None => assert_eq!(judged, Ok(()), "{case}"),
            }
        }
    }
}
