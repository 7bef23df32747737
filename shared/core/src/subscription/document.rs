//! A browser's subscription as it is submitted: what `PushSubscription.toJSON()` gives, with consent, tags and a time zone.
//!
//! One reader serves the HTTP API and the import from a file. Messages can be sent to every document that it accepts: the endpoint is
//! on an allowed push service, and the key is a point that a message can be encrypted to. Errors name the field, what was expected
//! and the type that was found, and never a value, because endpoint and keys are secret.

use super::consent::Consent;
use crate::endpoint::{Endpoint, Origin, PushHosts};
use crate::identity::{ID_FORM, SubscriptionId};
use crate::push_target::{PushFields, PushKeys, PushTarget};
use crate::shape::{Errors, Object, ShapeError, text};
use crate::tag::{self, Tag, Tags};
use crate::time::Timestamp;
use crate::zone::Zone;

/// No document is longer, in bytes: an address has 2,048 at most, ten tags 350, a consent about 400.
pub const MOST_BYTES: usize = 16_384;

const A_CONSENT: &str = r#"{"at", "prompt_version", "action", "origin"}"#;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Document {
    pub target: PushTarget,
    pub tags: Option<Tags>,
    /// `None` leaves what is stored.
    pub time_zone: Option<Zone>,
    /// The consent that came with it; `None` leaves what is stored.
    pub consent: Option<Consent>,
    /// From when on the browser does not hold it any more: its `expirationTime`.
    pub ends_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    pub push_hosts: &'a PushHosts,
    pub egress_allow: &'a [Origin],
    /// Whether a `p256dh` is a point of P-256. Adapters have the cryptography.
    pub is_on_curve: fn(&PushKeys) -> bool,
    pub now: Timestamp,
}

impl Rules<'_> {
    fn may_push_to(&self, endpoint: &Endpoint) -> bool {
        self.push_hosts.allows(endpoint) || self.egress_allow.contains(&endpoint.origin())
    }
}

pub fn parse(json: &str, rules: &Rules<'_>) -> Result<Document, Vec<ShapeError>> {
    let errors = Errors::default();
    let document = Object::parse(json, "", &errors).and_then(|object| take_document(object, rules));
    errors.result(document)
}

/// Reads a document that has its subscription's `id` as well: a line of an import.
pub fn parse_with_id(json: &str, rules: &Rules<'_>) -> Result<(SubscriptionId, Document), Vec<ShapeError>> {
    let errors = Errors::default();
    let read = Object::parse(json, "", &errors).and_then(|mut object| {
        let id = object.required("id", ID_FORM, text(SubscriptionId::parse));
        take_document(object, rules).and_then(|document| Some((id?, document)))
    });
    errors.result(read)
}

pub fn consent_is_missing() -> ShapeError {
    ShapeError { path: "consent".to_owned(), expected: A_CONSENT.into(), found: "nothing".into() }
}

fn take_document(mut object: Object<'_>, rules: &Rules<'_>) -> Option<Document> {
    let fields = PushFields::take(&mut object);
    if fields.endpoint.as_ref().is_some_and(|endpoint| !rules.may_push_to(endpoint)) {
        object.error("endpoint", "an address of a push service that may be pushed to", "another address");
    }
    if fields.keys.as_ref().is_some_and(|keys| !(rules.is_on_curve)(keys)) {
        object.error("keys.p256dh", "a point of the curve P-256", "another point");
    }
    if fields.ends_at.is_some_and(|ends_at| ends_at <= rules.now) {
        object.error("expirationTime", "null or a time that is ahead", "a time that is over");
    }
    let ends_at = fields.ends_at;
    let has_tags = object.raw("tags").is_some();
    let tags = object.list("tags", Tag::FORM, tag::MOST, text(Tag::parse));
    let tags = tags.map(Tags::new);
    if let Some(Err(_)) = tags {
        object.error("tags", "every tag once", "one twice");
    }
    let tags = tags.and_then(Result::ok);
    let time_zone = Zone::take(&mut object);
    let has_consent = object.raw("consent").is_some();
    let consent = object.object("consent").and_then(|object| Consent::take(object, rules.now));
    object.finish();
    let complete = (has_tags, has_consent) == (tags.is_some(), consent.is_some());
    complete.then_some(Document { target: fields.target()?, tags, time_zone, consent, ends_at })
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
