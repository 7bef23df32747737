//! A stack's set of VAPID keys in its secret: read, with one more, with one less.
//!
//! Two operators may rotate at the same time: then whoever is second adds a key to what the first has written, and no key
//! is lost. Workers need not be told: one that meets an id that it does not know reads the secret again.
//!
//! The HTTP API cannot read the secret. What it lists is published here after each change; where that fails, dispatch does it some
//! minutes later, so that a change of keys does not depend on it.

use redial_adapters::{
    public_keys_dynamo::DynamoPublicKeys,
    secrets::Secret,
    vapid::{NotRetired, VapidDocument, VapidKeys, VapidKeysError},
};
use redial_core::identity::VapidKeyId;

use super::{
    functions::{Function, KeyPlace},
    owner::refuse_owned,
    secret::{KeysSecret, Version},
};
use crate::{failure::Failure, target::Target, terminal::say};

const VALUE: &str = "VAPID_PRIVATE_KEY";
const ID: &str = "VAPID_SECRET_ID";

/// How often a change begins anew when others keep changing the secret.
const ROUNDS: usize = 4;

/// Why a set of keys is not changed.
#[derive(Debug, thiserror::Error)]
enum NotChanged {
    #[error(
        "the stack's VAPID key stands in its functions' environment ({VALUE}), which the template sets: make a key \
         (redial vapid generate), write {{\"default\": ID, \"current\": NEW, \"keys\": {{ID: OLD KEY, NEW: NEW KEY}}}} \
         there, and deploy; or put that into a secret that VapidSecretId names, and later rotations are done here"
    )]
    Environment,
    #[error("the stack's functions have no VAPID key: neither {VALUE} nor {ID} is set (see redial doctor)")]
    Nowhere,
    #[error("what stands in the secret {id} cannot be used: {error}")]
    Unusable { id: String, error: VapidKeysError },
    #[error(
        "each of {ROUNDS} times the secret had changed meanwhile; no key was lost, look at redial vapid status"
    )]
    Overtaken,
    #[error(
        "after it was written, the secret {id} had not all the keys that it should have: missing {missing}. What was \
         there before is its version AWSPREVIOUS"
    )]
    Lost { id: String, missing: String },
}

/// The secret with a stack's VAPID keys, and the row with their public halves.
#[derive(Debug)]
pub(crate) struct VapidSecret {
    secret: KeysSecret,
    public: DynamoPublicKeys,
}

impl VapidSecret {
    /// That of a stack.
    pub(crate) async fn of(target: &Target) -> Result<Self, Failure> {
        match Function::dispatch(target).await?.key_place(VALUE, ID) {
            KeyPlace::Secret(id) => Ok(Self { secret: KeysSecret::new(target, &id), public: public(target) }),
            KeyPlace::Environment => Err(NotChanged::Environment.into()),
            KeyPlace::Nowhere => Err(NotChanged::Nowhere.into()),
        }
    }

    /// That of a stack, if no deployment can write over a change of it.
    pub(crate) async fn to_change(target: &Target) -> Result<Self, Failure> {
        let secret = Self::of(target).await?;
        // What is deployed to an emulator is never deployed again.
        if !target.is_emulated() {
            let cloudformation = aws_sdk_cloudformation::Client::new(&target.sdk);
            refuse_owned(&cloudformation, &target.name, secret.id()).await?;
        }
        Ok(secret)
    }

    /// Its name or ARN.
    pub(crate) fn id(&self) -> &str {
        &self.secret.id
    }

    /// The keys as they are.
    pub(crate) async fn keys(&self) -> Result<VapidKeys, Failure> {
        Ok(self.read().await?.2)
    }

    /// Publishes the public halves, which the HTTP API lists.
    async fn publish(&self, keys: &VapidKeys) {
        if let Err(error) = self.public.publish(keys).await {
            say(&format!(
                "the HTTP API lists the keys as they were, because the public ones could not be published ({error}): dispatch \
                 publishes them within five minutes"
            ));
        }
    }

    /// With this key beside the others, and the current one from now on.
    pub(crate) async fn add(&self, id: &VapidKeyId, key: &Secret) -> Result<VapidKeys, Failure> {
        self.change(|document| {
            let changed = document.with_current(id.clone(), key.clone());
            changed.map_err(|taken| Failure::input(format!("--id {id}: {taken}")))
        })
        .await
    }

    /// Without the key of that id.
    pub(crate) async fn remove(&self, id: &VapidKeyId) -> Result<VapidKeys, Failure> {
        self.change(|document| document.without(id).map_err(|error| not_retired(id, error))).await
    }

    async fn read(&self) -> Result<(Version, VapidDocument, VapidKeys), Failure> {
        let version = self.secret.read().await?;
        let unusable = |error| NotChanged::Unusable { id: self.secret.id.clone(), error };
        let document = VapidDocument::parse(version.text.expose()).map_err(unusable)?;
        let keys = document.keys().map_err(unusable)?;
        Ok((version, document, keys))
    }

    async fn change(
        &self,
        change: impl Fn(VapidDocument) -> Result<VapidDocument, Failure>,
    ) -> Result<VapidKeys, Failure> {
        for _ in 0..ROUNDS {
            let (version, document, _) = self.read().await?;
            let document = change(document)?;
            let wanted = document.keys().map_err(|error| {
                // It was readable before, so what was added is not.
                NotChanged::Unusable { id: self.secret.id.clone(), error }
            })?;
            if self.secret.exchange(&version, &document.written()).await? {
                let keys = self.as_written(&wanted).await?;
                self.publish(&keys).await;
                return Ok(keys);
            }
        }
        Err(NotChanged::Overtaken.into())
    }

    /// What everyone reads now, with every key that was written.
    async fn as_written(&self, wanted: &VapidKeys) -> Result<VapidKeys, Failure> {
        let (_, _, keys) = self.read().await?;
        let is_there = |id: &VapidKeyId| keys.ids().any(|it| it == id);
        let missing: Vec<&str> = wanted.ids().filter(|id| !is_there(id)).map(VapidKeyId::as_str).collect();
        if missing.is_empty() {
            return Ok(keys);
        }
        Err(NotChanged::Lost { id: self.secret.id.clone(), missing: missing.join(", ") }.into())
    }
}

fn public(target: &Target) -> DynamoPublicKeys {
    DynamoPublicKeys::new(aws_sdk_dynamodb::Client::new(&target.sdk), target.tables.control.clone())
}

/// That there is no such key is a matter of what was given; all else was refused.
pub(crate) fn not_retired(id: &VapidKeyId, error: NotRetired) -> Failure {
    match error {
        NotRetired::Unknown => Failure::input(format!("{id}: {error}")),
        NotRetired::Current => Failure::Failed(format!("{id} stays: {error}").into()),
    }
}
