//! Where a message is sent to: an address that cannot be printed, and the hash that stands for it.
//!
//! A push endpoint is a capability: anyone who knows it and the keys can push to that browser. So the type has a redacting
//! `Debug`, no `Display`, and one method, [`Endpoint::expose`], that returns the text to connect to or to store. In logs, metrics,
//! references and the ledger an endpoint is its [`EndpointHash`]: HMAC-SHA256 under a key that rotates, written `hmac:<key id>:<hex>`.

use std::sync::Arc;

use serde::Deserialize;
use url::{Host, Position, Url};

use crate::named_keys::{MAX_ID, NamedKey, NamedKeys};
use crate::text::{checked_text, is_word, redacted};

/// Longest endpoint that is accepted, in bytes. Push services' endpoints are 150 to 700 bytes long.
pub const MAX_ENDPOINT_BYTES: usize = 2048;

/// A validated https address without userinfo and fragment.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Endpoint(Url);

/// Why a text is not an endpoint. Says what is wrong, never the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("longer than {MAX_ENDPOINT_BYTES} bytes")]
    TooLong,
    #[error("not an absolute URL with a host")]
    NotAUrl,
    #[error("not an https URL")]
    NotHttps,
    #[error("carries a user name or password")]
    Userinfo,
}

impl Endpoint {
    /// Validates `text`: an absolute https URL with a host, without userinfo. A fragment is dropped.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        if text.len() > MAX_ENDPOINT_BYTES {
            return Err(EndpointError::TooLong);
        }
        let mut url = Url::parse(text).map_err(|_| EndpointError::NotAUrl)?;
        if url.scheme() != "https" {
            return Err(EndpointError::NotHttps);
        }
        if url.host().is_none() {
            return Err(EndpointError::NotAUrl);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointError::Userinfo);
        }
        url.set_fragment(None);
        Ok(Self(url))
    }

    /// The address itself, to connect to it or to store it. Never log what this returns.
    pub fn expose(&self) -> &Url {
        &self.0
    }

    /// Scheme, host and port: what a connection, a VAPID audience and a circuit breaker belong to.
    pub fn origin(&self) -> Origin {
        // Of an https address without userinfo this is its serialisation (RFC 6454, 6.2): a port that is https's own is not in it.
        Origin(self.0[..Position::BeforePath].into())
    }

    /// The host, lower case, for matching against provider rules and allow-lists.
    pub fn host(&self) -> Host<&str> {
        self.0.host().unwrap_or(Host::Domain(""))
    }
}

redacted!(Endpoint);

/// An origin as RFC 6454 writes it: `https://host`, with `:port` only where it is not the scheme's own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Origin(Arc<str>);

impl Origin {
    /// Reads an origin such as `https://localhost:8443`; `None` for anything with a path, query or userinfo.
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let is_bare = url.username().is_empty()
            && url.password().is_none()
            && matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none();
        (is_bare && matches!(url.scheme(), "https" | "http") && url.host().is_some())
            .then(|| Self(url.origin().ascii_serialization().into()))
    }

    /// `https://host[:port]`: also the `aud` claim of a VAPID token (RFC 8292, 2).
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The hosts that web push may be sent to: names, or `*.` and a suffix, which any name below that suffix matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushHosts(Vec<String>);

impl PushHosts {
    /// The push services of the browsers: Chrome and its kin, Firefox, Safari, Edge.
    pub const DEFAULT: &str = "fcm.googleapis.com,jmt17.google.com,updates.push.services.mozilla.com,\
*.push.services.mozilla.com,*.push.apple.com,*.notify.windows.com";

    /// Reads a comma-separated list of patterns; `Err` names the first one that is none.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut patterns = Vec::new();
        for pattern in list.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let name = pattern.strip_prefix("*.").unwrap_or(pattern);
            let is_label = |label: &str| {
                !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            };
            let valid = name.split('.').all(is_label);
            if !valid {
                return Err(pattern.to_owned());
            }
            patterns.push(pattern.to_ascii_lowercase());
        }
        Ok(Self(patterns))
    }

    /// Whether the endpoint's host is one of them. An address literal never is.
    pub fn allows(&self, endpoint: &Endpoint) -> bool {
        let Host::Domain(host) = endpoint.host() else { return false };
        self.0.iter().any(|pattern| host_matches(host, pattern))
    }
}

/// Whether `host` is `pattern`, or lies below it where the pattern is `*.suffix`.
pub fn host_matches(host: &str, pattern: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(suffix) => host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1),
        None => host == pattern,
    }
}

checked_text! {
    /// An endpoint's stand-in: `hmac:<key id>:<64 hex digits>`.
    EndpointHash, |text| {
        let parts = text.strip_prefix("hmac:").and_then(|rest| rest.split_once(':'));
        parts.is_some_and(|(key_id, hex)| {
            let is_hex = hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            is_word(key_id, MAX_ID) && hex.len() == 64 && is_hex
        })
    };
}

impl EndpointHash {
    /// The digits of it that are shown where a line has to be short.
    pub const SHORT: usize = 8;

    pub fn short(&self) -> &str {
        self.0.rsplit(':').next().and_then(|digits| digits.get(..Self::SHORT)).unwrap_or_default()
    }

    pub fn key_id(&self) -> &str {
        self.0.split(':').nth(1).unwrap_or_default()
    }
}

/// The keys under which endpoints and contents are hashed: new hashes are made with the first, and hashes of all are recognised. The others are former keys, and the one that comes next: during a rotation workers that read the keys at different times run side
/// by side, and each must recognise the hashes of the others.
#[derive(Clone, Debug)]
pub struct HashKeys(NamedKeys);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected `<key id>:<secret of at least 16 characters>`, several separated by commas, the current one first"
)]
pub struct HashKeysError;

impl HashKeys {
    /// Reads `id:secret[,id:secret…]`, the current key first; or `{"id": …, "key": …}`, as Secrets Manager generates it, with
    /// `"next": {"id", "key"}` beside it, and `"former": [{"id", "key"}, …]`, as a rotation writes them. Ids are
    /// `[A-Za-z0-9_-]{1,32}`, secrets at least 16 characters without a comma.
    pub fn parse(text: &str) -> Result<Self, HashKeysError> {
        #[derive(Deserialize)]
        struct Named {
            id: String,
            key: String,
        }
        #[derive(Deserialize)]
        struct Several {
            #[serde(flatten)]
            current: Named,
            next: Option<Named>,
            #[serde(default)]
            former: Vec<Named>,
        }
        if text.trim_start().starts_with('{') {
            let Several { current, next, former } = serde_json::from_str(text).map_err(|_| HashKeysError)?;
            let all = std::iter::once(&current).chain(&next).chain(&former);
            return Self::of(all.map(|named| (named.id.as_str(), named.key.as_str())));
        }
        let pairs: Option<Vec<_>> = text.split(',').map(|part| part.trim().split_once(':')).collect();
        Self::of(pairs.ok_or(HashKeysError)?)
    }

    fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, HashKeysError> {
        let secrets = pairs.into_iter().map(|(id, secret)| (secret.len() >= 16).then_some((id, secret)));
        secrets.collect::<Option<Vec<_>>>().and_then(NamedKeys::new).map(Self).ok_or(HashKeysError)
    }

    pub fn endpoint(&self, endpoint: &Endpoint) -> EndpointHash {
        self.hash("endpoint", endpoint.0.as_str().as_bytes())
    }

    /// Its hashes under all keys that are known, the current one first.
    pub fn all_of(&self, endpoint: &Endpoint) -> Vec<EndpointHash> {
        self.0.all().map(|key| hash_with(key, "endpoint", endpoint.0.as_str().as_bytes())).collect()
    }

    pub fn origin(&self, origin: &Origin) -> EndpointHash {
        self.hash("origin", origin.0.as_bytes())
    }

    pub fn fingerprint(&self, content: &[u8]) -> EndpointHash {
        self.hash("content", content)
    }

    /// Whether `hash` is this endpoint's; `None` if it was made with a key that is not known any more.
    pub fn is_of(&self, hash: &EndpointHash, endpoint: &Endpoint) -> Option<bool> {
        let key = self.0.get(hash.key_id())?;
        Some(hash_with(key, "endpoint", endpoint.0.as_str().as_bytes()) == *hash)
    }

    fn hash(&self, domain: &str, bytes: &[u8]) -> EndpointHash {
        hash_with(self.0.current(), domain, bytes)
    }
}

fn hash_with(key: &NamedKey, domain: &str, bytes: &[u8]) -> EndpointHash {
    let mut digits = [0; 64];
    hex::encode_to_slice(key.mac(domain, bytes), &mut digits).expect("invariant: a tag has 32 bytes");
    let digits = std::str::from_utf8(&digits).expect("invariant: hex digits are ASCII");
    EndpointHash(["hmac:", &key.id, ":", digits].concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{endpoint, hash_keys};

    #[test]
    fn only_https_without_userinfo_is_an_endpoint() {
        assert!(Endpoint::parse("https://push.example/abc").is_ok());
        for (text, error) in [
            ("http://push.example/abc", EndpointError::NotHttps),
            ("push.example/abc", EndpointError::NotAUrl),
            ("https://u:p@push.example/abc", EndpointError::Userinfo),
            ("https:///", EndpointError::NotAUrl),
            (&format!("https://push.example/{}", "a".repeat(MAX_ENDPOINT_BYTES)), EndpointError::TooLong),
        ] {
            assert_eq!(Endpoint::parse(text), Err(error), "{text:.40}");
        }
    }

    #[test]
    fn debug_never_shows_an_address_or_a_key() {
        assert_eq!(format!("{:?}", endpoint("https://push.example/secret-token")), "Endpoint(redacted)");
        assert_eq!(format!("{:?}", hash_keys()), r#"HashKeys(["k1"])"#);
    }

    #[test]
    fn an_origin_keeps_a_port_that_is_not_the_default() {
        for (text, origin) in [
            ("https://push.example:8443/a", "https://push.example:8443"),
            ("https://push.example:443/a", "https://push.example"),
        ] {
            assert_eq!(endpoint(text).origin().as_str(), origin);
            assert!(Origin::parse(origin).is_some(), "{origin}");
        }
        for other in ["https://push.example/path", "push.example"] {
            assert!(Origin::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn the_allow_list_matches_whole_labels_and_no_literal() {
        let hosts = PushHosts::parse(PushHosts::DEFAULT).expect("valid");
        for (url, is_allowed) in [
            ("https://fcm.googleapis.com/fcm/send/x", true),
            ("https://web.push.apple.com/x", true),
            ("https://WNS2-par02p.notify.windows.com/w/?token=x", true),
            ("https://evilpush.apple.com.example/x", false),
            ("https://xpush.apple.com/x", false),
            ("https://fcm.googleapis.com.example/x", false),
            ("https://127.0.0.1/x", false),
        ] {
            assert_eq!(hosts.allows(&endpoint(url)), is_allowed, "{url}");
        }
        assert_eq!(PushHosts::parse("good.example,*.b*d"), Err("*.b*d".to_owned()));
    }

    fn hash_keys_of(text: &str) -> HashKeys {
        HashKeys::parse(text).expect("valid")
    }

    #[test]
    fn hashes_name_their_key_and_survive_its_rotation() {
        let (push, other) = (endpoint("https://push.example/abc"), endpoint("https://push.example/abd"));
        let old = hash_keys().endpoint(&push);
        assert_eq!((old.key_id(), EndpointHash::parse(old.as_str())), ("k1", Some(old.clone())));
        let rotated = hash_keys_of("k2:fedcba9876543210,k1:0123456789abcdef");
        assert_ne!(rotated.endpoint(&push), old);
        assert_eq!([&push, &other].map(|it| rotated.is_of(&old, it)), [Some(true), Some(false)]);
        assert_eq!(hash_keys_of("k3:fedcba9876543210").is_of(&old, &push), None);
        // As Secrets Manager generates it.
        assert_eq!(hash_keys_of(r#"{"id":"k1","key":"0123456789abcdef"}"#).endpoint(&push), old);
        hash_keys_of(r#"{"id":"k1","key":"punctuation: all, of it!"}"#);
    }

    #[test]
    fn keys_before_and_after_the_current_one_are_recognised_and_not_used() {
        let push = endpoint("https://push.example/abc");
        let (k1, k2) = (r#""id":"k1","key":"0123456789abcdef""#, r#""id":"k2","key":"fedcba9876543210""#);
        let before = hash_keys_of(&format!("{{{k1}}}"));
        let announced = hash_keys_of(&format!(r#"{{{k1},"next":{{{k2}}}}}"#));
        // Other fields of a key are ignored.
        let former = format!(r#"[{{{k1},"until":"2026-11-21T10:05:00Z"}}]"#);
        let after = hash_keys_of(&format!(r#"{{{k2},"former":{former}}}"#));
        let (old, new) = (before.endpoint(&push), after.endpoint(&push));
        assert_eq!(announced.endpoint(&push), old);
        assert_eq!((old.key_id(), new.key_id()), ("k1", "k2"));
        for keys in [&announced, &after] {
            assert_eq!([&old, &new].map(|hash| keys.is_of(hash, &push)), [Some(true); 2]);
        }
        assert_eq!(before.is_of(&new, &push), None);
    }

    #[test]
    fn weak_or_repeated_hash_keys_are_refused() {
        for bad in [
            "",
            "k1",
            "k1:short",
            "k 1:0123456789abcdef",
            "k1:0123456789abcdef,k1:0123456789abcdef",
            r#"{"id":"k1","key":"0123456789abcdef","next":{"id":"k1","key":"0123456789abcdef"}}"#,
            r#"{"id":"k1","key":"0123456789abcdef","former":[{"id":"k0","key":"short"}]}"#,
        ] {
            assert!(HashKeys::parse(bad).is_err(), "{bad}");
        }
    }
}
