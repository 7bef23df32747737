//! The one secret that a stack keeps for its webhooks, and what follows from it.
//!
//! From it come, by HKDF-SHA256, the key that subscriptions' own secrets and headers are sealed with on their items, and for
//! each tenant the secret that signs what goes to receivers without secrets of their own. So a stack that serves ten thousand receivers keeps one secret in Secrets Manager, and whoever reads the
//! table learns no receiver's.
//!
//! Browsers' tokens have a secret of their own in the same form ([`token_keys`]), because the function that faces the internet
//! makes them, and is not to open a receiver's secrets. Their keys follow from it as they once followed from the webhooks' key:
//! a stack that names the same secret for both goes on reading the tokens that it has given out before.
//!
//! A sealed text names its key, and is bound to its subscription: it opens after that key was followed by a newer one, and
//! never on another item. While a key and its predecessor are both known, messages are signed with the secrets of both.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use redial_core::access::TokenKeys;
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::time::Timestamp;
use redial_core::webhook::{CustomHeaders, SigningSecrets, WebhookSecret};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

/// What the key of sealed texts is derived for.
const SEAL: &[u8] = b"redial webhook seal";

/// What a tenant's signing secret is derived for; the tenant follows.
const SIGN: &[u8] = b"redial webhook sign";

/// What the key of browsers' tokens is derived for.
const TOKEN: &[u8] = b"redial access token";

/// The length of a signing secret that is made here, in bytes: as long as what HMAC-SHA256 gives.
const SECRET_BYTES: usize = 32;

/// The shortest text that is taken for a key.
const MIN_KEY: usize = 16;

/// The longest id of a key.
const MAX_ID: usize = 32;

/// The keys of a stack's webhooks, the current one first. At least one.
#[derive(Clone)]
pub struct WebhookKeys(Vec<WebhookKey>);

#[derive(Clone)]
struct WebhookKey {
    id: String,
    root: Prk,
    seal: LessSafeKey,
}

/// Why a text is no set of webhook keys. Never holds a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected `<key id>:<secret of at least {MIN_KEY} characters>`, several separated by commas, the current one first"
)]
pub struct WebhookKeysError;

/// The system gives no randomness.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the system gives no randomness to make a secret of")]
pub struct NoRandomness;

/// A new secret for a receiver.
pub fn new_secret() -> Result<WebhookSecret, NoRandomness> {
    let mut bytes = vec![0; SECRET_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(WebhookSecret::new(bytes).expect("32 bytes are a secret"))
}

/// The keys that browsers' tokens are made and read with, of a text that [`WebhookKeys::parse`] reads.
pub fn token_keys(text: &str) -> Result<TokenKeys, WebhookKeysError> {
    WebhookKeys::parse(text).map(|keys| keys.token_keys())
}

/// What is sealed, as JSON.
#[derive(Serialize, Deserialize)]
struct Contents {
    secrets: Vec<SecretUntil>,
    headers: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
struct SecretUntil {
    secret: String,
    /// Epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_at: Option<i64>,
}

impl WebhookKeys {
    /// Reads `id:secret[,id:secret…]`, the current key first; or `{"id": …, "key": …}`, as Secrets Manager generates it.
    /// Ids are `[A-Za-z0-9_-]{1,32}`, secrets at least 16 characters without a comma.
    pub fn parse(text: &str) -> Result<Self, WebhookKeysError> {
        #[derive(Deserialize)]
        struct Generated {
            id: String,
            key: String,
        }
        if text.trim_start().starts_with('{') {
            let Generated { id, key } = serde_json::from_str(text).map_err(|_| WebhookKeysError)?;
            return Self::of([(id.as_str(), key.as_str())]);
        }
        let pairs: Option<Vec<_>> = text.split(',').map(|part| part.trim().split_once(':')).collect();
        Self::of(pairs.ok_or(WebhookKeysError)?)
    }

    fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, WebhookKeysError> {
        let mut keys: Vec<WebhookKey> = Vec::new();
        for (id, secret) in pairs {
            if !is_id(id) || secret.len() < MIN_KEY || keys.iter().any(|known| known.id == id) {
                return Err(WebhookKeysError);
            }
            keys.push(WebhookKey::new(id, secret));
        }
        if keys.is_empty() { Err(WebhookKeysError) } else { Ok(Self(keys)) }
    }

    /// A subscription's secrets and headers as they are stored: `<key id>:<base64 of nonce, ciphertext and tag>`, under the
    /// current key, with a new nonce each time.
    pub fn seal(&self, key: &SubscriptionKey, secrets: &SigningSecrets, headers: &CustomHeaders) -> String {
        let contents = Contents {
            secrets: secrets
                .all()
                .iter()
                .map(|(secret, ends_at)| SecretUntil {
                    secret: secret.expose(),
                    ends_at: ends_at.map(Timestamp::as_ms),
                })
                .collect(),
            headers: headers.expose().to_vec(),
        };
        let plaintext = serde_json::to_vec(&contents).expect("invariant: strings and numbers are JSON");
        let WebhookKey { id, seal, .. } = &self.0[0];
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).expect("the system gives randomness");
        let mut sealed = plaintext;
        seal.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad(key), &mut sealed)
            .expect("invariant: a subscription is far shorter than what AES-GCM takes");
        format!("{id}:{}", STANDARD.encode([nonce.as_slice(), &sealed].concat()))
    }

    /// What [`Self::seal`] sealed for this subscription; `None` if its key is not known any more, or if it was sealed for
    /// another subscription, or by someone else.
    pub fn open(&self, key: &SubscriptionKey, sealed: &str) -> Option<(SigningSecrets, CustomHeaders)> {
        let (id, text) = sealed.split_once(':')?;
        let WebhookKey { seal, .. } = self.0.iter().find(|known| known.id == id)?;
        let mut bytes = STANDARD.decode(text).ok()?;
        let (nonce, ciphertext) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plaintext = seal.open_in_place(nonce, aad(key), ciphertext).ok()?;
        let Contents { secrets, headers } = serde_json::from_slice(plaintext).ok()?;
        let secrets: Option<Vec<_>> = secrets
            .into_iter()
            .map(|it| Some((WebhookSecret::parse(&it.secret)?, it.ends_at.map(Timestamp::from_ms))))
            .collect();
        Some((SigningSecrets::new(secrets?)?, CustomHeaders::new(headers).ok()?))
    }

    /// What signs a tenant's messages to receivers without secrets of their own: one secret a key, the current first.
    pub fn secrets_of(&self, tenant: &Tenant) -> Vec<WebhookSecret> {
        self.0.iter().map(|key| key.secret_of(tenant)).collect()
    }

    /// What browsers' tokens are made and read with: one key for each of these, under the same id, the current first.
    fn token_keys(&self) -> TokenKeys {
        let keys = self.0.iter().map(|key| (key.id.clone(), key.derived(&[TOKEN])));
        TokenKeys::new(keys).expect("invariant: there is a key, and ids are distinct and short")
    }
}

impl WebhookKey {
    fn new(id: &str, secret: &str) -> Self {
        let root = Salt::new(HKDF_SHA256, &[]).extract(secret.as_bytes());
        let info = [SEAL];
        let key = root.expand(&info, &AES_256_GCM).expect("invariant: HKDF-SHA256 gives 32 bytes");
        Self { id: id.to_owned(), seal: LessSafeKey::new(UnboundKey::from(key)), root }
    }

    fn secret_of(&self, tenant: &Tenant) -> WebhookSecret {
        let bytes = self.derived(&[SIGN, tenant.as_str().as_bytes()]);
        WebhookSecret::new(bytes.to_vec()).expect("invariant: 32 bytes are a secret")
    }

    /// The bytes that follow from this key for what `info` names.
    fn derived(&self, info: &[&[u8]]) -> [u8; SECRET_BYTES] {
        let mut bytes = [0; SECRET_BYTES];
        self.root
            .expand(info, SecretLength)
            .and_then(|okm| okm.fill(&mut bytes))
            .expect("invariant: HKDF-SHA256 gives 32 bytes");
        bytes
    }
}

struct SecretLength;

impl KeyType for SecretLength {
    fn len(&self) -> usize {
        SECRET_BYTES
    }
}

fn aad(key: &SubscriptionKey) -> Aad<String> {
    Aad::from(key.to_string())
}

fn is_id(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

impl fmt::Debug for WebhookKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

#[cfg(test)]
#[path = "webhook_keys_tests.rs"]
mod tests;
