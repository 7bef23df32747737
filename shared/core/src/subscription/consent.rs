//! Consent: when a user agreed to be sent to, to which words, how, and where. It is kept for as long as the subscription is,
//! because it is what a sender shows to whoever asks by what right he sends.

use std::time::Duration;

use crate::endpoint::Origin;
use crate::shape::{self, Object};
use crate::time::Timestamp;

/// A user's consent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consent {
    /// When it was given.
    pub at: Timestamp,
    /// Which words he agreed to: the sender's own name for them, 1 to 64 bytes without control characters.
    pub prompt_version: String,
    /// What he did: `granted` and the like, 1 to 32 bytes without control characters.
    pub action: String,
    /// On which site: an https origin, or http on this very machine.
    pub origin: Origin,
}

/// So far may the clock of whoever noted a consent run ahead.
pub const CLOCKS_DIFFER: Duration = Duration::from_secs(86_400);

/// The longest name of a prompt, in bytes.
pub const MOST_OF_PROMPT: usize = 64;

/// The longest name of an action, in bytes.
pub const MOST_OF_ACTION: usize = 32;

/// Hosts on which a browser lets a page subscribe without https (W3C Secure Contexts, 3.1).
const OF_THIS_MACHINE: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Consent {
    /// Takes its fields from an object, of which nothing else is expected; `None` if anything was unfit.
    pub(super) fn take(mut object: Object<'_>, now: Timestamp) -> Option<Self> {
        let at = object.required("at", "an RFC 3339 time that is not ahead", |raw| {
            Self::time(&shape::string(raw)?, now)
        });
        let prompt_version = object.required("prompt_version", "a text of 1 to 64 bytes", |raw| {
            Self::text(&shape::string(raw)?, MOST_OF_PROMPT)
        });
        let action = object.required("action", "a text of 1 to 32 bytes, such as \"granted\"", |raw| {
            Self::text(&shape::string(raw)?, MOST_OF_ACTION)
        });
        let an_origin = "an https origin, or http://localhost with a port";
        let origin = object.required("origin", an_origin, |raw| Self::site(&shape::string(raw)?));
        object.finish();
        Some(Self { at: at?, prompt_version: prompt_version?, action: action?, origin: origin? })
    }

    /// A time of consent: RFC 3339, and not ahead of `now` by more than clocks differ.
    pub fn time(text: &str, now: Timestamp) -> Option<Timestamp> {
        Timestamp::parse_rfc3339(text).filter(|at| *at <= now.plus(CLOCKS_DIFFER))
    }

    /// The name of a prompt or an action: not empty, of at most so many bytes, without control characters.
    pub fn text(text: &str, most: usize) -> Option<String> {
        let fits = (1..=most).contains(&text.len()) && !text.chars().any(char::is_control);
        fits.then(|| text.to_owned())
    }

    /// The origin of a site on which a browser lets a page subscribe.
    pub fn site(text: &str) -> Option<Origin> {
        let is_secure = |origin: &Origin| {
            let Some(rest) = origin.as_str().strip_prefix("http://") else { return true };
            OF_THIS_MACHINE.iter().any(|host| {
                rest.strip_prefix(host).is_some_and(|port| port.is_empty() || port.starts_with(':'))
            })
        };
        Origin::parse(text).filter(is_secure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Errors;

    fn read(text: &str) -> (Option<Consent>, Vec<String>) {
        let errors = Errors::default();
        let now = Timestamp::parse_rfc3339("2026-11-21T10:00:00Z").expect("valid");
        let object = Object::parse(text, "consent", &errors).expect("an object");
        let consent = Consent::take(object, now);
        (consent, errors.into_vec().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn it_is_read_whole() {
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
    fn all_that_is_missing_or_unfit_is_told() {
        let (consent, errors) = read(
            r#"{"at":"2026-11-23T10:00:00Z","prompt_version":"","origin":"https://a.example/x","ip":"192.0.2.1"}"#,
        );
        assert_eq!(consent, None);
        assert_eq!(
            errors,
            [
                "consent.at: expected an RFC 3339 time that is not ahead, found a string",
                "consent.prompt_version: expected a text of 1 to 64 bytes, found a string",
                "consent.action: expected a text of 1 to 32 bytes, such as \"granted\", found nothing",
                "consent.origin: expected an https origin, or http://localhost with a port, found a string",
                "consent.ip: expected no such field, found a string",
            ]
        );
    }

    #[test]
    fn http_is_a_site_on_this_machine_only() {
        for fit in ["https://a.example:8443", "http://localhost:3000", "http://127.0.0.1:1", "http://[::1]"] {
            assert!(Consent::site(fit).is_some(), "{fit}");
        }
        for unfit in ["http://a.example", "http://localhost.example", "http://127.0.0.1.example", "a.example"]
        {
            assert!(Consent::site(unfit).is_none(), "{unfit}");
        }
    }
}
