//! One request against the standards and against what Mozilla's service was measured to do.
//!
//! Pure: the time, the subscription and the verifier come as arguments. Decryption is not here, because
//! no push service can decrypt; it is the receiver's part, in `received`.

use http::HeaderMap;

use super::Fixture;
use super::problem::Problem;
use super::vapid::{Presented, Verifier8292};

/// RFC 8030 section 7.2: every push service takes at least this much.
const LEAST_MAXIMUM: usize = 4_096;
/// What Mozilla's service takes at most.
const MOZILLA_MAXIMUM: usize = 5_630;
/// 30 days in seconds: Mozilla's service answers with no more.
const LONGEST_TTL: i64 = 2_592_000;
/// RFC 8030 section 5.4.
const LONGEST_TOPIC: usize = 32;
/// RFC 8030 section 5.3.
const URGENCIES: [&str; 4] = ["very-low", "low", "normal", "high"];

pub(super) enum Subscription<'a> {
    Unknown,
    Cancelled { key: &'a [u8] },
    Live { key: &'a [u8] },
}

pub(super) struct Findings {
    pub(super) presented: Presented,
    pub(super) problems: Vec<Problem>,
    /// The TTL to answer with, in seconds.
    pub(super) ttl: Option<i64>,
}

impl Findings {
    /// What Mozilla's service answers; `None` if it accepts.
    pub(super) fn refusal(&self) -> Option<Fixture> {
        let refusals = self.problems.iter().filter_map(Problem::refusal);
        refusals.min_by_key(|(order, _)| *order).map(|(_, fixture)| fixture)
    }
}

pub(super) fn inspect(
    headers: &HeaderMap,
    body_length: usize,
    subscription: &Subscription<'_>,
    verifier: &Verifier8292,
    now_s: i64,
) -> Findings {
    let mut problems = Vec::new();
    let key = match subscription {
        Subscription::Unknown => {
            problems.push(Problem::EndpointUnknown);
            None
        }
        Subscription::Cancelled { key } => {
            problems.push(Problem::Unsubscribed);
            Some(*key)
        }
        Subscription::Live { key } => Some(*key),
    };
    let mut presented = verifier.read(text(headers, "authorization"), key, now_s);
    problems.append(&mut presented.problems);

    let ttl = text(headers, "ttl").and_then(|ttl| ttl.parse::<i64>().ok());
    match ttl {
        None => problems.push(Problem::TtlMissing),
        Some(ttl) if ttl < 0 => problems.push(Problem::TtlNegative),
        Some(_) => {}
    }
    if let Some(topic) = headers.get("topic") {
        problems.extend(check_topic(topic.as_bytes()));
    }
    if let Some(urgency) = headers.get("urgency")
        && !URGENCIES.iter().any(|known| urgency == known)
    {
        problems.push(Problem::UrgencyUnknown);
    }
    if body_length > 0 {
        problems.extend(check_encoding(headers));
    }
    if body_length > MOZILLA_MAXIMUM {
        problems.push(Problem::BodyTooLarge(body_length));
    } else if body_length > LEAST_MAXIMUM {
        problems.push(Problem::BodyOverMinimum(body_length));
    }
    Findings { presented, problems, ttl: ttl.map(|ttl| ttl.min(LONGEST_TTL)) }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn check_topic(topic: &[u8]) -> Option<Problem> {
    let base64url = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if topic.is_empty() || topic.len() > LONGEST_TOPIC || !topic.iter().all(base64url) {
        return Some(Problem::TopicMalformed);
    }
    (topic.len() % 4 == 1).then_some(Problem::TopicLength)
}

fn check_encoding(headers: &HeaderMap) -> Option<Problem> {
    let holds = |name, key| text(headers, name).is_some_and(|value| value.contains(key));
    match headers.get("content-encoding").map(http::HeaderValue::as_bytes) {
        None => Some(Problem::ContentEncodingMissing),
        Some(b"aes128gcm") if holds("encryption", "salt=") || holds("crypto-key", "dh=") => {
            Some(Problem::EncryptionHeaderStray)
        }
        Some(b"aes128gcm") => None,
        Some(b"aesgcm") if holds("encryption", "salt=") => Some(Problem::ContentEncodingOutdated),
        Some(b"aesgcm") => Some(Problem::EncryptionHeaderMissing),
        Some(_) => Some(Problem::ContentEncodingUnknown),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sender::Sender;
    use super::*;
    use http::header::HeaderName;
    use serde_json::json;

    const ORIGIN: &str = "https://localhost:4430";
    const NOW: i64 = 1_790_000_000;

    /// A right request with some headers set (or, where `None`, left out), and a body of this length.
    fn answer(changes: &[(&str, Option<&str>)], body_length: usize) -> (Option<Fixture>, Vec<Problem>) {
        let sender = Sender::default();
        let claims = json!({"aud": ORIGIN, "exp": NOW + 60, "sub": "mailto:ops@example.com"});
        let mut headers = HeaderMap::new();
        headers.insert("ttl", "60".parse().expect("a value"));
        headers.insert("content-encoding", "aes128gcm".parse().expect("a value"));
        headers.insert("authorization", sender.authorization(&claims).parse().expect("a value"));
        for (name, value) in changes {
            let name: HeaderName = name.parse().expect("a name");
            match value {
                Some(value) => headers.insert(name, value.parse().expect("a value")),
                None => headers.remove(name),
            };
        }
        let key = sender.public_key();
        let verifier = Verifier8292::new(ORIGIN.into());
        let subscription = Subscription::Live { key: &key };
        let findings = inspect(&headers, body_length, &subscription, &verifier, NOW);
        (findings.refusal(), findings.problems)
    }

    #[test]
    fn a_right_request_is_accepted_with_and_without_a_body() {
        assert_eq!(answer(&[], 4_096), (None, vec![]));
        assert_eq!(answer(&[("content-encoding", None)], 0), (None, vec![]));
    }

    #[test]
    fn the_headers_are_answered_as_measured() {
        let too_long = "a".repeat(33);
        let cases = [
            ("ttl", None, Some(Fixture::MozillaTtlMissing), Problem::TtlMissing),
            ("ttl", Some("abc"), Some(Fixture::MozillaTtlMissing), Problem::TtlMissing),
            ("ttl", Some("1.5"), Some(Fixture::MozillaTtlMissing), Problem::TtlMissing),
            ("ttl", Some("-1"), Some(Fixture::MozillaTtlNegative), Problem::TtlNegative),
            ("topic", Some(too_long.as_str()), Some(Fixture::MozillaTopic), Problem::TopicMalformed),
            ("topic", Some("a b"), Some(Fixture::MozillaTopic), Problem::TopicMalformed),
            ("topic", Some(""), Some(Fixture::MozillaTopic), Problem::TopicMalformed),
            ("topic", Some("abcde"), None, Problem::TopicLength),
            ("urgency", Some("urgent"), None, Problem::UrgencyUnknown),
            (
                "content-encoding",
                None,
                Some(Fixture::MozillaEncryptionHeaders),
                Problem::ContentEncodingMissing,
            ),
            (
                "content-encoding",
                Some("aesgcm"),
                Some(Fixture::MozillaEncryptionHeaders),
                Problem::EncryptionHeaderMissing,
            ),
            (
                "content-encoding",
                Some("gzip"),
                Some(Fixture::MozillaEncodingUnknown),
                Problem::ContentEncodingUnknown,
            ),
            (
                "encryption",
                Some("salt=abc"),
                Some(Fixture::MozillaEncryptionHeaders),
                Problem::EncryptionHeaderStray,
            ),
            ("authorization", None, Some(Fixture::MozillaUnauthorized), Problem::AuthorizationMissing),
        ];
        for (name, value, fixture, problem) in cases {
            assert_eq!(answer(&[(name, value)], 200), (fixture, vec![problem]), "{name}: {value:?}");
        }
    }

    #[test]
    fn the_sizes_are_answered_as_measured() {
        assert_eq!(answer(&[], 4_097), (None, vec![Problem::BodyOverMinimum(4_097)]));
        assert_eq!(answer(&[], 5_630), (None, vec![Problem::BodyOverMinimum(5_630)]));
        let too_large = vec![Problem::BodyTooLarge(5_631)];
        assert_eq!(answer(&[], 5_631), (Some(Fixture::MozillaTooLarge), too_large));
    }

    #[test]
    fn of_several_problems_the_one_that_autopush_checks_first_is_answered() {
        let changes = [("ttl", None), ("authorization", None), ("topic", Some(""))];
        let (fixture, problems) = answer(&changes, 6_000);
        assert_eq!(fixture, Some(Fixture::MozillaUnauthorized));
        assert_eq!(problems.len(), 4);
    }

    #[test]
    fn a_ttl_is_answered_with_no_more_than_30_days() {
        let verifier = Verifier8292::new(ORIGIN.into());
        let mut headers = HeaderMap::new();
        headers.insert("ttl", "7776000".parse().expect("a value"));
        let findings = inspect(&headers, 0, &Subscription::Unknown, &verifier, NOW);
        assert_eq!(findings.ttl, Some(2_592_000));
        assert_eq!(findings.refusal(), Some(Fixture::MozillaNotFound));
    }
}
