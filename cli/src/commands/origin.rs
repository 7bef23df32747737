//! Origins on the command line: read as everywhere else, and refused with what would do.
//!
//! Whoever has an endpoint at hand pastes that, and an endpoint is a capability: so nothing of what was given is repeated
//! but its own origin. For the same reason clap does not read them: its errors quote what they refuse.

use redial_core::endpoint::{Endpoint, EndpointError, Origin};

/// What would do.
const AN_ORIGIN: &str = "an origin, https://host or https://host:port";

/// Reads an origin; the error says what was found instead.
pub(super) fn parse(text: &str) -> Result<Origin, String> {
    let text = text.trim();
    let has_scheme = text.contains("://");
    let endpoint =
        if has_scheme { Endpoint::parse(text) } else { Endpoint::parse(&format!("https://{text}")) };
    let found = match (has_scheme, &endpoint) {
        (true, Ok(endpoint)) => match Origin::parse(text) {
            Some(origin) => return Ok(origin),
            None => format!("a URL with more than that: its origin is {}", endpoint.origin().as_str()),
        },
        (true, Err(EndpointError::Userinfo)) => "a URL with a user name or password".to_owned(),
        (true, Err(EndpointError::NotHttps)) => {
            "a URL of another scheme: Redial posts to https only".to_owned()
        }
        // A single word may be a token: it is not repeated.
        (false, Ok(endpoint)) if endpoint.origin().as_str().contains('.') => {
            format!("no scheme: perhaps {} is meant", endpoint.origin().as_str())
        }
        (_, Err(EndpointError::TooLong)) => "a text that is longer than any".to_owned(),
        (true, Err(EndpointError::NotAUrl)) | (false, _) => "no URL".to_owned(),
    };
    Err(format!("expected {AN_ORIGIN}, found {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_read_as_it_is_stored() {
        for (text, stored) in [
            ("https://fcm.googleapis.com", "https://fcm.googleapis.com"),
            (" https://fcm.googleapis.com/\n", "https://fcm.googleapis.com"),
            ("HTTPS://FCM.googleapis.com:443", "https://fcm.googleapis.com"),
            ("https://localhost:8443", "https://localhost:8443"),
            ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
        ] {
            assert_eq!(parse(text).map(|it| it.as_str().to_owned()), Ok(stored.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_told_with_its_origin_and_never_with_its_path() {
        for (text, found) in [
            ("https://push.example/s3cret", "its origin is https://push.example"),
            ("https://push.example:8443?s3cret", "its origin is https://push.example:8443"),
            ("https://push.example#s3cret", "a URL with"),
            ("https://s3cret@push.example", "a user name"),
            ("http://s3cret.example", "https only"),
            ("push.example", "perhaps https://push.example is meant"),
            ("push.example:8443/s3cret", "perhaps https://push.example:8443 is meant"),
            ("s3cret@push.example", "no URL"),
            ("https://", "no URL"),
            ("", "no URL"),
            ("s3cret s3cret", "no URL"),
            ("s3cret", "no URL"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with("expected an origin, https://host"), "{error}");
            assert!(error.contains(found) && !error.contains("s3cret"), "{text}: {error}");
        }
        assert!(
            parse(&format!("https://push.example/{}", "s3cret".repeat(500)))
                .expect_err("long")
                .contains("longer")
        );
    }
}
