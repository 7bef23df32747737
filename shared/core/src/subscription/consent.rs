//! Consent: when a user agreed to messages, to which text, how, and where. It is kept for as long as the subscription, because it is
//! the sender's proof that the user agreed.

use std::time::Duration;

use crate::endpoint::Origin;
use crate::shape::{Object, text};
use crate::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consent {
    pub at: Timestamp,
    /// The sender's name for the text that the user agreed to: 1 to 64 bytes without control characters.
    pub prompt_version: String,
    /// What the user did, such as `granted`: 1 to 32 bytes without control characters.
    pub action: String,
    /// The site: an https origin, or http on the local machine.
    pub origin: Origin,
}

pub const CLOCKS_DIFFER: Duration = Duration::from_secs(86_400);

pub const MOST_OF_PROMPT: usize = 64;

pub const MOST_OF_ACTION: usize = 32;

/// Hosts on which a browser lets a page subscribe without https (W3C Secure Contexts, 3.1).
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Consent {
    pub(super) fn take(mut object: Object<'_>, now: Timestamp) -> Option<Self> {
        let at = object.required("at", "an RFC 3339 time that is not ahead", text(|at| Self::time(at, now)));
        let prompt_version = object.required(
            "prompt_version",
            "a text of 1 to 64 bytes",
            text(|name| Self::text(name, MOST_OF_PROMPT)),
        );
        let an_action = "a text of 1 to 32 bytes, such as \"granted\"";
        let action = object.required("action", an_action, text(|name| Self::text(name, MOST_OF_ACTION)));
        let an_origin = "an https origin, or http://localhost with a port";
        let origin = object.required("origin", an_origin, text(Self::site));
        object.finish();
        Some(Self { at: at?, prompt_version: prompt_version?, action: action?, origin: origin? })
    }

    /// A time of consent: RFC 3339, and not ahead of `now` by more than clocks differ.
    pub fn time(text: &str, now: Timestamp) -> Option<Timestamp> {
        Timestamp::parse_rfc3339(text).filter(|at| *at <= now.plus(CLOCKS_DIFFER))
    }

    /// The name of a prompt or an action: 1 to `most` bytes without control characters.
    pub fn text(text: &str, most: usize) -> Option<String> {
        let fits = (1..=most).contains(&text.len()) && !text.chars().any(char::is_control);
        fits.then(|| text.to_owned())
    }

    /// The origin of a site on which a browser lets a page subscribe.
    pub fn site(text: &str) -> Option<Origin> {
        let is_secure = |origin: &Origin| {
            let Some(rest) = origin.as_str().strip_prefix("http://") else { return true };
            LOCAL_HOSTS.iter().any(|host| {
                rest.strip_prefix(host).is_some_and(|port| port.is_empty() || port.starts_with(':'))
            })
        };
        Origin::parse(text).filter(is_secure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{texts, time};
    use crate::shape::Errors;

    fn read(text: &str) -> (Option<Consent>, Vec<String>) {
        let errors = Errors::default();
        let now = time("2026-11-21T10:00:00Z");
        let object = Object::parse(text, "consent", &errors).expect("an object");
        let consent = Consent::take(object, now);
        (consent, texts(&errors.into_vec()))
    }

    #[test]
    fn a_consent_is_read() {
        let (consent, errors) = read(
            r#"{"at":"2026-11-20T10:00:00+01:00","prompt_version":"v3","action":"granted","origin":"https://Shop.example"}"#,
        );
        assert_eq!(errors, [""; 0]);
        let consent = consent.expect("valid");
        assert_eq!(consent.at.to_rfc3339(), "2026-11-20T09:00:00.000Z");
        assert_eq!((consent.prompt_version.as_str(), consent.action.as_str()), ("v3", "granted"));
        assert_eq!(consent.origin.as_str(), "https://shop.example");
    }

    #[test]
    fn all_missing_and_invalid_fields_are_errors() {
        let (consent, errors) = read(
            r#"{"at":"2026-11-23T10:00:00Z","prompt_version":"","origin":"https://a.example/x","ip":"192.0.2.1"}"#,
        );
        assert_eq!(consent, None);
        let expected = [
            "at: expected an RFC 3339 time that is not ahead, found a string",
            "prompt_version: expected a text of 1 to 64 bytes, found a string",
            "action: expected a text of 1 to 32 bytes, such as \"granted\", found nothing",
            "origin: expected an https origin, or http://localhost with a port, found a string",
            "ip: expected no such field, found a string",
        ];
        assert_eq!(errors, expected.map(|error| format!("consent.{error}")));
    }

    #[test]
    fn http_is_a_site_on_the_local_machine_alone() {
        for (site, is_secure) in [
            ("https://a.example:8443", true),
            ("http://localhost:3000", true),
            ("http://127.0.0.1:1", true),
            ("http://[::1]", true),
            ("http://a.example", false),
            ("http://localhost.example", false),
            ("http://127.0.0.1.example", false),
            ("a.example", false),
        ] {
            assert_eq!(Consent::site(site).is_some(), is_secure, "{site}");
        }
    }
}
