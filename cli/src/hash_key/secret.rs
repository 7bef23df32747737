//! Rotating the key that endpoints and contents are hashed with.
//!
//! Workers read it when they start, and compare hashes that other workers wrote. So there are two phases. First the new key is
//! announced, and all workers restart, so that each knows it. Then it becomes the current one, the key before it is kept, and
//! all workers restart again, so that none uses the old one. Between the phases the command waits for the longest invocation,
//! because a worker that is replaced still finishes what it has begun.
//!
//! The secret holds the progress: a rotation that was interrupted is completed by the next run.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial_adapters::{secrets::Secret, system::System};
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::document::{HashDocument, Step};
use crate::{
    failure::Failure,
    rotation::{
        functions,
        secret::{KeysSecret, SecretFailure, Variables, Version},
    },
    stack::Target,
    terminal::say,
};

pub(crate) const VARIABLES: Variables = Variables {
    value: "ENDPOINT_HASH_KEY",
    id: "ENDPOINT_HASH_SECRET_ID",
    remedy: "the key is in the functions' environment (ENDPOINT_HASH_KEY), which the template sets: deploy once with \
             OLD-ID:OLD-KEY,NEW-ID:NEW-KEY there and, when that is done, again with NEW-ID:NEW-KEY,OLD-ID:OLD-KEY",
};

/// Bytes of a new key: those of HMAC-SHA256's block, less what base64url adds.
const KEY_BYTES: usize = 48;

/// The secret with the key of a stack's hashes.
pub(super) struct HashSecret<'a> {
    target: &'a Target,
    secret: KeysSecret,
}

impl<'a> HashSecret<'a> {
    pub(super) async fn of(target: &'a Target) -> Result<Self, Failure> {
        Ok(Self { target, secret: KeysSecret::of(target, &VARIABLES).await? })
    }

    pub(super) async fn document(&self) -> Result<HashDocument, Failure> {
        Ok(self.read().await?.1)
    }

    pub(super) async fn changed_at(&self) -> Result<Option<Timestamp>, Failure> {
        Ok(self.secret.changed_at_ms().await?.map(Timestamp::from_ms))
    }

    /// Rotates to a new key of that id, or completes the rotation that was begun.
    pub(super) async fn rotate(&self, id: &str) -> Result<HashDocument, Failure> {
        let mut is_begun = false;
        loop {
            let (version, document) = self.read().await?;
            let changed = match document.step() {
                Step::Settled if is_begun => return Ok(document),
                Step::Settled => {
                    say(&format!("1 of 3: announcing the key {id}"));
                    document.announcing(id.to_owned(), &new_key())
                }
                Step::Announced => {
                    say("2 of 3: restarting workers, so that all know it");
                    let longest = self.restart().await?;
                    say(&format!("waiting {} s for invocations in progress", longest.as_secs()));
                    tokio::time::sleep(longest).await;
                    document.turned()
                }
                Step::Following => {
                    say("3 of 3: it is the current key; restarting workers, so that all use it");
                    let longest = self.restart().await?;
                    // Invocations in progress use the key before.
                    document.settled(System.now().plus(longest))
                }
            };
            is_begun = true;
            self.put(&version, &changed).await?;
        }
    }

    pub(super) async fn forget(&self, id: &str) -> Result<HashDocument, Failure> {
        let (version, document) = self.read().await?;
        let changed = document.without(id);
        self.put(&version, &changed).await?;
        Ok(changed)
    }

    /// Restarts all workers that use the secret; returns the longest timeout of their functions.
    async fn restart(&self) -> Result<Duration, Failure> {
        functions::restart(self.target, VARIABLES.id, &self.secret.id).await
    }

    async fn read(&self) -> Result<(Version, HashDocument), Failure> {
        let version = self.secret.read().await?;
        let document = HashDocument::parse(version.text.expose(), System.now())
            .map_err(|error| self.secret.invalid(error))?;
        Ok((version, document))
    }

    async fn put(&self, before: &Version, changed: &HashDocument) -> Result<(), Failure> {
        if self.secret.exchange(before, &changed.written()).await? {
            return Ok(());
        }
        Err(SecretFailure::Overtaken.into())
    }
}

fn new_key() -> Secret {
    let mut bytes = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut bytes).expect("invariant: the system has randomness");
    Secret::new(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_long_and_random() {
        let key = new_key();
        assert_eq!(key.expose().len(), 64);
        assert!(key != new_key());
    }
}
