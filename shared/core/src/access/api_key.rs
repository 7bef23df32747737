//! The key that a sender shows: `rdk_`, its id, `_`, its secret.
//!
//! `rdk_4Xb0m2Qp9Lk7_…` is letters, digits and underlines only, so that a double click selects it whole, and its beginning tells
//! those who search code for leaked secrets what it is. The secret is 43 characters: 39 that are random (232 bits), and a
//! checksum over all that stands before it, by which a mistyped or cut key is refused without a look-up. The checksum is no
//! secret and proves nothing.
//!
//! Of a key only its id and a digest are ever stored. The secret is long and random, so a plain SHA-256 cannot be guessed back,
//! and nothing slower is needed.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

use super::{base62, compare};

/// What every key begins with.
const PREFIX: &str = "rdk_";

/// Characters of an id: 71 bits, so that ids never meet by chance.
const ID: usize = 12;

/// Random characters of a secret, in the parts in which they are made.
const PARTS: [usize; 3] = [13, 13, 13];

/// Characters of the checksum: one mistyped key in 14 million gets past it.
const CHECKSUM: usize = 4;

/// Characters of a secret with its checksum.
const SECRET: usize = PARTS[0] + PARTS[1] + PARTS[2] + CHECKSUM;

/// The name of a key, which is no secret: 12 letters and digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ApiKeyId(String);

impl ApiKeyId {
    /// The id of this text; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        base62::is(text, ID).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ApiKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key as its sender has it.
#[derive(Clone)]
pub struct ApiKey {
    id: ApiKeyId,
    secret: String,
}

impl ApiKey {
    /// How many random bytes make a key.
    pub const RANDOM_BYTES: usize = 64;

    /// A new key, from bytes that the system's randomness gave. Each part of it is a number of 128 bits, of which at most 78
    /// are kept: what the remainder favours is less than one in 2^50.
    pub fn generate(random: &[u8; Self::RANDOM_BYTES]) -> Self {
        let mut numbers = random.chunks_exact(16).map(|bytes| {
            u128::from_be_bytes(bytes.try_into().expect("invariant: chunks_exact gives 16 bytes"))
        });
        let mut part = |width| base62::padded(numbers.next().unwrap_or_default(), width);
        let id = ApiKeyId(part(ID));
        let secret: String = PARTS.into_iter().map(part).collect();
        let checksum = checksum(&id, &secret);
        Self { id, secret: secret + &checksum }
    }

    /// Reads a key; `None` if it is none, or if its checksum says that it was mistyped.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let id = ApiKeyId::parse(id)?;
        let (random, written) = base62::is(secret, SECRET).then(|| secret.split_at(SECRET - CHECKSUM))?;
        (checksum(&id, random) == written).then(|| Self { id, secret: secret.to_owned() })
    }

    pub fn id(&self) -> &ApiKeyId {
        &self.id
    }

    /// The whole of it, for the sender. Never log what this returns.
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

/// What is stored of a key's secret: the SHA-256 of the whole key. It is the proof of no other key, because the id is part of
/// it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    pub fn of(key: &ApiKey) -> Self {
        let digest = digest(&SHA256, key.expose().as_bytes());
        Self(digest.as_ref().try_into().expect("invariant: SHA-256 gives 32 bytes"))
    }

    /// Reads [`Self::to_text`] back.
    pub fn parse(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// As it is stored: base64url, 43 characters.
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// Whether this is the digest of that key, found out in constant time.
    pub fn is_of(&self, key: &ApiKey) -> bool {
        compare::same(&self.0, &Self::of(key).0)
    }
}

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest(redacted)")
    }
}

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
        fn a_key_of_which_one_character_was_changed_is_none_and_never_admitted(
            random in random(), place: prop::sample::Index, with in "[A-Za-z0-9_.-]"
        ) {
            let key = ApiKey::generate(&random);
            let mut changed = key.expose();
            let place = place.index(changed.len());
            changed.replace_range(place..=place, &with);
            prop_assume!(changed != key.expose());
            // One in 14 million gets past the checksum, and none past the digest.
            let admitted = ApiKey::parse(&changed).is_some_and(|it| SecretDigest::of(&key).is_of(&it));
            prop_assert!(!admitted, "{changed}");
        }
    }

    #[test]
    fn a_mistyped_key_is_refused_by_its_checksum() {
        let key = ApiKey::generate(&[7; 64]).expose();
        assert!(ApiKey::parse(&key).is_some());
        let mut swapped = key.clone().into_bytes();
        swapped.swap(5, 6);
        let other_case = key[..20].to_owned() + &key[20..].to_ascii_lowercase();
        let swapped = String::from_utf8(swapped).expect("ASCII");
        for bad in [
            "",
            "rdk_",
            "rdk__",
            &key[1..],
            &key[..key.len() - 1],
            &format!("{key}0"),
            &format!(" {key}"),
            &key.replacen("rdk_", "RDK_", 1),
            &other_case,
        ] {
            assert!(ApiKey::parse(bad).is_none(), "{bad}");
        }
        assert!(swapped == key || ApiKey::parse(&swapped).is_none());
    }

    #[test]
    fn every_bit_of_randomness_is_used_and_ids_differ_with_it() {
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
        assert_eq!(format!("{:?}", SecretDigest::of(&key)), "SecretDigest(redacted)");
    }
}
