//! Who sends: the `Authorization: vapid t=…, k=…` header of RFC 8292, read and verified.
//!
//! Every departure is collected, not only the first, because a test wants to see all that is wrong. Which
//! of them a real push service refuses is decided in `problem`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{Signature, VerifyingKey};
use serde_json::{Map, Value};

use super::problem::Problem;

/// base64url as senders write it, with or without padding.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// How long after `exp` Mozilla's service still accepts a token, in seconds: 30 s passed, an hour did not.
const LEEWAY_S: i64 = 60;
/// RFC 8292 section 2: `exp` lies no more than 24 hours ahead.
const FURTHEST_S: i64 = 24 * 60 * 60;
/// Remembered signatures; a sender that makes a new token for every message must not fill the memory.
const REMEMBERED: usize = 4_096;

/// What a token says of its sender. A claim of the wrong JSON type is absent here; `all` has it as sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims {
    pub aud: Option<String>,
    /// Seconds since the epoch.
    pub exp: Option<i64>,
    /// `mailto:` or `https:` of the sender's operator.
    pub sub: Option<String>,
    /// Every claim as it was sent.
    pub all: Map<String, Value>,
}

/// What a request's Authorization header turned out to hold.
#[derive(Debug, Default)]
pub(super) struct Presented {
    pub(super) token: Option<String>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) claims: Option<Claims>,
    pub(super) problems: Vec<Problem>,
}

/// Verifies tokens against one origin.
pub(super) struct Verifier8292 {
    origin: String,
    /// A token is sent with many messages, and a signature is verified once: `(token, key)` → it fits.
    verified: Mutex<HashMap<(String, Vec<u8>), bool>>,
}

impl Verifier8292 {
    pub(super) fn new(origin: String) -> Self {
        Self { origin, verified: Mutex::default() }
    }

    /// Reads the header; `subscription_key` is the one the endpoint was made with.
    pub(super) fn read(
        &self,
        header: Option<&str>,
        subscription_key: Option<&[u8]>,
        now_s: i64,
    ) -> Presented {
        let mut seen = Presented::default();
        let Some(header) = header else {
            seen.problems.push(Problem::AuthorizationMissing);
            return seen;
        };
        let Some((scheme, parameters)) = header.split_once(' ') else {
            seen.problems.push(Problem::AuthorizationScheme);
            return seen;
        };
        if !scheme.eq_ignore_ascii_case("vapid") {
            seen.problems.push(Problem::AuthorizationScheme);
            return seen;
        }
        for parameter in parameters.split(',') {
            match parameter.trim().split_once('=') {
                Some(("t", value)) => seen.token = Some(value.trim_matches('"').to_owned()),
                Some(("k", value)) => match BASE64URL.decode(value.trim_matches('"')) {
                    Ok(key) => seen.key = Some(key),
                    Err(_) => seen.problems.push(Problem::VapidKeyMalformed),
                },
                Some(_) | None => {}
            }
        }
        if seen.key.is_none() && seen.problems.is_empty() {
            seen.problems.push(Problem::VapidKeyMissing);
        }
        if let (Some(presented), Some(expected)) = (&seen.key, subscription_key)
            && presented != expected
        {
            seen.problems.push(Problem::VapidKeyNotTheSubscriptions);
        }
        let Some(token) = seen.token.clone() else {
            seen.problems.push(Problem::VapidTokenMissing);
            return seen;
        };
        self.read_token(&token, &mut seen);
        if let Some(claims) = &seen.claims {
            check_claims(claims, &self.origin, now_s, &mut seen.problems);
        }
        seen
    }

    fn read_token(&self, token: &str, seen: &mut Presented) {
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts.as_slice() else {
            seen.problems.push(Problem::VapidTokenMalformed);
            return;
        };
        let (Some(header), Some(all)) = (json_object(header), json_object(claims)) else {
            seen.problems.push(Problem::VapidTokenMalformed);
            return;
        };
        seen.claims = Some(Claims {
            aud: all.get("aud").and_then(Value::as_str).map(str::to_owned),
            exp: all.get("exp").and_then(Value::as_i64),
            sub: all.get("sub").and_then(Value::as_str).map(str::to_owned),
            all,
        });
        if header.get("alg").and_then(Value::as_str) != Some("ES256") {
            seen.problems.push(Problem::VapidAlgorithm);
            return;
        }
        let Some(key) = &seen.key else { return };
        match self.signature_fits(token, signature, key) {
            Some(true) => {}
            Some(false) => seen.problems.push(Problem::VapidSignature),
            None => seen.problems.push(Problem::VapidKeyMalformed),
        }
    }

    /// `None` if the key is no point of the curve.
    fn signature_fits(&self, token: &str, signature: &str, key: &[u8]) -> Option<bool> {
        let name = (token.to_owned(), key.to_vec());
        if let Some(fits) = self.verified.lock().unwrap_or_else(PoisonError::into_inner).get(&name) {
            return Some(*fits);
        }
        let verifying = VerifyingKey::from_sec1_bytes(key).ok()?;
        let signed = token.rsplit_once('.').map_or("", |(signed, _)| signed);
        let signature = BASE64URL.decode(signature).ok();
        let signature = signature.and_then(|bytes| Signature::from_slice(&bytes).ok());
        let fits = signature.is_some_and(|signature| verifying.verify(signed.as_bytes(), &signature).is_ok());
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= REMEMBERED {
            verified.clear();
        }
        verified.insert(name, fits);
        Some(fits)
    }
}

fn json_object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&BASE64URL.decode(part).ok()?).ok()
}

fn check_claims(claims: &Claims, origin: &str, now_s: i64, problems: &mut Vec<Problem>) {
    match &claims.aud {
        None => problems.push(Problem::AudMissing),
        Some(aud) if aud != origin => problems.push(Problem::AudNotTheOrigin),
        Some(_) => {}
    }
    match claims.exp {
        None => problems.push(Problem::ExpMissing),
        Some(exp) if exp < now_s - LEEWAY_S => problems.push(Problem::ExpPast),
        Some(exp) if exp < now_s => problems.push(Problem::ExpWithinLeeway),
        Some(exp) if exp > now_s + FURTHEST_S => problems.push(Problem::ExpTooFar),
        Some(_) => {}
    }
    match &claims.sub {
        None => problems.push(Problem::SubMissing),
        Some(sub) if !sub.starts_with("mailto:") && !sub.starts_with("https://") => {
            problems.push(Problem::SubNoContact);
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::sender::Sender;
    use super::*;
    use serde_json::json;

    const ORIGIN: &str = "https://localhost:4430";
    const NOW: i64 = 1_790_000_000;

    fn problems(sender: &Sender, claims: &Value) -> Vec<Problem> {
        let header = sender.authorization(claims);
        Verifier8292::new(ORIGIN.into()).read(Some(&header), Some(&sender.public_key()), NOW).problems
    }

    fn claims(exp: i64) -> Value {
        json!({"aud": ORIGIN, "exp": exp, "sub": "mailto:ops@example.com"})
    }

    #[test]
    fn a_right_token_has_no_problem() {
        let sender = Sender::default();
        assert_eq!(problems(&sender, &claims(NOW + 43_200)), []);
    }

    #[test]
    fn the_measured_expiries_are_distinguished() {
        let sender = Sender::default();
        let cases = [
            (NOW - 30, vec![Problem::ExpWithinLeeway]),
            (NOW - 3_600, vec![Problem::ExpPast]),
            (NOW + 86_340, vec![]),
            (NOW + 86_460, vec![Problem::ExpTooFar]),
        ];
        for (exp, expected) in cases {
            assert_eq!(problems(&sender, &claims(exp)), expected, "exp {exp}");
        }
    }

    #[test]
    fn a_claim_that_is_missing_or_of_another_type_is_named() {
        let sender = Sender::default();
        let exp = NOW + 60;
        let sub = "mailto:ops@example.com";
        let cases = [
            (json!({"exp": exp, "sub": sub}), Problem::AudMissing),
            (json!({"aud": "https://localhost", "exp": exp, "sub": sub}), Problem::AudNotTheOrigin),
            (json!({"aud": "https://localhost:4430/", "exp": exp, "sub": sub}), Problem::AudNotTheOrigin),
            (json!({"aud": ORIGIN, "sub": sub}), Problem::ExpMissing),
            (json!({"aud": ORIGIN, "exp": exp.to_string(), "sub": sub}), Problem::ExpMissing),
            (json!({"aud": ORIGIN, "exp": exp}), Problem::SubMissing),
            (json!({"aud": ORIGIN, "exp": exp, "sub": null}), Problem::SubMissing),
            (json!({"aud": ORIGIN, "exp": exp, "sub": "ops@example.com"}), Problem::SubNoContact),
        ];
        for (claims, expected) in cases {
            assert_eq!(problems(&sender, &claims), [expected], "{claims}");
        }
    }

    #[test]
    fn another_key_than_the_subscriptions_is_named_though_its_signature_fits() {
        let (ours, other) = (Sender::default(), Sender::default());
        let header = other.authorization(&claims(NOW + 60));
        let seen = Verifier8292::new(ORIGIN.into()).read(Some(&header), Some(&ours.public_key()), NOW);
        assert_eq!(seen.problems, [Problem::VapidKeyNotTheSubscriptions]);
    }

    #[test]
    fn a_forged_token_or_signature_is_reported_each_time() {
        let sender = Sender::default();
        let header = sender.authorization(&claims(NOW + 60));
        let forged = header.replacen("t=", "t=e30", 1);
        let verifier = Verifier8292::new(ORIGIN.into());
        let key = sender.public_key();
        let malformed = verifier.read(Some(&forged), Some(&key), NOW).problems;
        assert_eq!(malformed, [Problem::VapidTokenMalformed]);

        let (token, k) = header.split_once(", ").expect("two parameters");
        let (signed, _) = token.rsplit_once('.').expect("three parts");
        let zeros = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode([1; 64]);
        let forged = format!("{signed}.{zeros}, {k}");
        for _ in 0..2 {
            let seen = verifier.read(Some(&forged), Some(&key), NOW).problems;
            assert_eq!(seen, [Problem::VapidSignature]);
        }
    }

    #[test]
    fn a_header_that_is_no_vapid_header_is_named() {
        let verifier = Verifier8292::new(ORIGIN.into());
        let sender = Sender::default();
        let key = sender.public_key();
        let good = sender.authorization(&claims(NOW + 60));
        let (token, k) = good.split_once(", ").expect("two parameters");
        let cases = [
            (None, Problem::AuthorizationMissing),
            (Some("Bearer abc"), Problem::AuthorizationScheme),
            (Some("vapid"), Problem::AuthorizationScheme),
            (Some(token), Problem::VapidKeyMissing),
        ];
        for (header, expected) in cases {
            assert_eq!(verifier.read(header, Some(&key), NOW).problems, [expected], "{header:?}");
        }
        let only_key = format!("vapid {k}");
        assert_eq!(verifier.read(Some(&only_key), Some(&key), NOW).problems, [Problem::VapidTokenMissing]);
        let other_case = good.replacen("vapid", "VAPID", 1);
        assert_eq!(verifier.read(Some(&other_case), Some(&key), NOW).problems, []);
    }

    #[test]
    fn a_token_of_another_algorithm_is_refused_unread() {
        let sender = Sender::default();
        for algorithm in ["none", "HS256"] {
            let header = sender.authorization_by(algorithm, &claims(NOW + 60));
            let verifier = Verifier8292::new(ORIGIN.into());
            let seen = verifier.read(Some(&header), Some(&sender.public_key()), NOW).problems;
            assert_eq!(seen, [Problem::VapidAlgorithm], "{algorithm}");
        }
    }
}
