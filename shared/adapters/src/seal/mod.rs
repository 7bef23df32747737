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
mod sealer;
#[cfg(feature = "web-push")]
mod web_push;

#[cfg(test)]
pub(crate) mod contract;

pub use self::ring::{RingSealer, is_on_curve};
pub use self::sealer::{SealError, Sealed, Sealer};
#[cfg(feature = "web-push")]
pub use self::web_push::WebPushSealer;

/// The sealer that the functions are built with.
#[cfg(not(feature = "web-push"))]
pub type DefaultSealer = RingSealer;

/// The sealer that the functions are built with.
#[cfg(feature = "web-push")]
pub type DefaultSealer = WebPushSealer;
