//! Where spans go: an operator's word, not a stranger's. So it may be on a private network, and on any port.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

/// The URL that traces are posted to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Collector(Url);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CollectorError {
    #[error(
        "is not the address of a collector (expected its OTLP/HTTP endpoint, such as https://collector.example:4318, to which /v1/traces is \
         added)"
    )]
    NotAUrl,
    #[error("must begin with https:// or http://")]
    Scheme,
    /// It would be seen by everyone who may read the function's settings.
    #[error(
        "must not contain a user name, a password or a query: what authenticates goes into OTLP_HEADERS_SECRET_ID"
    )]
    Credentials,
}

impl Collector {
    /// Reads what `OTEL_EXPORTER_OTLP_ENDPOINT` is elsewhere: an address that the path of the signal is added to.
    pub fn parse(text: &str) -> Result<Self, CollectorError> {
        let mut url = Url::parse(text).map_err(|_| CollectorError::NotAUrl)?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(CollectorError::Scheme);
        }
        let has_user = !url.username().is_empty() || url.password().is_some();
        if has_user || url.query().is_some() || url.fragment().is_some() {
            return Err(CollectorError::Credentials);
        }
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
        Ok(Self(url))
    }

    pub fn url(&self) -> &Url {
        &self.0
    }
}

/// What the collector is shown with each request. Its values are never printed.
#[derive(Clone, Default)]
pub struct CollectorHeaders(HeaderMap);

impl fmt::Debug for CollectorHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CollectorHeaders(redacted, {})", self.0.len())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected NAME=VALUE, percent-encoded, several with a comma between them (as in OTEL_EXPORTER_OTLP_HEADERS), or a JSON object of texts"
)]
pub struct NotHeaders;

impl CollectorHeaders {
    /// Reads `api-key=…,x-tenant=…`, whose values are percent-encoded, or `{"api-key": "…"}`, whose values are as they are.
    pub fn parse(text: &str) -> Result<Self, NotHeaders> {
        let text = text.trim();
        let pairs: Vec<(String, String)> = if text.starts_with('{') {
            let fields: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(text).map_err(|_| NotHeaders)?;
            let pair = |(name, value): (String, serde_json::Value)| Some((name, value.as_str()?.to_owned()));
            fields.into_iter().map(pair).collect::<Option<_>>().ok_or(NotHeaders)?
        } else {
            let pair = |text: &str| {
                let (name, value) = text.split_once('=')?;
                Some((name.trim().to_owned(), decoded(value.trim())?))
            };
            text.split(',')
                .filter(|one| !one.trim().is_empty())
                .map(pair)
                .collect::<Option<_>>()
                .ok_or(NotHeaders)?
        };
        let mut headers = HeaderMap::with_capacity(pairs.len());
        for (name, value) in pairs {
            let name =
                HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes()).map_err(|_| NotHeaders)?;
            let mut value = HeaderValue::from_str(&value).map_err(|_| NotHeaders)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Self(headers))
    }

    /// All of them. Never log what this returns.
    pub fn expose(&self) -> &HeaderMap {
        &self.0
    }
}

/// What a percent-encoded text stands for; `None` if it is not well-formed, or no UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.extend(hex::decode(digits).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_traces_is_added_to_the_endpoint() {
        for (text, url) in [
            ("https://collector.example:4318", "https://collector.example:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://otlp.example/otlp", "https://otlp.example/otlp/v1/traces"),
        ] {
            assert_eq!(Collector::parse(text).expect("valid").url().as_str(), url);
        }
    }

    #[test]
    fn an_endpoint_that_would_show_a_secret_is_refused() {
        for (text, error) in [
            ("collector.example", CollectorError::NotAUrl),
            ("https://", CollectorError::NotAUrl),
            ("collector.example:4317", CollectorError::Scheme),
            ("grpc://collector.example:4317", CollectorError::Scheme),
            ("https://user@collector.example", CollectorError::Credentials),
            ("https://:s3cret@collector.example", CollectorError::Credentials),
            ("https://collector.example?api-key=s3cret", CollectorError::Credentials),
            ("https://collector.example#s3cret", CollectorError::Credentials),
        ] {
            assert_eq!(Collector::parse(text), Err(error), "{text}");
            assert!(!error.to_string().contains("s3cret"));
        }
    }

    #[test]
    fn headers_are_pairs_or_an_object_and_are_never_printed() {
        let all = |text: &str| {
            let headers = CollectorHeaders::parse(text).expect("valid");
            assert!(!format!("{headers:?}").contains("s3cret"), "{headers:?}");
            let pair = |(name, value): (&HeaderName, &HeaderValue)| {
                format!("{name}={}", value.to_str().expect("text"))
            };
            headers.expose().iter().map(pair).collect::<Vec<_>>().join(",")
        };
        assert_eq!(all("Api-Key=s3cret=, x-b = 2,"), "api-key=s3cret=,x-b=2");
        assert_eq!(all(r#"{"Authorization": "Bearer s3cret"}"#), "authorization=Bearer s3cret");
        assert_eq!(all(""), "");
        // The form of the environment variable is percent-encoded, JSON is not.
        assert_eq!(all("Authorization=Basic%20s3cret"), "authorization=Basic s3cret");
        assert_eq!(all("a= 1%2C%3d%2b+%20 "), "a=1,=++ ");
        assert_eq!(all(r#"{"a": "s3cret%20%"}"#), "a=s3cret%20%");
        let encoded = ["a=1%", "a=1%2", "a=%+2", "a=%zz", "a=%0a", "a=%ff", "a=%€"];
        for bad in ["s3cret", "a b=1", "a=\u{7f}", "{", r#"{"a":1}"#].into_iter().chain(encoded) {
            assert!(CollectorHeaders::parse(bad).is_err(), "{bad}");
        }
    }
}
