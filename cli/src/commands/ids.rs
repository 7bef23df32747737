//! Ids on the command line: read as everywhere else, and refused with what would do.

use redial_core::{
    dead_letter::DeadLetterKey,
    delivery_options::EventType,
    identity::{DeliveryId, SubscriptionId, Tenant, VapidKeyId},
};

const AN_ID: &str = "1 to 64 letters, digits, _ and -";

pub(crate) fn tenant(text: &str) -> Result<Tenant, String> {
    Tenant::parse(text).ok_or_else(|| {
        "1 to 63 lower-case letters, digits, _ and -, the first a letter or a digit".to_owned()
    })
}

/// A tenant's name, or what stands for one that could not be read.
pub(crate) fn tenant_or_unknown(text: &str) -> Result<String, String> {
    if text == DeadLetterKey::NO_TENANT { Ok(text.to_owned()) } else { Ok(tenant(text)?.to_string()) }
}

pub(crate) fn delivery(text: &str) -> Result<DeliveryId, String> {
    DeliveryId::parse(text).ok_or_else(|| AN_ID.to_owned())
}

pub(crate) fn subscription(text: &str) -> Result<SubscriptionId, String> {
    SubscriptionId::parse(text).ok_or_else(|| AN_ID.to_owned())
}

/// An event type that policies are stored for.
pub(crate) fn topic(text: &str) -> Result<String, String> {
    let fits = EventType::parse(text).filter(|_| !text.is_empty());
    fits.map(|it| it.as_str().to_owned()).ok_or_else(|| "an event_type of 1 to 128 bytes".to_owned())
}

pub(crate) fn vapid_key(text: &str) -> Result<VapidKeyId, String> {
    VapidKeyId::parse(text).ok_or_else(|| AN_ID.to_owned())
}
