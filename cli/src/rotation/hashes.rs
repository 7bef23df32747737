//! Exchanging the key that endpoints and contents are hashed with.
//!
//! Workers read it when they start, and hashes travel: what one writes into a reference another one compares. So there are
//! two phases. First the new key is made known, and all workers start anew, so that each knows it; then it is made the
//! current one, the one before stays known, and all workers start anew once more, so that none uses the old one. Between
//! the phases the longest invocation is waited out, because a worker that is replaced still ends what it has begun.
//!
//! How far it has come stands in the secret. Whoever rotates and finds a rotation begun ends that one.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial_adapters::{secrets::Secret, system::System};
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::{
    functions::{self, Function, KeyPlace},
    hash_document::{HashDocument, HashDocumentError, Role, Step},
    secret::{KeysSecret, Version},
};
use crate::{failure::Failure, target::Target, terminal::say};

const VALUE: &str = "ENDPOINT_HASH_KEY";
const ID: &str = "ENDPOINT_HASH_SECRET_ID";

/// How long a key stays known after it was used for the last time: as long as the ledger keeps what was recorded with it.
/// References to dead letters wait for 14 days at most, candidates for removal for minutes.
pub(crate) const NEEDED_FOR: Duration = Duration::from_secs(15 * 86_400);

/// Bytes of a new key: those of HMAC-SHA256's block, less what base64url adds.
const KEY_BYTES: usize = 48;

/// Why the key is not exchanged.
#[derive(Debug, thiserror::Error)]
enum NotChanged {
    #[error(
        "the key stands in the functions' environment ({VALUE}), which the template sets: deploy once with \
         OLD-ID:OLD-KEY,NEW-ID:NEW-KEY there and, when that is done, once more with NEW-ID:NEW-KEY,OLD-ID:OLD-KEY"
    )]
    Environment,
    #[error("the stack's functions have no such key: neither {VALUE} nor {ID} is set (see redial doctor)")]
    Nowhere,
    #[error("what stands in the secret {id} cannot be used: {error}")]
    Unusable { id: String, error: HashDocumentError },
    #[error(
        "someone else has changed the secret meanwhile: run this again, it goes on from what stands there now"
    )]
    Overtaken,
}

/// The secret with the key of a stack's hashes.
pub(crate) struct HashSecret<'a> {
    target: &'a Target,
    secret: KeysSecret,
}

impl<'a> HashSecret<'a> {
    /// That of a stack.
    pub(crate) async fn of(target: &'a Target) -> Result<Self, Failure> {
        match Function::dispatch(target).await?.key_place(VALUE, ID) {
            KeyPlace::Secret(id) => Ok(Self { target, secret: KeysSecret::new(target, &id) }),
            KeyPlace::Environment => Err(NotChanged::Environment.into()),
            KeyPlace::Nowhere => Err(NotChanged::Nowhere.into()),
        }
    }

    /// The keys as they are.
    pub(crate) async fn document(&self) -> Result<HashDocument, Failure> {
        Ok(self.read().await?.1)
    }

    /// When the secret was last changed.
    pub(crate) async fn changed_at(&self) -> Result<Option<Timestamp>, Failure> {
        Ok(self.secret.changed_at_ms().await?.map(Timestamp::from_ms))
    }

    /// Begins a rotation to a new key of that id, or ends the one that was begun, and returns what is there then.
    pub(crate) async fn rotate(&self, id: &str) -> Result<HashDocument, Failure> {
        let mut is_begun = false;
        loop {
            let (version, document) = self.read().await?;
            let changed = match document.step() {
                Step::Settled if is_begun => return Ok(document),
                Step::Settled => {
                    say(&format!("1 of 3: the key {id} is made known"));
                    document.announcing(id.to_owned(), &new_key())
                }
                Step::Announced => {
                    say("2 of 3: workers start anew, so that all know it");
                    let longest = self.restart().await?;
                    say(&format!("waiting {} s for what is under way", longest.as_secs()));
                    tokio::time::sleep(longest).await;
                    document.turned()
                }
                Step::Following => {
                    say("3 of 3: it is the current key; workers start anew, so that all use it");
                    let longest = self.restart().await?;
                    // The one before is used until what is under way has ended.
                    document.settled(System.now().plus(longest))
                }
            };
            is_begun = true;
            self.put(&version, &changed).await?;
        }
    }

    /// Forgets a former key.
    pub(crate) async fn forget(&self, id: &str) -> Result<HashDocument, Failure> {
        let (version, document) = self.read().await?;
        let changed = document.without(id);
        self.put(&version, &changed).await?;
        Ok(changed)
    }

    /// All workers that use the secret; answers how long the longest invocation may go on.
    async fn restart(&self) -> Result<Duration, Failure> {
        let functions = functions::using(self.target, ID, &self.secret.id).await?;
        functions::restart(self.target, &functions).await?;
        Ok(functions.iter().map(|it| it.timeout).max().unwrap_or_default())
    }

    async fn read(&self) -> Result<(Version, HashDocument), Failure> {
        let version = self.secret.read().await?;
        let document = HashDocument::parse(version.text.expose(), System.now())
            .map_err(|error| NotChanged::Unusable { id: self.secret.id.clone(), error })?;
        Ok((version, document))
    }

    async fn put(&self, before: &Version, changed: &HashDocument) -> Result<(), Failure> {
        if self.secret.exchange(before, &changed.written()).await? {
            return Ok(());
        }
        Err(NotChanged::Overtaken.into())
    }
}

/// Whether a key of that role may still be needed at `now`, and until when.
pub(crate) fn needed_until(role: Role) -> Option<Timestamp> {
    match role {
        Role::Next | Role::Current | Role::Former { until: None } => None,
        Role::Former { until: Some(until) } => Some(until.plus(NEEDED_FOR)),
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
    fn a_new_key_is_long_and_another_each_time() {
        let key = new_key();
        assert_eq!(key.expose().len(), 64);
        assert!(key != new_key());
    }

    #[test]
    fn a_former_key_is_needed_for_as_long_as_the_ledger_remembers() {
        let until = Timestamp::from_secs(1_800_000_000);
        let needed = needed_until(Role::Former { until: Some(until) }).expect("a time");
        assert_eq!(needed.since(until), NEEDED_FOR);
        for role in [Role::Next, Role::Current, Role::Former { until: None }] {
            assert_eq!(needed_until(role), None);
        }
    }
}
