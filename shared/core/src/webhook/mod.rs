//! Webhooks, as Standard Webhooks (1.0) defines them: secrets are written as `whsec_` and base64, and a signature is `v1,` and the
//! HMAC-SHA256 of `id.timestamp.body`, in base64.

mod headers;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

pub use headers::{CustomHeaders, HeaderError, Permitted};

use crate::endpoint::Endpoint;
use crate::text::redacted;
use crate::time::Timestamp;

/// How long one attempt may take (Standard Webhooks recommends 15 to 30 s).
pub const TIMEOUT: Duration = Duration::from_secs(15);

pub const MAX_BODY: usize = 256 * 1024;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookTarget {
    pub endpoint: Endpoint,
    /// Without any, messages are signed with the tenant's own.
    pub secrets: SigningSecrets,
    pub headers: CustomHeaders,
}

impl WebhookTarget {
    pub fn at(endpoint: Endpoint) -> Self {
        Self { endpoint, secrets: SigningSecrets::default(), headers: CustomHeaders::default() }
    }
}

/// How long a receiver may fail without one success, unless the operator sets it otherwise: five days.
pub const SWITCHED_OFF_AFTER: Duration = Duration::from_secs(5 * 86_400);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Health {
    pub failures: u64,
    pub failing_since: Option<Timestamp>,
}

impl Health {
    pub fn is_given_up(&self, now: Timestamp, after: Duration) -> bool {
        self.failing_since.is_some_and(|since| now.since(since) >= after)
    }
}

const SECRET_PREFIX: &str = "whsec_";

/// A signing secret: 24 to 64 bytes (Standard Webhooks, "Signature scheme").
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    pub const MIN_BYTES: usize = 24;
    pub const MAX_BYTES: usize = 64;

    /// A secret of these bytes; `None` for fewer than 24 or more than 64.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (Self::MIN_BYTES..=Self::MAX_BYTES).contains(&bytes.len()).then_some(Self(bytes))
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::new(STANDARD.decode(text.strip_prefix(SECRET_PREFIX)?).ok()?)
    }

    /// `whsec_…`, for the receiver and for storing it. Never log what this returns.
    pub fn expose(&self) -> String {
        format!("{SECRET_PREFIX}{}", STANDARD.encode(&self.0))
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
    pub const MOST: usize = 5;

    /// These, each with the moment at which it ends; `None` for more than [`Self::MOST`].
    pub fn new(secrets: Vec<(WebhookSecret, Option<Timestamp>)>) -> Option<Self> {
        (secrets.len() <= Self::MOST).then_some(Self(secrets))
    }

    /// With a new secret before the others, which end at `ends_at` unless they end sooner. Secrets that have ended at `now` are
    /// dropped, and the oldest if there are too many.
    #[must_use]
    pub fn rotated(&self, newer: WebhookSecret, ends_at: Timestamp, now: Timestamp) -> Self {
        // A call that is made twice, because its answer was lost, finds the secret stored.
        let others = self.0.iter().filter(|(secret, _)| secret.expose_bytes() != newer.expose_bytes());
        let mut secrets = vec![(newer.clone(), None)];
        for (secret, end) in others {
            let end = end.map_or(ends_at, |end| end.min(ends_at));
            if end > now {
                secrets.push((secret.clone(), Some(end)));
            }
        }
        secrets.truncate(Self::MOST);
        Self(secrets)
    }

    pub fn at(&self, now: Timestamp) -> Vec<WebhookSecret> {
        let valid = self.0.iter().filter(|(_, end)| end.is_none_or(|end| now < end));
        valid.map(|(secret, _)| secret.clone()).collect()
    }

    pub fn all(&self) -> &[(WebhookSecret, Option<Timestamp>)] {
        &self.0
    }
}

/// The value of `webhook-signature`: one signature for each secret, separated by spaces. A receiver accepts if one of them matches.
pub fn signatures(secrets: &[WebhookSecret], id: &str, at: Timestamp, body: &[u8]) -> String {
    let sign = |secret: &WebhookSecret| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_bytes());
        let mut context = hmac::Context::with_key(&key);
        context.update(format!("{id}.{}.", at.as_secs()).as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign()))
    };
    secrets.iter().map(sign).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_given_up_after_five_days_without_success() {
        let since = Timestamp::from_secs(1_000_000);
        let health = Health { failures: 2, failing_since: Some(since) };
        let at = |after: Duration| health.is_given_up(since.plus(after), SWITCHED_OFF_AFTER);
        assert!(!at(SWITCHED_OFF_AFTER - Duration::from_secs(1)));
        assert!(at(SWITCHED_OFF_AFTER));
        assert!(!Health::default().is_given_up(Timestamp::from_secs(i64::MAX), Duration::ZERO));
    }

    #[test]
    fn a_secret_reads_back_and_is_never_printed() {
        let text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let secret = WebhookSecret::parse(text).expect("24 bytes");
        assert_eq!(secret.expose(), text);
        assert_eq!(format!("{secret:?}"), "WebhookSecret(redacted)");
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        assert!(WebhookSecret::parse(&of(64)).is_some());
        for other in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!", &of(23), &of(65)] {
            assert_eq!(WebhookSecret::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_rotation_keeps_the_older_secret_until_it_ends() {
        let secret = |byte| WebhookSecret::new(vec![byte; 32]).expect("valid");
        let at = Timestamp::from_secs;
        let first = SigningSecrets::new(vec![(secret(1), None)]).expect("one");
        let second = first.rotated(secret(2), at(200), at(100));
        // Once more within the grace: the oldest ends when it was to end.
        let third = second.rotated(secret(3), at(250), at(150));
        for (secrets, now, expected) in [
            (&second, 199, &[2, 1][..]),
            (&second, 200, &[2]),
            (&third, 199, &[3, 2, 1]),
            (&third, 200, &[3, 2]),
            (&third, 250, &[3]),
        ] {
            let expected: Vec<_> = expected.iter().map(|byte| secret(*byte)).collect();
            assert_eq!(secrets.at(at(now)), expected, "{now}");
        }
        assert_eq!(third.rotated(secret(3), at(250), at(150)), third, "a call that is made twice");
        assert_eq!(third.rotated(secret(4), at(400), at(300)).all().len(), 2, "what is over is forgotten");
        let without_grace = third.rotated(secret(4), at(150), at(150));
        assert_eq!(without_grace.at(at(150)), [secret(4)]);
    }

    /// The vector that the reference libraries of Standard Webhooks are tested with.
    #[test]
    fn signatures_match_the_specification_s_vector() {
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("valid");
        let at = Timestamp::from_secs(1_614_265_330);
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let of = |secrets: &[WebhookSecret]| signatures(secrets, id, at, br#"{"test": 2432232314}"#);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(of(std::slice::from_ref(&secret)), expected);

        let newer = WebhookSecret::new(vec![7; 32]).expect("valid");
        let both = of(&[newer.clone(), secret]);
        assert_eq!(both, format!("{} {expected}", of(&[newer])));
        assert_eq!(of(&[]), "");
    }
}
