//! Arguments that several commands take. Each is parsed as everywhere else in Redial, and refused with what is expected.

use redial_core::{
    dead_letter::DeadLetterKey,
    delivery_options::EventType,
    identity::{DeliveryId, SubscriptionId, Tenant, VapidKeyId},
    tag::MessageTag,
    zone::Zone,
};

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

/// What was found in place of a name or a hash. An endpoint, which is a capability, is not repeated, not even without its scheme.
pub(crate) fn found(text: &str) -> String {
    match text {
        "" => "nothing".to_owned(),
        url if url.contains("://") => "a URL".to_owned(),
        path if path.contains('/') => "something else".to_owned(),
        name => format!("`{name}`"),
    }
}

/// The variable of the tenant that commands work for, unless an option names another.
pub(crate) const TENANT: &str = "REDIAL_TENANT";

/// Whether a command's `--tenant` is an option of its own, and not the variable's value.
pub(crate) fn is_given(tenant: Option<&str>) -> bool {
    tenant.is_some_and(|tenant| std::env::var(TENANT).ok().as_deref() != Some(tenant))
}

pub(crate) fn tenant(text: &str) -> Result<Tenant, &'static str> {
    Tenant::parse(text).ok_or("1 to 63 lower-case letters, digits, _ and -, the first a letter or a digit")
}

/// A tenant's name, or `_unknown`, which dead letters have whose tenant could not be read.
pub(crate) fn tenant_or_unknown(text: &str) -> Result<String, &'static str> {
    if text == DeadLetterKey::NO_TENANT { Ok(text.to_owned()) } else { Ok(tenant(text)?.to_string()) }
}

/// A delivery's id and its tenant, as a command that is printed has them: an id may begin with a hyphen, as options do.
pub(crate) fn id_of(id: &DeliveryId, tenant: &str) -> String {
    if id.as_str().starts_with('-') {
        format!("--tenant {tenant} -- {id}")
    } else {
        format!("{id} --tenant {tenant}")
    }
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

/// A region of AWS.
pub(crate) fn region(text: &str) -> Result<String, &'static str> {
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let is_one = text.contains('-') && text.split('-').all(is_part);
    is_one.then(|| text.to_owned()).ok_or("a region of AWS: letters and digits, with - between them")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_quoted_unless_it_may_be_an_endpoint() {
        for (text, words) in [
            ("Acme", "`Acme`"),
            ("", "nothing"),
            ("https://push.example/s3cret", "a URL"),
            ("push.example/s3cret", "something else"),
        ] {
            assert_eq!(found(text), words);
        }
    }

    #[test]
    fn an_id_that_begins_with_a_hyphen_is_printed_after_the_options() {
        for (id, printed) in [("order-17", "order-17 --tenant acme"), ("-AbC", "--tenant acme -- -AbC")] {
            assert_eq!(id_of(&delivery(id).expect("an id"), "acme"), printed);
        }
    }
}
