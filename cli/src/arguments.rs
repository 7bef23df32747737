//! Arguments that several commands take. Each is parsed as everywhere else in Redial, and refused with what is expected.

use redial_core::{
    dead_letter::DeadLetterKey,
    delivery_options::EventType,
    endpoint::{Endpoint, EndpointError, Origin},
    identity::{DeliveryId, SubscriptionId, Tenant, VapidKeyId},
    tag::MessageTag,
    zone::Zone,
};

use crate::failure::Failure;

/// A noun's subcommands, each a type of its own with `async fn run(self) -> Result<(), Failure>`.
macro_rules! subcommands {
    ($(#[$attribute:meta])* $noun:ident { $($(#[$if:meta])? $command:ident($type:ty)),+ $(,)? }) => {
        #[derive(Debug, clap::Subcommand)]
        $(#[$attribute])*
        pub(crate) enum $noun {
            $($(#[$if])? $command($type)),+
        }

        impl $noun {
            pub(crate) async fn run(self) -> Result<(), $crate::failure::Failure> {
                match self {
                    $($(#[$if])? Self::$command(command) => command.run().await),+
                }
            }
        }
    };
}

const AN_ID: &str = "1 to 64 letters, digits, _ and -";
const AN_ORIGIN: &str = "an origin, https://host or https://host:port";

pub(crate) fn tenant(text: &str) -> Result<Tenant, &'static str> {
    Tenant::parse(text).ok_or("1 to 63 lower-case letters, digits, _ and -, the first a letter or a digit")
}

/// A tenant's name, or `_unknown`, which dead letters have whose tenant could not be read.
pub(crate) fn tenant_or_unknown(text: &str) -> Result<String, &'static str> {
    if text == DeadLetterKey::NO_TENANT { Ok(text.to_owned()) } else { Ok(tenant(text)?.to_string()) }
}

pub(crate) fn delivery(text: &str) -> Result<DeliveryId, &'static str> {
    DeliveryId::parse(text).ok_or(AN_ID)
}

/// A message's tag.
pub(crate) fn tag(text: &str) -> Result<MessageTag, &'static str> {
    MessageTag::parse(text)
        .ok_or("1 to 32 lower-case letters, digits, _ . : and -, the first a letter or a digit")
}

pub(crate) fn subscription(text: &str) -> Result<SubscriptionId, &'static str> {
    SubscriptionId::parse(text).ok_or(AN_ID)
}

pub(crate) fn vapid_key(text: &str) -> Result<VapidKeyId, &'static str> {
    VapidKeyId::parse(text).ok_or(AN_ID)
}

/// A time zone of the IANA database.
pub(crate) fn zone(text: &str) -> Result<Zone, String> {
    Zone::parse(text).ok_or_else(|| Zone::expected(text))
}

/// An event type that policies are stored for.
pub(crate) fn topic(text: &str) -> Result<String, &'static str> {
    let topic = EventType::parse(text).filter(|_| !text.is_empty());
    topic.map(|topic| topic.as_str().to_owned()).ok_or("an event_type of 1 to 128 bytes")
}

/// Parses the origin that was given for `argument`.
///
/// Users paste whole endpoints, and an endpoint is a capability: an error repeats nothing but the endpoint's origin. For the
/// same reason this is no `value_parser`: clap's errors quote what they refuse.
pub(crate) fn origin(argument: &str, text: &str) -> Result<Origin, Failure> {
    parse_origin(text)
        .map_err(|found| Failure::input(format!("{argument}: expected {AN_ORIGIN}, found {found}")))
}

fn parse_origin(text: &str) -> Result<Origin, String> {
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
        (false, Ok(endpoint)) if endpoint.origin().as_str().contains('.') => {
            format!("no scheme: did you mean {}?", endpoint.origin().as_str())
        }
        (_, Err(EndpointError::TooLong)) => "a URL that is too long".to_owned(),
        (true, Err(EndpointError::NotAUrl)) | (false, _) => "no URL".to_owned(),
    })
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
            let origin = origin("ORIGIN", text).unwrap_or_else(|_| panic!("{text}"));
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
            ("push.example:8443/s3cret", "did you mean https://push.example:8443?"),
            ("s3cret@push.example", "no URL"),
            ("https://", "no URL"),
            ("", "no URL"),
            ("s3cret s3cret", "no URL"),
            ("s3cret", "no URL"),
            (&long, "too long"),
        ] {
            let Failure::Input(lines) = origin("ORIGIN", text).expect_err(text) else { panic!("{text}") };
            let error = &lines[0];
            assert!(error.starts_with("ORIGIN: expected an origin, https://host"), "{error}");
            assert!(error.contains(found) && !error.contains("s3cret"), "{text}: {error}");
        }
    }
}
