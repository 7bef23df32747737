//! A browser's subscription as it is handed in: what `PushSubscription.toJSON()` gives, with consent and tags.
//!
//! One reader serves the HTTP API and the import from a file. Whatever it lets pass can be sent to: the endpoint lies on a push
//! service that may be pushed to, and the key is a point that a message can be encrypted to. Errors name the field, what
//! was expected and the type that was found, and never a value: endpoint and keys are what must not be known.

use crate::endpoint::{Endpoint, Origin, PushHosts};
use crate::identity::SubscriptionId;
use crate::message::PushFields;
use crate::push_target::{PushKeys, PushTarget};
use crate::shape::{self, Errors, Object, ShapeError};
use crate::time::Timestamp;

use super::consent::Consent;
use super::tag::{Tag, Tags, TagsError};

/// No document is longer, in bytes: an address has 2,048 at most, ten tags 350, a consent about 400.
pub const MOST_BYTES: usize = 16_384;

/// What a consent looks like.
const A_CONSENT: &str = r#"{"at", "prompt_version", "action", "origin"}"#;

/// A subscription as a browser, or whoever speaks for it, hands it in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Document {
    /// Where it leads.
    pub target: PushTarget,
    /// Its tags; `None` leaves those that it has.
    pub tags: Option<Tags>,
    /// The consent that came with it; `None` leaves what is stored.
    pub consent: Option<Consent>,
}

/// What a document is held against.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The hosts that may be pushed to.
    pub push_hosts: &'a PushHosts,
    /// Origins that may be pushed to besides.
    pub egress_allow: &'a [Origin],
    /// Whether a `p256dh` is a point of P-256: cryptography, and so an adapter's.
    pub is_on_curve: fn(&PushKeys) -> bool,
    /// The time.
    pub now: Timestamp,
}

impl Rules<'_> {
    fn may_push_to(&self, endpoint: &Endpoint) -> bool {
        self.push_hosts.allows(endpoint) || self.egress_allow.contains(&endpoint.origin())
    }
}

/// Reads a document, or everything that is wrong with it.
pub fn parse(text: &str, rules: &Rules<'_>) -> Result<Document, Vec<ShapeError>> {
    read(text, |object, errors| document(object, errors, rules))
}

/// Reads a document that carries its subscription's `id` as well: a line of an import.
pub fn parse_with_id(text: &str, rules: &Rules<'_>) -> Result<(SubscriptionId, Document), Vec<ShapeError>> {
    read(text, |mut object, errors| {
        let an_id = "^[A-Za-z0-9_-]{1,64}$";
        let id = object.required("id", an_id, |raw| SubscriptionId::parse(&shape::string(raw)?));
        document(object, errors, rules).and_then(|document| Some((id?, document)))
    })
}

/// The error of a new subscription's document that has no consent.
pub fn consent_is_missing() -> ShapeError {
    ShapeError { path: "consent".to_owned(), expected: A_CONSENT.into(), found: "nothing".into() }
}

fn read<T>(text: &str, read: impl FnOnce(Object<'_>, &Errors) -> Option<T>) -> Result<T, Vec<ShapeError>> {
    let errors = Errors::default();
    let found = Object::parse(text, "", &errors).and_then(|object| read(object, &errors));
    match (found, errors.is_empty()) {
        (Some(found), true) => Ok(found),
        (_, _) => Err(errors.into_vec()),
    }
}

fn document(mut object: Object<'_>, errors: &Errors, rules: &Rules<'_>) -> Option<Document> {
    let fields = PushFields::take(&mut object, errors);
    if fields.endpoint.as_ref().is_some_and(|endpoint| !rules.may_push_to(endpoint)) {
        errors.add("endpoint", "an address of a push service that may be pushed to", "another address");
    }
    if fields.keys.as_ref().is_some_and(|keys| !(rules.is_on_curve)(keys)) {
        errors.add("keys.p256dh", "a point of the curve P-256", "another point");
    }
    let has_tags = object.raw("tags").is_some();
    let tags = object.list("tags", Tag::FORM, Tags::MOST, |raw| Tag::parse(&shape::string(raw)?));
    let tags = tags.and_then(|tags| match Tags::new(tags) {
        Ok(tags) => Some(tags),
        Err(TagsError::Twice | TagsError::TooMany) => {
            errors.add("tags", "every tag once", "one twice");
            None
        }
    });
    let has_consent = object.raw("consent").is_some();
    let consent = object.object("consent").and_then(|object| Consent::take(object, rules.now));
    object.finish();
    let complete = (has_tags, has_consent) == (tags.is_some(), consent.is_some());
    complete.then_some(Document { target: fields.target()?, tags, consent })
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
