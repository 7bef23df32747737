//! Sealing with the `web-push` crate, behind the cargo feature `web-push`.
//!
//! It is the independent implementation against which ours is checked, and the peer in the benchmark. Only its encryption
//! is used: its signing, its endpoints and its response parser have faults of their own (a lost port in `aud`, a lost
//! Retry-After, a lost Authorization on a push without a payload), and ours serve both sealers.

use redial_core::payload::Payload;
use redial_core::push_target::PushKeys;
use web_push::{ContentEncoding, SubscriptionInfo, WebPushError, WebPushMessageBuilder};

use super::sealer::{SealError, Sealed, Sealer};

/// The most that the crate encrypts (version 0.11), in bytes, where RFC 8291 allows 3,993.
const MAX_PLAINTEXT: usize = 3052;

/// The crate encrypts only as a part of building a request, and wants an address for that. No request is made of it.
const NO_ENDPOINT: &str = "https://push.invalid/";

/// Seals with the `web-push` crate, and thereby OpenSSL: up to 3,052 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct WebPushSealer;

impl WebPushSealer {
    /// A sealer; there is nothing to set.
    pub fn new() -> Self {
        Self
    }
}

impl Sealer for WebPushSealer {
    fn max_plaintext(&self) -> usize {
        MAX_PLAINTEXT
    }

    fn seal(&self, keys: &PushKeys, plaintext: &Payload) -> Result<Sealed, SealError> {
        if plaintext.is_empty() {
            return Ok(Sealed::NoBody);
        }
        match encrypt(keys, plaintext.expose()) {
            Ok(Some(body)) => Ok(Sealed::Body(body)),
            Err(WebPushError::PayloadTooLarge) => Err(SealError::TooLarge { limit: MAX_PLAINTEXT }),
            // The keys have the right form, so what is left to fail is the import of the point: the crate calls every
            // failure of OpenSSL a bad key. That a payload which was set is missing does not happen.
            Ok(None) | Err(_) => Err(SealError::BadPublicKey),
        }
    }
}

fn encrypt(keys: &PushKeys, plaintext: &[u8]) -> Result<Option<Vec<u8>>, WebPushError> {
    let (p256dh, auth) = keys.expose_base64url();
    let subscription = SubscriptionInfo::new(NO_ENDPOINT.to_owned(), p256dh, auth);
    let mut message = WebPushMessageBuilder::new(&subscription);
    message.set_payload(ContentEncoding::Aes128Gcm, plaintext);
    Ok(message.build()?.payload.map(|payload| payload.content))
}

#[cfg(test)]
mod tests {
    use super::super::contract;
    use super::*;

    #[test]
    fn what_is_sealed_can_be_read_by_its_browser_alone() {
        contract::holds(&WebPushSealer::new());
    }
}
