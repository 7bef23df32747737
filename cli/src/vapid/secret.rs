//! A stack's set of VAPID keys in its secret.
//!
//! Two operators may rotate at the same time: the second adds a key to what the first has written, and no key is lost. Workers
//! that meet an unknown key id read the secret again.
//!
//! The HTTP API cannot read the secret. It lists the public keys that are published here after each change; if that fails,
//! dispatch publishes them some minutes later.

use redial_adapters::{
    public_keys_dynamo::DynamoPublicKeys,
    secrets::Secret,
    vapid::{NotRetired, VapidDocument, VapidKeys},
};
use redial_core::identity::VapidKeyId;

use super::owner::refuse_owned;
use crate::{
    failure::Failure,
    rotation::secret::{KeysSecret, SecretFailure, Variables, Version},
    stack::Target,
    terminal::say,
};

const VARIABLES: Variables = Variables {
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

/// An unknown id is invalid input; the current key is refused.
pub(super) fn not_retired(id: &VapidKeyId, error: NotRetired) -> Failure {
    match error {
        NotRetired::Unknown => Failure::input(format!("{id}: {error}")),
        NotRetired::Current => Failure::Failed(format!("{id} stays: {error}").into()),
    }
}
