//! A stack's set of VAPID keys in its secret.
//!
//! Two operators may rotate at the same time: the second adds a key to what the first has written, and no key is lost. Workers
//! that meet an unknown key id read the secret again.
//!
//! CloudFormation writes a secret again whenever its source property changes. The template's own VAPID secret comes from a
//! parameter, so a deployment with another `VapidPrivateKey` would replace all rotated keys by one. A secret that no stack
//! manages is safe from that.
//!
//! The HTTP API cannot read the secret. It lists the public keys that are published here after each change; if that fails,
//! dispatch publishes them some minutes later.

use aws_sdk_cloudformation::types::{ResourceStatus, StackResourceDetail};
use redial_adapters::{
    public_keys_dynamo::DynamoPublicKeys,
    secrets::Secret,
    vapid::{NotRetired, VapidDocument, VapidKeys},
};
use redial_core::identity::VapidKeyId;

use crate::{
    aws_error::{AwsError, classified},
    failure::Failure,
    rotation::secret::{KeysSecret, SecretFailure, Variables, Version},
    stack::Target,
    terminal::say,
};

pub(crate) const VARIABLES: Variables = Variables {
    value: "VAPID_PRIVATE_KEY",
    id: "VAPID_SECRET_ID",
    remedy: "the stack's VAPID key is in its functions' environment (VAPID_PRIVATE_KEY), which the template sets: generate a key \
             (redial vapid generate), write {\"default\": ID, \"current\": NEW, \"keys\": {ID: OLD KEY, NEW: NEW KEY}} \
             there, and deploy; or put that into a secret that VapidSecretId names, and rotate it with this command from then on",
};

/// Each try starts from what another rotation wrote in the meantime.
const TRIES: usize = 4;

/// The secret with a stack's VAPID keys, and the row with their public halves.
#[derive(Debug)]
pub(super) struct VapidSecret {
    secret: KeysSecret,
    public: DynamoPublicKeys,
}

impl VapidSecret {
    pub(super) async fn of(target: &Target) -> Result<Self, Failure> {
        Ok(Self { secret: KeysSecret::of(target, &VARIABLES).await?, public: target.public_keys() })
    }

    /// For a change: refused if a deployment could overwrite it.
    pub(super) async fn to_change(target: &Target) -> Result<Self, Failure> {
        let secret = Self::of(target).await?;
        // Emulated stacks are deployed once.
        if !target.is_emulated() {
            refuse_owned(target, secret.id()).await?;
        }
        Ok(secret)
    }

    /// Name or ARN.
    pub(super) fn id(&self) -> &str {
        &self.secret.id
    }

    pub(super) async fn keys(&self) -> Result<VapidKeys, Failure> {
        Ok(self.read().await?.2)
    }

    /// Adds a key, as the current one.
    pub(super) async fn add(&self, id: &VapidKeyId, key: &Secret) -> Result<VapidKeys, Failure> {
        self.change(|document| {
            let changed = document.with_current(id.clone(), key.clone());
            changed.map_err(|taken| Failure::input(format!("--id {id}: {taken}")))
        })
        .await
    }

    pub(super) async fn remove(&self, id: &VapidKeyId) -> Result<VapidKeys, Failure> {
        self.change(|document| document.without(id).map_err(|error| not_retired(id, error))).await
    }

    async fn read(&self) -> Result<(Version, VapidDocument, VapidKeys), Failure> {
        let version = self.secret.read().await?;
        let document = VapidDocument::parse(version.text.expose()).map_err(|it| self.secret.invalid(it))?;
        let keys = document.keys().map_err(|error| self.secret.invalid(error))?;
        Ok((version, document, keys))
    }

    async fn change(
        &self,
        change: impl Fn(VapidDocument) -> Result<VapidDocument, Failure>,
    ) -> Result<VapidKeys, Failure> {
        for _ in 0..TRIES {
            let (version, document, _) = self.read().await?;
            let document = change(document)?;
            let wanted = document.keys().map_err(|error| self.secret.invalid(error))?;
            if self.secret.exchange(&version, &document.written()).await? {
                let keys = self.as_written(&wanted).await?;
                if let Err(error) = self.public.publish(&keys).await {
                    say(&format!(
                        "the public keys could not be published ({error}): the HTTP API lists the keys from before until \
                         dispatch publishes the new ones, within five minutes"
                    ));
                }
                return Ok(keys);
            }
        }
        Err(SecretFailure::Overtaken.into())
    }

    /// Reads the secret again, and fails if a key is missing.
    async fn as_written(&self, wanted: &VapidKeys) -> Result<VapidKeys, Failure> {
        let (_, _, keys) = self.read().await?;
        let is_there = |id: &VapidKeyId| keys.ids().any(|it| it == id);
        let missing: Vec<&str> = wanted.ids().filter(|id| !is_there(id)).map(VapidKeyId::as_str).collect();
        if missing.is_empty() {
            return Ok(keys);
        }
        let words = format!(
            "after the change, keys are missing from the secret {}: {}. Its version AWSPREVIOUS has the keys from before",
            self.id(),
            missing.join(", ")
        );
        Err(Failure::Failed(words.into()))
    }
}

/// Why a key was not removed.
pub(super) fn not_retired(id: &VapidKeyId, error: NotRetired) -> Failure {
    let words = match error {
        NotRetired::Unknown => format!("{id}: {error}"),
        NotRetired::Current => format!("{id} stays: {error}"),
    };
    Failure::Failed(words.into())
}

/// The template's own secret of the VAPID key.
const LOGICAL_ID: &str = "VapidSecret";

/// Fails if the stack manages the secret. Other stacks are not checked: deployments of this one do not write their secrets, and a
/// search by the secret's own id would list a hundred resources at most.
pub(crate) async fn refuse_owned(target: &Target, secret: &str) -> Result<(), Failure> {
    let client = aws_sdk_cloudformation::Client::new(&target.sdk);
    let request = client.describe_stack_resource().stack_name(&target.name).logical_resource_id(LOGICAL_ID);
    let described = classified("cloudformation:DescribeStackResource", request.send().await);
    judge_owner(described.map(|it| it.stack_resource_detail), &target.name, secret)
}

fn judge_owner(
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
    fn a_secret_that_the_stack_manages_or_may_manage_is_refused() {
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
            let judged = judge_owner(resource, "shop", SECRET).map_err(|failure| format!("{failure:?}"));
            match refused {
                Some(words) => assert!(judged.is_err_and(|failure| failure.contains(words)), "{case}"),
                None => assert_eq!(judged, Ok(()), "{case}"),
            }
        }
    }
}
