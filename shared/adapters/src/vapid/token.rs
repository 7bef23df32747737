//! The signed token, and how long it is used.
//!
//! A token names a push service (`aud`) and an end (`exp`), and nothing about a message, so one serves every push to an origin. It is
//! renewed long before its end, and also when the clock was set back so far that a push service would refuse its `exp`.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use redial_core::endpoint::Origin;
use redial_core::identity::VapidKeyId;
use redial_core::time::Timestamp;
use ring::rand::SystemRandom;
use serde::Serialize;

use super::{VapidKey, VapidSubject};
use crate::cache::Cache;

/// How long a token is valid when it is signed: half of what RFC 8292, 2 allows, so that a clock that is wrong by hours
/// does not make all tokens invalid.
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// A token with less than this left is replaced: no push waits at its service until the token has expired.
pub const RENEW_BEFORE: Duration = Duration::from_secs(2 * 3600);

#[derive(Serialize)]
struct Claims<'a> {
    aud: &'a str,
    exp: i64,
    sub: &'a str,
}

/// An Authorization header and the end of its token.
#[derive(Clone)]
pub(super) struct Token {
    header: HeaderValue,
    exp: Timestamp,
}

impl Token {
    /// Signs a token for `origin` that ends [`TOKEN_LIFETIME`] after `now`.
    pub(super) fn sign(
        key: &VapidKey,
        origin: &Origin,
        subject: &VapidSubject,
        now: Timestamp,
        random: &SystemRandom,
    ) -> Self {
        let exp = now.plus(TOKEN_LIFETIME).as_secs();
        let claims = serde_json::to_string(&Claims { aud: origin.as_str(), exp, sub: subject.as_str() })
            .expect("invariant: two strings and a number are JSON");
        let mut jwt = URL_SAFE_NO_PAD.encode(r#"{"typ":"JWT","alg":"ES256"}"#);
        jwt.push('.');
        URL_SAFE_NO_PAD.encode_string(claims, &mut jwt);
        let signature = key.sign(random, jwt.as_bytes());
        jwt.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut jwt);
        let mut header = HeaderValue::try_from(format!("vapid t={jwt}, k={}", key.public_base64url()))
            .expect("invariant: base64url is fit for a header");
        header.set_sensitive(true);
        Self { header, exp: Timestamp::from_secs(exp) }
    }

    fn serves(&self, now: Timestamp) -> bool {
        now.plus(RENEW_BEFORE) < self.exp && self.exp <= now.plus(TOKEN_LIFETIME)
    }

    pub(super) fn into_header(self) -> HeaderValue {
        self.header
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(redacted, until {:?})", self.exp)
    }
}

/// Push services are a dozen origins, but a hostile set of subscriptions may name any number.
const MOST_TOKENS: usize = 1024;

/// Tokens by key and origin.
#[derive(Debug, Default)]
pub(super) struct TokenCache(Cache<(VapidKeyId, Origin), Token, MOST_TOKENS>);

impl TokenCache {
    /// A token that is valid at `now`: the cached one, or the one that `sign` makes.
    pub(super) fn get(
        &self,
        key_id: &VapidKeyId,
        origin: &Origin,
        now: Timestamp,
        sign: impl FnOnce() -> Token,
    ) -> Token {
        let key = (key_id.clone(), origin.clone());
        if let Some(token) = self.0.lock().get(&key).filter(|token| token.serves(now)) {
            return token.clone();
        }
        let token = sign();
        self.0.insert(key, token.clone(), |token| u8::from(token.serves(now)));
        token
    }
}

#[cfg(test)]
mod tests {
    use p256::ecdsa::signature::Verifier;
    use p256::ecdsa::{Signature, VerifyingKey};
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::key::tests::scalar;
    use super::*;

    const NOON: i64 = 1_800_000_000;

    fn sign(origin: &str, now: Timestamp) -> Token {
        Token::sign(
            &VapidKey::parse(&scalar(7)).expect("a key"),
            &Origin::parse(origin).expect("an origin"),
            &VapidSubject::parse("mailto:push@shop.example").expect("a subject"),
            now,
            &SystemRandom::new(),
        )
    }

    /// The claims, after another implementation has verified the signature.
    fn verified(header: &HeaderValue) -> Value {
        let text = header.to_str().expect("text");
        let (jwt, key) = text.strip_prefix("vapid t=").and_then(|t| t.split_once(", k=")).expect("the form");
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).expect("base64url");
        let (signed, signature) = jwt.rsplit_once('.').expect("three parts");
        VerifyingKey::from_sec1_bytes(&decode(key))
            .expect("a point")
            .verify(signed.as_bytes(), &Signature::from_slice(&decode(signature)).expect("r and s"))
            .expect("a good signature");
        let (head, claims) = signed.split_once('.').expect("three parts");
        assert_eq!(decode(head), br#"{"typ":"JWT","alg":"ES256"}"#);
        serde_json::from_slice(&decode(claims)).expect("JSON")
    }

    #[test]
    fn a_token_claims_origin_end_and_subject_with_a_valid_signature() {
        for (origin, aud) in [
            ("https://push.example:8443", "https://push.example:8443"),
            // A default port is not part of it.
            ("https://push.example:443", "https://push.example"),
        ] {
            let token = sign(origin, Timestamp::from_secs(NOON));
            assert!(token.header.is_sensitive());
            let (exp, sub) = (NOON + 12 * 3600, "mailto:push@shop.example");
            assert_eq!(verified(&token.header), serde_json::json!({"aud": aud, "exp": exp, "sub": sub}));
            assert_eq!(format!("{token:?}"), "Token(redacted, until 2027-01-15T20:00:00.000Z)");
        }
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = TokenCache::default();
        let id = VapidKeyId::parse("k").expect("an id");
        let now = Timestamp::from_secs(NOON);
        let token = sign("https://push.example", now);
        for n in 0..3 * MOST_TOKENS {
            let origin = Origin::parse(&format!("https://host-{n}.example")).expect("an origin");
            cache.get(&id, &origin, now, || token.clone());
            assert!(cache.0.lock().len() <= MOST_TOKENS);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// However the clock moves, forwards or back.
        #[test]
        fn a_token_in_use_has_two_to_twelve_hours_left(steps in prop::collection::vec(-50_000i64..50_000, 1..40)) {
            let cache = TokenCache::default();
            let id = VapidKeyId::parse("k").expect("an id");
            let origin = Origin::parse("https://push.example").expect("an origin");
            let mut at = NOON;
            for step in steps {
                at += step;
                let now = Timestamp::from_secs(at);
                let token = cache.get(&id, &origin, now, || sign("https://push.example", now));
                let left = token.exp.as_secs() - at;
                prop_assert!((2 * 3600 + 1..=12 * 3600).contains(&left), "{left} s left");
            }
            prop_assert_eq!(cache.0.lock().len(), 1);
        }
    }
}
