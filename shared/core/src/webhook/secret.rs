//! The secrets that webhooks are signed with, as Standard Webhooks writes them: `whsec_` and base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::text::redacted;
use crate::time::Timestamp;

/// What every secret begins with.
const PREFIX: &str = "whsec_";

/// A signing secret: 24 to 64 bytes (Standard Webhooks, "Signature scheme").
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// The fewest bytes.
    pub const MIN_BYTES: usize = 24;
    /// The most bytes.
    pub const MAX_BYTES: usize = 64;

    /// A secret of these bytes; `None` for fewer than 24 or more than 64.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (Self::MIN_BYTES..=Self::MAX_BYTES).contains(&bytes.len()).then_some(Self(bytes))
    }

    /// Reads `whsec_…`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::new(STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?)
    }

    /// `whsec_…`, for the receiver and for storing it. Never log what this returns.
    pub fn expose(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// The key itself. Never log what this returns.
    pub fn expose_bytes(&self) -> &[u8] {
        &self.0
    }
}

redacted!(WebhookSecret);

/// The secrets of a receiver: the newest first, older ones for as long as a rotation's grace lasts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SigningSecrets(Vec<(WebhookSecret, Option<Timestamp>)>);

impl SigningSecrets {
    /// How many there may be at once.
    pub const MOST: usize = 5;

    /// These, each with the moment at which it ends; `None` for more than [`Self::MOST`].
    pub fn new(secrets: Vec<(WebhookSecret, Option<Timestamp>)>) -> Option<Self> {
        (secrets.len() <= Self::MOST).then_some(Self(secrets))
    }

    /// With a new secret before the others, which end at `ends_at` unless they end sooner. Secrets that have ended at `now` are
    /// dropped, and the oldest if there are too many.
    #[must_use]
    pub fn rotated(&self, newer: WebhookSecret, ends_at: Timestamp, now: Timestamp) -> Self {
        let mut secrets = vec![(newer, None)];
        for (secret, end) in &self.0 {
            let end = end.map_or(ends_at, |end| end.min(ends_at));
            if end > now {
                secrets.push((secret.clone(), Some(end)));
            }
        }
        secrets.truncate(Self::MOST);
        Self(secrets)
    }

    /// The secrets to sign with at `now`.
    pub fn at(&self, now: Timestamp) -> Vec<WebhookSecret> {
        let valid = self.0.iter().filter(|(_, end)| end.is_none_or(|end| now < end));
        valid.map(|(secret, _)| secret.clone()).collect()
    }

    pub fn all(&self) -> &[(WebhookSecret, Option<Timestamp>)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_reads_back_and_is_never_printed() {
        let text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let secret = WebhookSecret::parse(text).expect("24 bytes");
        assert_eq!(secret.expose(), text);
        assert_eq!(format!("{secret:?}"), "WebhookSecret(redacted)");
    }

    #[test]
    fn a_rotation_keeps_the_older_secret_until_it_ends() {
        let secret = |byte| WebhookSecret::new(vec![byte; 32]).expect("valid");
        let at = Timestamp::from_secs;
        let first = SigningSecrets::new(vec![(secret(1), None)]).expect("one");
        let second = first.rotated(secret(2), at(200), at(100));
        assert_eq!(second.at(at(199)), [secret(2), secret(1)]);
        assert_eq!(second.at(at(200)), [secret(2)]);
        // Once more within the grace: the oldest ends when it was to end.
        let third = second.rotated(secret(3), at(250), at(150));
        assert_eq!(third.at(at(199)), [secret(3), secret(2), secret(1)]);
        assert_eq!(third.at(at(200)), [secret(3), secret(2)]);
        assert_eq!(third.at(at(250)), [secret(3)]);
        assert_eq!(third.rotated(secret(4), at(400), at(300)).all().len(), 2, "what is over is forgotten");
        let without_grace = third.rotated(secret(4), at(150), at(150));
        assert_eq!(without_grace.at(at(150)), [secret(4)]);
    }

    #[test]
    fn an_invalid_secret_is_refused() {
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        assert!(WebhookSecret::parse(&of(64)).is_some());
        for text in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!", &of(23), &of(65)] {
            assert_eq!(WebhookSecret::parse(text), None, "{text}");
        }
    }
}
