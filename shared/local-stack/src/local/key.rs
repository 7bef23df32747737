//! The key that requests to a stack's emulator are signed with.
//!
//! Every user of this machine can connect to an emulator on it. The embedded one answers only requests that are signed with
//! the key of its stack (`emulator_guard.py`), which is random and new for each stack: it is known to the functions, to
//! this process, and to those who may read the stack's folder.

use std::fmt;

use aws_credential_types::Credentials;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};

/// Tells the key apart from those of an AWS account, which begin with `AKIA` or `ASIA`.
const ID_PREFIX: &str = "LOCAL";

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackKey {
    id: String,
    secret: String,
}

impl StackKey {
    /// A new key: an id of 64 random bits, and a secret of 240 in 40 characters, as AWS's are long.
    pub(super) fn generate() -> Self {
        let (mut id, mut secret) = ([0; 8], [0; 30]);
        let random = SystemRandom::new();
        random.fill(&mut id).expect("invariant: the system has randomness");
        random.fill(&mut secret).expect("invariant: the system has randomness");
        Self {
            id: format!("{ID_PREFIX}{:016X}", u64::from_be_bytes(id)),
            secret: URL_SAFE_NO_PAD.encode(secret),
        }
    }

    /// What a LocalStack takes, as did the embedded emulator of earlier releases. It protects nothing.
    pub fn of_localstack() -> Self {
        Self { id: "test".to_owned(), secret: "test".to_owned() }
    }

    /// The access key id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The secret access key, for an environment.
    pub fn expose_secret(&self) -> &str {
        &self.secret
    }

    pub(super) fn credentials(&self) -> Credentials {
        Credentials::new(&self.id, &self.secret, None, None, "local stack")
    }
}

impl fmt::Debug for StackKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackKey").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_new_and_needs_no_quotes_in_a_shell() {
        let [one, other] = [StackKey::generate(), StackKey::generate()];
        assert!(one.id != other.id && one.secret != other.secret);
        assert_eq!((one.id.len(), one.secret.len()), (21, 40));
        let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        assert!(is_plain(&one.id) && is_plain(&one.secret));
    }

    #[test]
    fn its_secret_is_not_in_its_debug_output() {
        let key = StackKey::generate();
        assert!(!format!("{key:?}").contains(key.expose_secret()));
    }
}
