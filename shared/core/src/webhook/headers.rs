//! Headers that a sender may add to a webhook.
//!
//! Headers of HTTP itself and of the signature, and headers that proxies trust, are never accepted. A message's own headers are on a
//! short list, because a message comes from any producer; a subscription is the operator's, may have any other header, and may permit
//! further ones to its messages.

use std::fmt;

const MOST: usize = 20;

const MAX_NAME: usize = 64;
const MAX_VALUE: usize = 1024;

/// Never accepted: HTTP's own headers, and the signature's.
const NEVER: [&str; 20] = [
    "connection",
    "content-encoding",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// Never accepted, by prefix: proxies and load balancers set these.
const NEVER_PREFIXES: [&str; 3] = ["x-forwarded-", "x-real-", "x-amz-"];

/// Any message may set these, and `x-…`.
const FREE: [&str; 8] = [
    "accept",
    "accept-language",
    "baggage",
    "content-type",
    "correlation-id",
    "request-id",
    "traceparent",
    "tracestate",
];

/// Header names that a subscription permits its messages besides the free ones, in lower case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Permitted(Vec<String>);

impl Permitted {
    /// `None` if a name is invalid or never accepted.
    pub fn new(names: Vec<String>) -> Option<Self> {
        let names: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        (names.len() <= MOST && names.iter().all(|name| is_name(name) && !is_never(name)))
            .then_some(Self(names))
    }

    pub fn names(&self) -> &[String] {
        &self.0
    }
}

/// Headers, names in lower case and distinct, values of visible ASCII.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct CustomHeaders(Vec<(String, String)>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeaderError {
    #[error("at most 20 headers")]
    TooMany,
    /// The name is invalid, never accepted, or repeated.
    #[error("another name: no part of HTTP itself or of the signature, and each once")]
    Name,
    #[error("1 to 1024 visible ASCII characters and spaces")]
    Value,
}

impl CustomHeaders {
    /// The error has the name of its header.
    pub fn new(headers: Vec<(String, String)>) -> Result<Self, (String, HeaderError)> {
        let mut taken: Vec<(String, String)> = Vec::with_capacity(headers.len());
        for (written, value) in headers {
            let name = written.to_ascii_lowercase();
            if taken.len() >= MOST {
                return Err((written, HeaderError::TooMany));
            }
            if !is_name(&name) || is_never(&name) || taken.iter().any(|(known, _)| *known == name) {
                return Err((written, HeaderError::Name));
            }
            if !is_value(&value) {
                return Err((written, HeaderError::Value));
            }
            taken.push((name, value));
        }
        Ok(Self(taken))
    }

    /// Whether a message may set all of them where its subscription permits these.
    pub fn are_permitted(&self, permitted: &Permitted) -> bool {
        self.0.iter().all(|(name, _)| {
            name.starts_with("x-") || FREE.contains(&name.as_str()) || permitted.0.contains(name)
        })
    }

    /// These, and those of `others` with other names.
    #[must_use]
    pub fn over(&self, others: &Self) -> Self {
        let mut all = self.0.clone();
        all.extend(others.0.iter().filter(|(name, _)| self.get(name).is_none()).cloned());
        Self(all)
    }

    /// The value of a header, by its name in lower case. Never log what this returns.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All names and values. Never log what this returns.
    pub fn expose(&self) -> &[(String, String)] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for CustomHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomHeaders(redacted, {})", self.0.len())
    }
}

fn is_never(name: &str) -> bool {
    NEVER.contains(&name) || NEVER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// A token (RFC 9110, 5.6.2), in lower case.
fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn is_value(value: &str) -> bool {
    (1..=MAX_VALUE).contains(&value.len())
        && value.bytes().all(|b| (b' '..=b'~').contains(&b))
        && value.trim() == value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pairs;

    fn headers(headers: &[(&str, &str)]) -> Result<CustomHeaders, HeaderError> {
        CustomHeaders::new(pairs(headers)).map_err(|(_, error)| error)
    }

    #[test]
    fn headers_of_http_and_of_the_signature_are_never_accepted() {
        let forged =
            ["Host", "WEBHOOK-ID", "content-length", "X-Forwarded-For", "transfer-encoding", "cookie"];
        for name in NEVER.iter().copied().chain(forged) {
            assert_eq!(headers(&[(name, "x")]), Err(HeaderError::Name), "{name}");
            assert_eq!(Permitted::new(vec![name.to_owned()]), None, "{name}");
        }
    }

    #[test]
    fn names_and_values_must_be_valid_in_http() {
        let long = "a".repeat(1025);
        for name in ["", "a b", "a:b", "é", "a\r\nb", &long[..65]] {
            assert_eq!(headers(&[(name, "x")]), Err(HeaderError::Name), "{name:?}");
        }
        for value in ["", " x", "x ", "a\r\nb: c", "é", &long] {
            assert_eq!(headers(&[("x-a", value)]), Err(HeaderError::Value), "{value:?}");
        }
        assert_eq!(headers(&[("x-a", "1"), ("X-A", "2")]), Err(HeaderError::Name));
        let many: Vec<(String, String)> = (0..21).map(|n| (format!("x-{n}"), "x".to_owned())).collect();
        assert_eq!(CustomHeaders::new(many), Err(("x-20".to_owned(), HeaderError::TooMany)));
    }

    #[test]
    fn a_message_may_set_free_and_permitted_headers() {
        let none = Permitted::default();
        let with_token = Permitted::new(vec!["Authorization".to_owned()]).expect("valid");
        let free = [("X-Shop", "1"), ("Content-Type", "text/plain"), ("traceparent", "00-1")];
        let token = headers(&[("Authorization", "Bearer s3cret")]).expect("valid");
        assert!(headers(&free).expect("valid").are_permitted(&none));
        assert_eq!([&none, &with_token].map(|it| token.are_permitted(it)), [false, true]);
        assert_eq!(format!("{token:?}"), "CustomHeaders(redacted, 1)");
    }

    #[test]
    fn a_message_s_headers_override_its_subscription_s() {
        let own = headers(&[("x-a", "message")]).expect("valid");
        let all = own.over(&headers(&[("x-a", "subscription"), ("x-b", "subscription")]).expect("valid"));
        assert_eq!((all.get("x-a"), all.get("x-b")), (Some("message"), Some("subscription")));
        assert_eq!(all.expose().len(), 2);
    }
}
