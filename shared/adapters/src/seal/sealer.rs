//! The port, and what it answers.

use std::fmt;

use redial_core::payload::Payload;
use redial_core::push_target::PushKeys;

/// Seals plaintexts to a browser's keys.
pub trait Sealer: Send + Sync {
    /// Longest plaintext that [`Sealer::seal`] takes, in bytes.
    fn max_plaintext(&self) -> usize;

    /// Encrypts `plaintext` to `keys` with a new ephemeral key and salt; an empty plaintext becomes [`Sealed::NoBody`].
    fn seal(&self, keys: &PushKeys, plaintext: &Payload) -> Result<Sealed, SealError>;
}

/// What is posted.
#[derive(Clone, PartialEq, Eq)]
pub enum Sealed {
    /// The plaintext was empty: no body, and no `Content-Encoding`.
    NoBody,
    /// A body in the content encoding [`Sealed::CONTENT_ENCODING`], at most 4,096 bytes.
    Body(Vec<u8>),
}

impl Sealed {
    /// The value of `Content-Encoding` that goes with a body.
    pub const CONTENT_ENCODING: &str = "aes128gcm";
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBody => f.write_str("NoBody"),
            Self::Body(body) => write!(f, "Body({} bytes)", body.len()),
        }
    }
}

/// Why a plaintext was not sealed. Never holds a key or a plaintext.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SealError {
    /// The subscription's `p256dh` has the form of a point, but does not lie on the curve.
    #[error("the subscription's p256dh is not a point on P-256")]
    BadPublicKey,
    #[error("the plaintext is longer than the {limit} bytes that this sealer takes")]
    TooLarge { limit: usize },
}
