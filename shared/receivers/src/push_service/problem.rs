//! What can be wrong with a push request, and which of it Mozilla's service refuses.
//!
//! A service accepts much that no browser can show, or that another service would refuse. So what is wrong
//! and what is refused are two questions: the problems are all recorded, and the answer comes from the
//! first of them that autopush, whose order of checks is kept here, does refuse.

use super::Fixture;
use super::decrypt::DecryptError;

/// One departure from the standards, or from what all push services take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    EndpointUnknown,
    Unsubscribed,
    AuthorizationMissing,
    /// The Authorization header is not of the scheme `vapid`.
    AuthorizationScheme,
    /// The Authorization header has no `t`.
    VapidTokenMissing,
    /// The Authorization header has no `k`.
    VapidKeyMissing,
    /// `k` is not base64url, or no point of P-256.
    VapidKeyMalformed,
    /// `k` is another key than the one the subscription was made with.
    VapidKeyNotTheSubscriptions,
    /// `t` is not three parts with a JSON object in each of the first two.
    VapidTokenMalformed,
    /// The token's `alg` is not ES256.
    VapidAlgorithm,
    /// The token's signature is not by `k`.
    VapidSignature,
    /// The token has no `aud`, or not a string.
    AudMissing,
    /// `aud` is not this service's origin, port included and nothing after it.
    AudNotTheOrigin,
    /// The token has no `exp`, or not a whole number.
    ExpMissing,
    /// `exp` passed more than a minute ago.
    ExpPast,
    /// `exp` passed within the last minute. Mozilla's service lets it pass.
    ExpWithinLeeway,
    /// `exp` is more than 24 hours ahead.
    ExpTooFar,
    /// The token has no `sub`. Mozilla's service lets it pass, Apple's does not.
    SubMissing,
    /// `sub` is neither `mailto:` nor `https:`. Mozilla's service lets it pass, Apple's does not.
    SubNoContact,
    /// No TTL header, or not a whole number.
    TtlMissing,
    /// A TTL below 0.
    TtlNegative,
    /// A Topic of more than 32 characters, an empty one, or one outside base64url's alphabet.
    TopicMalformed,
    /// A Topic that is no whole base64url text (length mod 4 = 1). Apple's service refuses it.
    TopicLength,
    /// An Urgency that RFC 8030 does not know.
    UrgencyUnknown,
    ContentEncodingMissing,
    /// A Content-Encoding that is neither `aes128gcm` nor `aesgcm`.
    ContentEncodingUnknown,
    /// `aesgcm`, the draft before the standard: not opened here.
    ContentEncodingOutdated,
    /// `aesgcm` without its Encryption header.
    EncryptionHeaderMissing,
    /// An Encryption or Crypto-Key header with keys that `aes128gcm` carries in the body.
    EncryptionHeaderStray,
    /// A body of more than 4,096 bytes, which a push service need not take (RFC 8030 section 7.2).
    BodyOverMinimum(usize),
    /// A body of more than 5,630 bytes.
    BodyTooLarge(usize),
    /// A body that the browser cannot open.
    Undecryptable(DecryptError),
}

impl Problem {
    /// What Mozilla's service answers, with the place of the check in its order; `None` where it accepts.
    pub(super) fn refusal(&self) -> Option<(u8, Fixture)> {
        match self {
            Self::EndpointUnknown => Some((0, Fixture::MozillaNotFound)),
            Self::AuthorizationMissing
            | Self::AuthorizationScheme
            | Self::VapidTokenMissing
            | Self::VapidKeyMissing
            | Self::VapidKeyMalformed
            | Self::VapidKeyNotTheSubscriptions => Some((1, Fixture::MozillaUnauthorized)),
            Self::Unsubscribed => Some((2, Fixture::MozillaGone)),
            Self::VapidTokenMalformed
            | Self::VapidAlgorithm
            | Self::VapidSignature
            | Self::AudMissing
            | Self::AudNotTheOrigin
            | Self::ExpMissing
            | Self::ExpPast
            | Self::ExpTooFar => Some((3, Fixture::MozillaUnauthorized)),
            Self::BodyTooLarge(_) => Some((4, Fixture::MozillaTooLarge)),
            Self::TtlMissing => Some((5, Fixture::MozillaTtlMissing)),
            Self::ContentEncodingMissing | Self::EncryptionHeaderMissing | Self::EncryptionHeaderStray => {
                Some((6, Fixture::MozillaEncryptionHeaders))
            }
            Self::ContentEncodingUnknown => Some((6, Fixture::MozillaEncodingUnknown)),
            Self::TtlNegative => Some((7, Fixture::MozillaTtlNegative)),
            Self::TopicMalformed => Some((8, Fixture::MozillaTopic)),
            Self::ExpWithinLeeway
            | Self::SubMissing
            | Self::SubNoContact
            | Self::TopicLength
            | Self::UrgencyUnknown
            | Self::ContentEncodingOutdated
            | Self::BodyOverMinimum(_)
            | Self::Undecryptable(_) => None,
        }
    }
}
