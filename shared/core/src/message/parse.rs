//! From an SQS body to a [`Message`], or to everything that is wrong with it.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{
    Class, EventType, IdSource, MOST_BYTES, Message, ProducerRef, Refusal, To, Topic, Travel, Urgency,
    VERSION, travel,
};
use crate::audience::{Expansion, RecipientRef};
use crate::identity::{DeliveryId, DeliveryKey, Tenant};
use crate::payload::{Media, Payload};
use crate::policy::{Policy, catalogue, parse as parse_policy, stored};
use crate::reason::Reason;
use crate::shape::{self, Errors, FieldsError, Object, ShapeError};
use crate::time::{Timestamp, Ttl};
use crate::wait::{Release, bucket::MAX_WAIT};
use crate::webhook::{self, CustomHeaders, Permitted};

/// What an error expects at `v`.
pub(super) const A_VERSION: &str = "1, the only version there is";

/// Which queue a body came from: what may stand in it depends on that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum QueueKind {
    /// Producers write here: messages only.
    Ingest,
    /// Redial writes here: travelling messages, and releases of waits.
    Retry,
}

/// What a body turned out to be.
#[derive(Clone, Debug)]
pub enum Inbound {
    /// A message and where it is on its way.
    Message(Box<Message>, Travel),
    /// The end of a wait.
    Release(Release),
    /// A part of an audience is to go on.
    Expand(Expansion),
    /// One recipient's of a message to an audience, and where it is on its way.
    Recipient(RecipientRef, Travel),
}

/// Parses `body`, which SQS delivered as `message_id` and which was sent at `sent`.
pub fn parse(body: &str, kind: QueueKind, message_id: &str, sent: Timestamp) -> Result<Inbound, Refusal> {
    let errors = Errors::default();
    let mut tenant = None;
    let inbound = Object::parse(body, "", &errors).and_then(|mut object| {
        if kind == QueueKind::Retry
            && let Some(release) = Release::take(&mut object)
        {
            object.finish();
            return Some(Inbound::Release(release));
        }
        if kind == QueueKind::Retry
            && let Some(expansion) = Expansion::take(&mut object)
        {
            object.finish();
            return Some(Inbound::Expand(expansion));
        }
        if kind == QueueKind::Retry
            && let Some((recipient, travel)) = RecipientRef::take(&mut object)
        {
            object.finish();
            return Some(Inbound::Recipient(recipient, travel));
        }
        tenant = object.required("tenant", "^[a-z0-9][a-z0-9_-]{0,62}$", text(Tenant::parse));
        let read = Reader { body, message_id, sent, kind };
        let message = read.message(object, tenant.clone(), &errors);
        message.map(|(message, travel)| Inbound::Message(Box::new(message), travel))
    });
    match (inbound, errors.is_empty()) {
        (Some(inbound), true) => Ok(inbound),
        (_, _) => Err(Refusal { reason: Reason::Malformed, errors: errors.into_vec(), tenant }),
    }
}

struct Reader<'a> {
    body: &'a str,
    message_id: &'a str,
    sent: Timestamp,
    kind: QueueKind,
}

impl Reader<'_> {
    fn message(
        &self,
        mut object: Object<'_>,
        tenant: Option<Tenant>,
        errors: &Errors,
    ) -> Option<(Message, Travel)> {
        object.optional("v", A_VERSION, |raw| shape::unsigned(raw).filter(|version| *version == VERSION));
        let (id, id_source) = self.id(&mut object);
        let to = To::take(&mut object, errors);
        let payload = payload(&mut object, errors);
        let producer_ref = object.optional("ref", "a string of at most 128 bytes", |raw| {
            shape::string(raw).filter(|text| text.len() <= 128).map(ProducerRef)
        });
        let class = object
            .optional("class", "\"otp\", \"alert\" or \"campaign\"", |raw| {
                let label = shape::string(raw)?;
                Class::ALL.into_iter().find(|class| class.label() == label)
            })
            .unwrap_or_default();
        let ttl = ttl(&mut object, to.as_ref());
        let urgency = object.optional("urgency", "\"very-low\", \"low\", \"normal\" or \"high\"", |raw| {
            let label = shape::string(raw)?;
            Urgency::ALL.into_iter().find(|urgency| urgency.label() == label)
        });
        let a_topic = "1 to 32 base64url characters, their number mod 4 not 1";
        let topic = object.optional("topic", a_topic, text(Topic::parse));
        let retry = retry_policy(&mut object, self.kind, errors);
        let headers = custom_headers(&mut object, to.as_ref(), errors);
        let deliver_at = self.deliver_at(&mut object);
        let acks = acks(&mut object, to.as_ref());
        let event_type =
            object.optional("event_type", "a string of at most 128 bytes", text(EventType::parse));
        let travel = match self.kind {
            QueueKind::Ingest => Some(Travel::start(self.sent)),
            QueueKind::Retry => {
                let key = tenant.clone().zip(id.clone()).map(|(tenant, id)| DeliveryKey { tenant, id });
                Travel::take(&mut object, key)
            }
        };
        object.finish();

        let fields = shape::raw_fields(self.body)
            .ok()?
            .into_iter()
            .filter(|(name, _)| !travel::FIELDS.contains(&name.as_ref()))
            .map(|(name, value)| (name.into_owned(), value.to_owned()))
            .collect();
        let message = Message {
            tenant: tenant?,
            id: id?,
            id_source,
            to: to?,
            payload: payload.unwrap_or_default(),
            producer_ref,
            ttl,
            class,
            urgency,
            topic,
            retry,
            headers: headers.unwrap_or_default(),
            event_type,
            deliver_at,
            acks,
            recipient: None,
            fields,
        };
        if self.kind == QueueKind::Ingest && message.bytes() > MOST_BYTES {
            errors.add("", format!("at most {MOST_BYTES} bytes"), format!("{} bytes", message.bytes()));
        }
        Some((message, travel?))
    }

    /// The idempotency key wins over the id, and both over the SQS MessageId.
    fn id(&self, object: &mut Object<'_>) -> (Option<DeliveryId>, IdSource) {
        let had_id = object.raw("id").is_some();
        let id = object.optional("id", "^[A-Za-z0-9_-]{1,64}$", text(DeliveryId::parse));
        let had_key = object.raw("idempotency_key").is_some();
        let key = object.optional("idempotency_key", "a string of 1 to 256 bytes", |raw| {
            shape::string(raw).filter(|key| (1..=256).contains(&key.len()))
        });
        if had_key {
            (key.map(|key| DeliveryId::from_idempotency_key(&key)), IdSource::IdempotencyKey)
        } else if had_id {
            (id, IdSource::Producer)
        } else {
            (Some(DeliveryId::from_sqs_message_id(self.message_id)), IdSource::SqsMessageId)
        }
    }

    fn deliver_at(&self, object: &mut Object<'_>) -> Option<Timestamp> {
        let latest = self.sent.plus(MAX_WAIT);
        object.optional("deliver_at", "an RFC 3339 time at most 360 days ahead", |raw| {
            Timestamp::parse_rfc3339(&shape::string(raw)?).filter(|at| *at <= latest)
        })
    }
}

pub(super) fn text<T>(parse: impl Fn(&str) -> Option<T>) -> impl Fn(&RawValue) -> Option<T> {
    move |raw| parse(&shape::string(raw)?)
}

/// 28 days for a web push, a year for whatever may be a webhook.
fn ttl(object: &mut Object<'_>, to: Option<&To>) -> Option<Ttl> {
    let (most, expected) = match to {
        Some(To::WebPush(_) | To::Audience(_)) => {
            (Ttl::MAX_WEB_PUSH, "whole seconds from 0 to 2419200 (28 days)")
        }
        Some(To::Webhook(_) | To::Subscription(_)) | None => {
            (Ttl::MAX_WEBHOOK, "whole seconds from 0 to 31536000 (a year)")
        }
    };
    object.optional("ttl", expected, |raw| {
        let secs = shape::unsigned(raw).and_then(|secs| u32::try_from(secs).ok())?;
        (secs <= most.as_secs()).then(|| Ttl::from_secs(secs))
    })
}

/// Which headers its subscription permits is not known here: that is asked once it is.
fn custom_headers(object: &mut Object<'_>, to: Option<&To>, errors: &Errors) -> Option<CustomHeaders> {
    let raw = object.raw("headers")?;
    let fields = match (shape::raw_fields(raw.get()), to) {
        (Ok(fields), Some(To::Webhook(_) | To::Subscription(_)) | None) => fields,
        (_, Some(To::WebPush(_) | To::Audience(_))) => {
            object.refuse("headers", "nothing: a web push has no headers of its sender's", Some(raw));
            return None;
        }
        (Err(FieldsError::TooMany), _) => {
            errors.too_many_fields(&object.path_of("headers"));
            return None;
        }
        (Err(FieldsError::NotAnObject), _) => {
            object.refuse("headers", "an object of names and values", Some(raw));
            return None;
        }
    };
    let mut headers = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        let Some(text) = shape::string(value) else {
            object.refuse(&format!("headers.{name}"), "a string", Some(value));
            return None;
        };
        headers.push((name.into_owned(), text));
    }
    match CustomHeaders::new(headers) {
        Ok(headers)
            if matches!(to, Some(To::Webhook(_))) && !headers.are_permitted(&Permitted::default()) =>
        {
            object.refuse(
                "headers",
                "names that any message may set: x-…, content-type, traceparent and the like",
                Some(raw),
            );
            None
        }
        Ok(headers) => Some(headers),
        Err((name, error)) => {
            object.refuse(&format!("headers.{name}"), error.to_string(), Some(raw));
            None
        }
    }
}

/// A stored subscription may be a webhook's, which is not known here: there it has no consequence, so that one message fits all
/// of a tenant's recipients.
fn acks(object: &mut Object<'_>, to: Option<&To>) -> bool {
    let (may_be_true, expected) = match to {
        Some(To::Webhook(_)) => (false, "false or nothing: a webhook's receiver acknowledges by its answer"),
        Some(To::WebPush(_) | To::Subscription(_) | To::Audience(_)) | None => (true, "true or false"),
    };
    let asked = |raw: &_| shape::boolean(raw).filter(|asked| may_be_true || !asked);
    object.optional("acks", expected, asked).unwrap_or_default()
}

/// The longest payload of any channel is checked here; that of web push at its gate, where the channel is known.
fn payload(object: &mut Object<'_>, errors: &Errors) -> Option<Payload> {
    let expected = "any JSON; {\"base64\": …} alone is standard base64";
    let payload = object.optional("payload", expected, payload_of)?;
    if payload.len() > webhook::MAX_BODY {
        let expected = format!("at most {} bytes", webhook::MAX_BODY);
        errors.add(&object.path_of("payload"), expected, format!("{} bytes", payload.len()));
    }
    Some(payload)
}

fn payload_of(raw: &RawValue) -> Option<Payload> {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    let written = raw.get();
    let json = || Payload::written_as(Media::Json, written.as_bytes().to_vec());
    match shape::type_of(raw) {
        "null" => Some(Payload::default()),
        "a string" => shape::string(raw).map(|text| Payload::written_as(Media::Text, text.into_bytes())),
        // What else stands in a payload is the producer's: its fields are not counted.
        "an object" => match shape::sole_field(written) {
            Some((name, value)) if name == "base64" => {
                STANDARD.decode(shape::string(value)?).ok().map(Payload::new)
            }
            Some(_) | None => Some(json()),
        },
        _ => Some(json()),
    }
}

fn retry_policy(object: &mut Object<'_>, kind: QueueKind, errors: &Errors) -> Option<Arc<Policy>> {
    let raw = object.raw("retry")?;
    if let Some(name) = shape::string(raw) {
        let named = catalogue::packaged().get(&name);
        // A message that is on its way already outlives the deployment that knew its policy: it goes on without.
        if named.is_none() && kind == QueueKind::Ingest {
            errors.add(&object.path_of("retry"), stored::expected_name(), "another string");
        }
        return named.cloned();
    }
    match parse_policy::policy(raw.get(), "inline", &object.path_of("retry")) {
        Ok(policy) => Some(Arc::new(policy)),
        Err(found) => {
            for ShapeError { path, expected, found } in found {
                errors.add(&path, expected, found);
            }
            None
        }
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "parse_limits_tests.rs"]
mod limits_tests;

#[cfg(test)]
#[path = "parse_webhook_tests.rs"]
mod webhook_tests;
