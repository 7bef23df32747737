//! Origins as arguments.

use redial_core::endpoint::{Endpoint, EndpointError, Origin};

use crate::failure::Failure;

const EXPECTED: &str = "an origin, https://host or https://host:port";

/// Parses the origin that was given for `argument`.
///
/// Users paste whole endpoints, and an endpoint is a capability: an error repeats nothing but the endpoint's origin. For the
/// same reason this is no `value_parser`: their errors quote what they refuse.
pub fn parse(argument: &str, text: &str) -> Result<Origin, Failure> {
    found(text).map_err(|found| Failure::input(format!("{argument}: expected {EXPECTED}, found {found}")))
}

/// The origin, or what was found instead.
fn found(text: &str) -> Result<Origin, String> {
    let text = text.trim();
    let has_scheme = text.contains("://");
    let endpoint =
        if has_scheme { Endpoint::parse(text) } else { Endpoint::parse(&format!("https://{text}")) };
    Err(match (has_scheme, &endpoint) {
        (true, Ok(endpoint)) => match Origin::parse(text) {
            Some(origin) => return Ok(origin),
            None => format!("a URL with more than that: its origin is {}", endpoint.origin().as_str()),
        },
        (true, Err(EndpointError::Userinfo)) => "a URL with a user name or password".to_owned(),
        (true, Err(EndpointError::NotHttps)) => "a URL whose scheme is not https".to_owned(),
        // A single word may be a token: it is not repeated.
        (false, Ok(endpoint)) if is_a_host(endpoint.origin().as_str()) => {
            format!("no scheme: did you mean {}?", endpoint.origin().as_str())
        }
        (_, Err(EndpointError::TooLong)) => "a URL that is too long".to_owned(),
        (true, Err(EndpointError::NotAUrl)) | (false, _) => "no URL".to_owned(),
    })
}

fn is_a_host(origin: &str) -> bool {
    origin.contains('.') || origin.starts_with("https://localhost:")
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
            let origin = parse("ORIGIN", text).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(origin.as_str(), stored, "{text}");
        }
    }

    #[test]
    fn a_refused_origin_is_never_repeated_beyond_its_host() {
        let long = format!("https://push.example/{}", "s3cret".repeat(500));
        for (text, found) in [
            ("https://push.example/s3cret", "its origin is https://push.example"),
            ("https://push.example:8443?s3cret", "its origin is https://push.example:8443"),
            ("https://push.example#s3cret", "a URL with"),
            ("https://s3cret@push.example", "a user name"),
            ("http://s3cret.example", "not https"),
            ("push.example", "did you mean https://push.example?"),
            ("localhost:8443", "did you mean https://localhost:8443?"),
            ("push.example:8443/s3cret", "did you mean https://push.example:8443?"),
            ("s3cret@push.example", "no URL"),
            ("https://", "no URL"),
            ("", "no URL"),
            ("s3cret s3cret", "no URL"),
            ("s3cret", "no URL"),
            (&long, "too long"),
        ] {
            let Failure::Input(lines) = parse("ORIGIN", text).expect_err(text) else { panic!("{text}") };
            let error = &lines[0];
            assert!(error.starts_with("ORIGIN: expected an origin, https://host"), "{error}");
            assert!(error.contains(found) && !error.contains("s3cret"), "{text}: {error}");
        }
    }
}
