//! Sealing: turning a plaintext into the body that only one browser can read (RFC 8291 over RFC 8188).
//!
//! Sealing is a port with two adapters that pass the same tests (`contract`):
//!
//! | adapter | plaintext | needs |
//! |---|---|---|
//! | [`RingSealer`], the default | up to 3,993 bytes, the most that RFC 8291 allows | nothing but ring |
//! | `WebPushSealer`, cargo feature `web-push` | up to 3,052 bytes, the `web-push` crate's own limit | OpenSSL |
//!
//! What both keep true: one record, its size written as 4,096, because that is what every browser reads; a new ephemeral
//! key and a new salt for every message; no body at all for an empty plaintext, because browsers disagree about an
//! encrypted empty text. Signing is not sealing: see [`crate::vapid`].

mod ring;
#[cfg(feature = "web-push")]
mod web_push;

#[cfg(test)]
pub(crate) mod contract;

use std::fmt;

use redial_core::payload::Payload;
use redial_core::push_target::PushKeys;

pub use self::ring::{RingSealer, is_on_curve};
#[cfg(feature = "web-push")]
pub use self::web_push::WebPushSealer;

/// The sealer that the functions are built with.
#[cfg(not(feature = "web-push"))]
pub type DefaultSealer = RingSealer;

/// The sealer that the functions are built with.
#[cfg(feature = "web-push")]
pub type DefaultSealer = WebPushSealer;

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
