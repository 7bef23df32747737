//! A sender's API key: `rdk_`, its id, `_`, its secret.
//!
//! `rdk_4Xb0m2Qp9Lk7_…` has letters, digits and underlines only, so that a double click selects all of it, and secret scanners
//! recognise its prefix. The secret is 43 characters: 39 that are random (232 bits), and a checksum over everything before it, by which
//! a mistyped or truncated key is refused without a look-up. The checksum is not secret and proves nothing.
//!
//! Only a key's id and a digest are stored. The secret is long and random, so SHA-256 cannot be reversed by guessing, and a slower hash
//! is not needed.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

use super::base62;
use crate::text::{checked_text, redacted};

const PREFIX: &str = "rdk_";

/// Characters of an id: 71 bits, so that ids never meet by chance.
const ID: usize = 12;

/// Random characters of a secret, in the parts in which they are made.
const PARTS: [usize; 3] = [13, 13, 13];

/// Characters of the checksum: one mistyped key in 14 million gets past it.
const CHECKSUM: usize = 4;

const SECRET: usize = PARTS[0] + PARTS[1] + PARTS[2] + CHECKSUM;

checked_text! {
    /// The name of a key, which is not secret: 12 letters and digits.
    ApiKeyId, |text| base62::is(text, ID);
}

#[derive(Clone)]
pub struct ApiKey {
    id: ApiKeyId,
    secret: String,
}

impl ApiKey {
    pub const RANDOM_BYTES: usize = 64;

    /// A new key, from bytes that the system's randomness gave. Each part of it is a number of 128 bits, of which at most 78
    /// are kept: what the remainder favours is less than one in 2^50.
    pub fn generate(random: &[u8; Self::RANDOM_BYTES]) -> Self {
        let mut numbers = random.chunks_exact(16).map(|bytes| {
            u128::from_be_bytes(bytes.try_into().expect("invariant: chunks_exact gives 16 bytes"))
        });
        let mut part = |width| base62::padded(numbers.next().unwrap_or_default(), width);
        let id = ApiKeyId(part(ID).into());
        let secret: String = PARTS.into_iter().map(part).collect();
        let checksum = checksum(&id, &secret);
        Self { id, secret: secret + &checksum }
    }

    /// `None` if it is not a key, or if its checksum is wrong.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let id = ApiKeyId::parse(id)?;
        let (random, written) = base62::is(secret, SECRET).then(|| secret.split_at(SECRET - CHECKSUM))?;
        (checksum(&id, random) == written).then(|| Self { id, secret: secret.to_owned() })
    }

    pub fn id(&self) -> &ApiKeyId {
        &self.id
    }

    /// The key's text. Never log what this returns.
    pub fn expose(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, self.secret)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}, redacted)", self.id)
    }
}

/// The first 32 bits of the SHA-256 of what stands before it.
fn checksum(id: &ApiKeyId, random: &str) -> String {
    let digest = digest(&SHA256, format!("{PREFIX}{id}_{random}").as_bytes());
    let number = digest.as_ref().iter().take(4).fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
    base62::padded(number, CHECKSUM)
}

/// The stored digest of a key's secret: the SHA-256 of the whole key. It proves no other key, because the id is part of it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    pub fn of(key: &ApiKey) -> Self {
        let digest = digest(&SHA256, key.expose().as_bytes());
        Self(digest.as_ref().try_into().expect("invariant: SHA-256 gives 32 bytes"))
    }

    pub fn parse(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }

    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// Whether this is the digest of that key, found out in constant time.
    pub fn is_of(&self, key: &ApiKey) -> bool {
        self.0.ct_eq(&Self::of(key).0).into()
    }
}

redacted!(SecretDigest);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn random() -> impl Strategy<Value = [u8; 64]> {
        prop::collection::vec(any::<u8>(), 64).prop_map(|bytes| bytes.try_into().expect("64 bytes"))
    }

    proptest! {
        #[test]
        fn a_key_is_one_word_and_reads_back(random in random()) {
            let key = ApiKey::generate(&random);
            let text = key.expose();
            prop_assert_eq!(text.len(), 4 + 12 + 1 + 43);
            prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
            let read = ApiKey::parse(&text).expect("it is a key");
            prop_assert_eq!(read.expose(), &*text);
            prop_assert_eq!(read.id(), key.id());
            let digest = SecretDigest::of(&key);
            prop_assert!(digest.is_of(&read));
            prop_assert_eq!(SecretDigest::parse(&digest.to_text()), Some(digest));
        }

        #[test]
        fn a_key_with_one_changed_character_is_never_admitted(
            random in random(), place: prop::sample::Index, with in "[A-Za-z0-9_.-]"
        ) {
            let key = ApiKey::generate(&random);
            let mut changed = key.expose();
            let place = place.index(changed.len());
            changed.replace_range(place..=place, &with);
            prop_assume!(changed != key.expose());
            // One in 14 million gets past the checksum, and none past the digest.
            let admitted = ApiKey::parse(&changed).is_some_and(|other| SecretDigest::of(&key).is_of(&other));
            prop_assert!(!admitted, "{changed}");
        }
    }

    #[test]
    fn a_mistyped_key_is_refused_by_its_checksum() {
        let key = ApiKey::generate(&[7; 64]).expose();
        assert!(ApiKey::parse(&key).is_some());
        for bad in [
            "",
            "rdk_",
            "rdk__",
            &key[1..],
            &key[..key.len() - 1],
            &format!("{key}0"),
            &format!(" {key}"),
            &key.replacen("rdk_", "RDK_", 1),
            &(key[..20].to_owned() + &key[20..].to_ascii_lowercase()),
        ] {
            assert!(ApiKey::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn every_part_of_a_key_depends_on_its_random_bytes() {
        let (one, other) = (ApiKey::generate(&[0; 64]), ApiKey::generate(&[255; 64]));
        assert!(one.expose().starts_with("rdk_000000000000_000"));
        assert_ne!(one.id(), other.id());
        for part in 0..4 {
            let mut random = [0; 64];
            random[part * 16 + 15] = 1;
            assert_ne!(ApiKey::generate(&random).expose(), one.expose(), "{part}");
        }
    }

    #[test]
    fn debug_shows_the_id_alone() {
        let key = ApiKey::generate(&[7; 64]);
        assert_eq!(format!("{key:?}"), format!("ApiKey({}, redacted)", key.id()));
    }
}
