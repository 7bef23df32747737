//! The one secret of a stack for its webhooks, and the keys derived from it.
//!
//! HKDF-SHA256 derives from it the key that seals subscriptions' own secrets and headers on their items, and for each tenant the secret
//! that signs webhooks to receivers without their own. So a stack with ten thousand receivers keeps one secret in Secrets Manager, and a
//! reader of the table learns no receiver's secret.
//!
//! Browsers' tokens have a secret of their own in the same form ([`token_keys`]), because the function that faces the internet
//! makes them, and must not be able to open a receiver's secrets. An earlier release derived their keys from the webhooks' key: a stack
//! that names the same secret for both still reads its earlier tokens.
//!
//! A sealed text names its key and is bound to its subscription: it opens after a rotation, and never on another item. While a key and its
//! predecessor are both configured, messages are signed with the secrets of both.
//!
//! It is bound to the endpoint as well: who can write to the table, and not open the text, must not have an `authorization` sent elsewhere by
//! changing the address beside it. The subscription is associated data. The endpoint is a digest within the sealed JSON, which the same
//! tag authenticates, because a worker of release 0.1.0 opens that, and would not open a text with other associated data. A text without
//! it is of that release, and opens for any endpoint until it is sealed again.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use redial_core::access::TokenKeys;
use redial_core::endpoint::Endpoint;
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::time::Timestamp;
use redial_core::webhook::{CustomHeaders, SigningSecrets, WebhookSecret, WebhookTarget};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

/// The HKDF info of the sealing key.
const SEAL: &[u8] = b"redial webhook seal";

/// The HKDF info of a tenant's signing secret; the tenant follows.
const SIGN: &[u8] = b"redial webhook sign";

/// The HKDF info of the key of browsers' tokens.
const TOKEN: &[u8] = b"redial access token";

/// The length of a generated signing secret in bytes: the output of HMAC-SHA256.
const SECRET_BYTES: usize = 32;

/// In characters.
const MIN_KEY: usize = 16;

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

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the system cannot generate a random secret")]
pub struct NoRandomness;

/// Why a sealed text is not opened. Never holds any of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotOpened {
    /// By none of the keys under the id that it names, for this subscription; or it is no sealed text.
    #[error("UnknownKey")]
    UnknownKey,
    #[error("SealedForAnotherEndpoint")]
    OtherEndpoint,
}

pub fn new_secret() -> Result<WebhookSecret, NoRandomness> {
    let mut bytes = vec![0; SECRET_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(WebhookSecret::new(bytes).expect("32 bytes are a secret"))
}

/// The keys of browsers' tokens, from a text that [`WebhookKeys::parse`] reads.
pub fn token_keys(text: &str) -> Result<TokenKeys, WebhookKeysError> {
    WebhookKeys::parse(text).map(|keys| keys.token_keys())
}

/// The sealed JSON.
#[derive(Serialize, Deserialize)]
struct Contents {
    secrets: Vec<SecretUntil>,
    headers: Vec<(String, String)>,
    /// The digest of the endpoint that they are for. Release 0.1.0 wrote none, and ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
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
            if !is_id(id) || secret.len() < MIN_KEY || keys.iter().any(|other| other.id == id) {
                return Err(WebhookKeysError);
            }
            keys.push(WebhookKey::new(id, secret));
        }
        if keys.is_empty() { Err(WebhookKeysError) } else { Ok(Self(keys)) }
    }

    /// A receiver's secrets and headers as they are stored: `<key id>:<base64 of nonce, ciphertext and tag>`, under the current key, with
    /// a new nonce each time.
    pub fn seal(&self, key: &SubscriptionKey, target: &WebhookTarget) -> String {
        let WebhookTarget { endpoint, secrets, headers } = target;
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
            endpoint: Some(digest_of(endpoint)),
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

    /// What [`Self::seal`] sealed for this subscription at this endpoint.
    pub fn open(
        &self,
        key: &SubscriptionKey,
        endpoint: Endpoint,
        sealed: &str,
    ) -> Result<WebhookTarget, NotOpened> {
        let Contents { secrets, headers, endpoint: sealed_for } =
            self.contents(key, sealed).ok_or(NotOpened::UnknownKey)?;
        if sealed_for.is_some_and(|sealed_for| sealed_for != digest_of(&endpoint)) {
            return Err(NotOpened::OtherEndpoint);
        }
        let read = || {
            let secrets: Option<Vec<_>> = secrets
                .into_iter()
                .map(|it| Some((WebhookSecret::parse(&it.secret)?, it.ends_at.map(Timestamp::from_ms))))
                .collect();
            Some((SigningSecrets::new(secrets?)?, CustomHeaders::new(headers).ok()?))
        };
        let (secrets, headers) = read().ok_or(NotOpened::UnknownKey)?;
        Ok(WebhookTarget { endpoint, secrets, headers })
    }

    fn contents(&self, key: &SubscriptionKey, sealed: &str) -> Option<Contents> {
        let (id, text) = sealed.split_once(':')?;
        let WebhookKey { seal, .. } = self.0.iter().find(|key| key.id == id)?;
        let mut bytes = STANDARD.decode(text).ok()?;
        let (nonce, ciphertext) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plaintext = seal.open_in_place(nonce, aad(key), ciphertext).ok()?;
        serde_json::from_slice(plaintext).ok()
    }

    /// The secrets that sign a tenant's messages to receivers without their own: one for each key, the current first.
    pub fn secrets_of(&self, tenant: &Tenant) -> Vec<WebhookSecret> {
        self.0.iter().map(|key| key.secret_of(tenant)).collect()
    }

    /// One key for each of these, with the same id, the current first.
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

/// SHA-256 in base64: of one length, however long the endpoint is.
fn digest_of(endpoint: &Endpoint) -> String {
    STANDARD_NO_PAD.encode(digest(&SHA256, endpoint.expose().as_str().as_bytes()))
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
