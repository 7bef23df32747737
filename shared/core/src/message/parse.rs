//! From an SQS body to a [`Message`], or to everything that is wrong with it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::refusal::{A_VERSION, Refusal};
use super::{Message, ProducerRef, To, Travel, VERSION, travel};
use crate::audience::{Audience, Expansion, RecipientRef, Run};
use crate::delivery_options::{Class, EventType, Topic, Urgency};
use crate::hours::Hours;
use crate::identity::{DeliveryId, DeliveryKey, ID_FORM, IdSource, Tenant};
use crate::notification::Notification;
use crate::page::PageMessage;
use crate::payload::{Media, Payload};
use crate::policy::{Policy, catalogue, parse as parse_policy, stored};
use crate::reason::Reason;
use crate::shape::{self, Errors, Object, text};
use crate::tag::MessageTags;
use crate::time::{Timestamp, Ttl};
use crate::traceparent::Traceparent;
use crate::wait::{MAX_WAIT, Release};
use crate::webhook::{self, CustomHeaders, Permitted};

/// The kind of queue that a body came from: it decides what the body may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum QueueKind {
    /// Producers write here: messages only.
    Ingest,
    /// Redial writes here: travelling messages, and releases of waits.
    Retry,
}

#[derive(Clone, Debug)]
pub enum Inbound {
    Message(Box<Message>, Travel),
    Release(Release),
    Expand(Expansion),
    Page(PageMessage),
    Recipient(RecipientRef, Travel),
}

/// How far SQS's clock may be behind that of what accepted a message: what was at most 360 days ahead by the one is accepted by the other.
const CLOCKS_APART: Duration = Duration::from_secs(86_400);

/// Parses `body`, which SQS delivered as `message_id` and which was sent at `sent`.
pub fn parse(body: &str, kind: QueueKind, message_id: &str, sent: Timestamp) -> Result<Inbound, Refusal> {
    read(body, Reader { message_id, sent, kind, latest: sent.plus(MAX_WAIT).plus(CLOCKS_APART) })
}

/// Parses a producer's `body` before it is sent, at `now`; `message_id` stands for the one that SQS will give it.
pub fn parse_to_send(body: &str, message_id: &str, now: Timestamp) -> Result<Inbound, Refusal> {
    read(body, Reader { message_id, sent: now, kind: QueueKind::Ingest, latest: now.plus(MAX_WAIT) })
}

fn read(body: &str, reader: Reader<'_>) -> Result<Inbound, Refusal> {
    let errors = Errors::default();
    let mut tenant = None;
    let inbound = Object::parse(body, "", &errors).and_then(|mut object| {
        if reader.kind == QueueKind::Retry
            && let Some(inbound) = take_internal(&mut object)
        {
            object.finish();
            return Some(inbound);
        }
        tenant = object.required("tenant", "^[a-z0-9][a-z0-9_-]{0,62}$", text(Tenant::parse));
        let message = reader.message(object, tenant.clone(), &errors);
        message.map(|(message, travel)| Inbound::Message(Box::new(message), travel))
    });
    errors.result(inbound).map_err(|errors| Refusal { reason: Reason::Malformed, errors, tenant })
}

fn take_internal(object: &mut Object<'_>) -> Option<Inbound> {
    if let Some(release) = Release::take(object) {
        return Some(Inbound::Release(release));
    }
    if let Some(expansion) = Expansion::take(object) {
        return Some(Inbound::Expand(expansion));
    }
    if let Some(page) = PageMessage::take(object) {
        return Some(Inbound::Page(page));
    }
    RecipientRef::take(object).map(|(recipient, travel)| Inbound::Recipient(recipient, travel))
}

impl Run {
    /// The message, its audience, and its travel so far; `None` if this version did not write it.
    pub fn read(&self) -> Option<(Message, Audience, Travel)> {
        let read = parse(self.body.expose(), QueueKind::Retry, self.message.as_str(), self.opened_at).ok()?;
        let Inbound::Message(message, travel) = read else { return None };
        let To::Audience(audience) = message.to.clone() else { return None };
        Some((*message, audience, travel))
    }
}

struct Reader<'a> {
    message_id: &'a str,
    sent: Timestamp,
    kind: QueueKind,
    /// What `deliver_at` may be.
    latest: Timestamp,
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
        let to = To::take(&mut object, self.kind == QueueKind::Retry);
        // A callback's id is a digest of its event: two announcements of one end may differ in what else they say of it.
        let is_derived = matches!(to, Some(To::Callback(_))) && id_source == IdSource::Producer;
        let id_source = if is_derived { IdSource::IdempotencyKey } else { id_source };
        let notification = notification(&mut object, to.as_ref());
        let payload = payload(&mut object, notification.as_ref());
        let short = "a string of at most 128 bytes";
        let producer_ref = object.optional("ref", short, shape::text_of(0..=128)).map(ProducerRef);
        let class = object.optional("class", "\"otp\", \"alert\" or \"campaign\"", text(Class::from_label));
        let ttl = ttl(&mut object, to.as_ref());
        let an_urgency = "\"very-low\", \"low\", \"normal\" or \"high\"";
        let urgency = object.optional("urgency", an_urgency, text(Urgency::from_label));
        let a_topic = "1 to 32 base64url characters, their number mod 4 not 1";
        let topic = object.optional("topic", a_topic, text(Topic::parse));
        let retry = retry_policy(&mut object, self.kind);
        let headers = custom_headers(&mut object, to.as_ref());
        let deliver_at = self.deliver_at(&mut object);
        let deliver_between = Hours::take(&mut object, self.kind == QueueKind::Ingest);
        let acks = acks(&mut object, to.as_ref());
        let tags = MessageTags::take(&mut object);
        let traceparent = Traceparent::take(&mut object);
        let event_type = object.optional("event_type", short, text(EventType::parse));
        let travel = match self.kind {
            QueueKind::Ingest => Some(Travel::start(self.sent)),
            QueueKind::Retry => {
                let key = tenant.clone().zip(id.clone()).map(|(tenant, id)| DeliveryKey { tenant, id });
                Travel::take(&mut object, key)
            }
        };
        let fields = object.fields().filter(|(name, _)| !travel::is_field(name));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        object.finish();

        let message = Message {
            tenant: tenant?,
            id: id?,
            id_source,
            to: to?,
            payload: payload.unwrap_or_default(),
            notification: notification.map(Box::new),
            producer_ref,
            ttl,
            class: class.unwrap_or_default(),
            urgency,
            topic,
            retry,
            headers: headers.unwrap_or_default(),
            event_type,
            deliver_at,
            deliver_between,
            acks,
            tags: tags.unwrap_or_default(),
            traceparent,
            recipient: None,
            fields,
        };
        let most = message.most_bytes();
        if self.kind == QueueKind::Ingest && message.bytes() > most {
            errors.add("", format!("at most {most} bytes"), format!("{} bytes", message.bytes()));
        }
        Some((message, travel?))
    }

    /// The idempotency key wins over the id, and both over the SQS MessageId.
    fn id(&self, object: &mut Object<'_>) -> (Option<DeliveryId>, IdSource) {
        let had_id = object.raw("id").is_some();
        let id = object.optional("id", ID_FORM, text(DeliveryId::parse));
        let had_key = object.raw("idempotency_key").is_some();
        let a_key = "a string of 1 to 256 bytes";
        let key = object.optional("idempotency_key", a_key, shape::text_of(1..=256));
        if had_key {
            (key.map(|key| DeliveryId::from_idempotency_key(&key)), IdSource::IdempotencyKey)
        } else if had_id {
            (id, IdSource::Producer)
        } else {
            (Some(DeliveryId::from_sqs_message_id(self.message_id)), IdSource::SqsMessageId)
        }
    }

    fn deliver_at(&self, object: &mut Object<'_>) -> Option<Timestamp> {
        object.optional("deliver_at", "an RFC 3339 time at most 360 days ahead", |raw| {
            Timestamp::parse_rfc3339(&shape::string(raw)?).filter(|at| *at <= self.latest)
        })
    }
}

/// 28 days for a web push, a year for any message that may go to a webhook.
fn ttl(object: &mut Object<'_>, to: Option<&To>) -> Option<Ttl> {
    let (most, expected) = if let Some(To::WebPush(_) | To::Audience(_)) = to {
        (Ttl::MAX_WEB_PUSH, "whole seconds from 0 to 2419200 (28 days)")
    } else {
        (Ttl::MAX_WEBHOOK, "whole seconds from 0 to 31536000 (a year)")
    };
    object.optional("ttl", expected, shape::integer(0..=most.as_secs().into())).map(Ttl::from_secs)
}

/// The headers that a stored subscription permits are checked once it is known.
fn custom_headers(object: &mut Object<'_>, to: Option<&To>) -> Option<CustomHeaders> {
    let raw = object.raw("headers")?;
    if let Some(To::WebPush(_) | To::Audience(_)) = to {
        object.refuse("headers", "nothing: a web push has no custom headers", Some(raw));
        return None;
    }
    let mut headers = Vec::new();
    for (name, value) in object.object("headers")?.into_fields() {
        let Some(text) = shape::string(value) else {
            object.refuse(&format!("headers.{name}"), "a string", Some(value));
            return None;
        };
        headers.push((name.into_owned(), text));
    }
    let headers = match CustomHeaders::new(headers) {
        Ok(headers) => headers,
        Err((name, error)) => {
            object.refuse(&format!("headers.{name}"), error.to_string(), Some(raw));
            return None;
        }
    };
    if matches!(to, Some(To::Webhook(_))) && !headers.are_permitted(&Permitted::default()) {
        let expected = "names that any message may set: x-…, content-type, traceparent and the like";
        object.refuse("headers", expected, Some(raw));
        return None;
    }
    Some(headers)
}

/// A stored subscription may be a webhook's, which is not known here: there `acks` has no effect, so that one message fits all of a
/// tenant's recipients.
fn acks(object: &mut Object<'_>, to: Option<&To>) -> bool {
    let may_be_true = !matches!(to, Some(To::Webhook(_)));
    let expected = if may_be_true {
        "true or false"
    } else {
        "false or nothing: a webhook's receiver acknowledges by its response"
    };
    let wanted = |raw: &_| shape::boolean(raw).filter(|wanted| may_be_true || !wanted);
    object.optional("acks", expected, wanted).unwrap_or_default()
}

/// One to a stored subscription that is a webhook's goes there as it is, so that one message fits all of a tenant's recipients.
fn notification(object: &mut Object<'_>, to: Option<&To>) -> Option<Notification> {
    if let Some(To::Webhook(_)) = to {
        let raw = object.raw("notification")?;
        object.refuse("notification", "nothing: a webhook gets a payload", Some(raw));
        return None;
    }
    Notification::take(object)
}

/// Checks the longest payload of any channel. That of web push is checked once the channel is known.
fn payload(object: &mut Object<'_>, notification: Option<&Notification>) -> Option<Payload> {
    if let Some(notification) = notification {
        if let Some(raw) = object.raw("payload") {
            let expected = "nothing beside `notification`, whose `data` is for your own";
            object.refuse("payload", expected, Some(raw));
        }
        return Some(Payload::written_as(Media::Json, notification.document(None).into_bytes()));
    }
    let expected = "any JSON; {\"base64\": …} alone is standard base64";
    let payload = object.optional("payload", expected, payload_of)?;
    if payload.len() > webhook::MAX_BODY {
        let expected = format!("at most {} bytes", webhook::MAX_BODY);
        object.error("payload", expected, format!("{} bytes", payload.len()));
    }
    Some(payload)
}

fn payload_of(raw: &RawValue) -> Option<Payload> {
    let written = raw.get();
    let json = || Payload::written_as(Media::Json, written.as_bytes().to_vec());
    match shape::type_of(raw) {
        "null" => Some(Payload::default()),
        "a string" => shape::string(raw).map(|text| Payload::written_as(Media::Text, text.into_bytes())),
        // The producer's own JSON: its fields are not counted.
        "an object" => match shape::sole_field(written) {
            Some((name, value)) if name == "base64" => {
                STANDARD.decode(shape::string(value)?).ok().map(Payload::new)
            }
            Some(_) | None => Some(json()),
        },
        _ => Some(json()),
    }
}

fn retry_policy(object: &mut Object<'_>, kind: QueueKind) -> Option<Arc<Policy>> {
    let raw = object.raw("retry")?;
    let Some(name) = shape::string(raw) else {
        let path = object.path_of("retry");
        return parse_policy::read(raw.get(), "inline", &path, object.errors()).map(Arc::new);
    };
    let named = catalogue::packaged().get(&name);
    // A message outlives the deployment that knew its policy: on a retry queue it goes on without one.
    if named.is_none() && kind == QueueKind::Ingest {
        object.error("retry", stored::expected_name(), "another string");
    }
    named.cloned()
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
