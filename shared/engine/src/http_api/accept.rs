//! A request's message, as it goes on to its queue.

use std::time::Duration;

use serde_json::Value;

use crate::ports::NewDelivery;
use redial_core::endpoint::{EndpointHash, HashKeys};
use redial_core::identity::{DeliveryId, Tenant};
use redial_core::message::{Inbound, Message, parse_to_send};
use redial_core::queue::{Attribute, Outgoing, Queue, fit_for_a_queue};
use redial_core::route::{DelaySeconds, SQS_MAX_DELAY_SECONDS};
use redial_core::shape::{self, Errors, ShapeError};
use redial_core::time::Timestamp;
use redial_core::traceparent::Traceparent;

#[derive(Clone, Debug)]
pub struct Accepted {
    message: Message,
    /// The request's trace, if the message names none itself.
    traceparent: Option<Traceparent>,
    delivery: NewDelivery,
}

/// Reads one message of `tenant`'s, which came with a request of that trace. It is `made` that it is known by if it carries neither an id nor an idempotency key. Errors
/// name fields, and never a value.
pub fn accept(
    text: &str,
    tenant: &Tenant,
    made: &DeliveryId,
    traceparent: Option<Traceparent>,
    hash_keys: &HashKeys,
    now: Timestamp,
) -> Result<Accepted, Vec<ShapeError>> {
    let text = completed(&fit_for_a_queue(text), tenant, made)?;
    let read = parse_to_send(&text, made.as_str(), now).map_err(|refusal| refusal.errors)?;
    let Inbound::Message(message, _) = read else {
        let errors = Errors::default();
        errors.add("", "a message", "the end of a wait");
        return Err(errors.into_vec());
    };
    let delivery = delivery(&message, hash_keys);
    let traceparent = traceparent.filter(|_| message.traceparent.is_none());
    Ok(Accepted { message: *message, traceparent, delivery })
}

/// The text with the tenant and an id in it, as its queue gets it: its length is judged with both. Another tenant's than the key's is an
/// error, which does not say whose the key is.
fn completed(text: &str, tenant: &Tenant, made: &DeliveryId) -> Result<String, Vec<ShapeError>> {
    // The parser reports what is no object.
    let Ok(fields) = shape::raw_fields(text) else { return Ok(text.to_owned()) };
    let has = |wanted: &str| fields.iter().any(|(name, _)| name == wanted);
    let errors = Errors::default();
    for (_, value) in fields.iter().filter(|(name, _)| name == "tenant") {
        match shape::string(value) {
            Some(found) if found == tenant.as_str() => {}
            Some(_) => errors.add("tenant", "the tenant of the key, or no tenant", "another string"),
            None => errors.add("tenant", "the tenant of the key, or no tenant", shape::type_of(value)),
        }
    }
    if !errors.is_empty() {
        return Err(errors.into_vec());
    }
    let tenant = (!has("tenant")).then_some(("tenant", tenant.as_str()));
    let id = (!has("id") && !has("idempotency_key")).then_some(("id", made.as_str()));
    let added = tenant.into_iter().chain(id);
    let added = added.map(|(name, value)| format!(r#""{name}":{}"#, Value::from(value)));
    let added = added.collect::<Vec<_>>().join(",");
    let rest = text.trim_start().strip_prefix('{').unwrap_or_default();
    let comma = if added.is_empty() || fields.is_empty() { "" } else { "," };
    Ok(format!("{{{added}{comma}{rest}"))
}

fn delivery(message: &Message, keys: &HashKeys) -> NewDelivery {
    let recipient = message.to.recipient();
    // Where a stored subscription leads is known once it is loaded.
    let channel = message.to.channel();
    NewDelivery {
        key: message.key(),
        fingerprint: message.fingerprint(keys),
        channel,
        endpoint_hash: recipient.map(|recipient| keys.endpoint(recipient.endpoint())),
        subscription: message.to.subscription().cloned(),
        given: message.given(channel),
        not_before: message.deliver_at,
    }
}

impl Accepted {
    pub fn id(&self) -> &DeliveryId {
        &self.message.id
    }

    pub fn fingerprint(&self) -> &EndpointHash {
        &self.delivery.fingerprint
    }

    /// What the ledger is to hold of it.
    pub fn delivery(&self) -> &NewDelivery {
        &self.delivery
    }

    /// Whether it waits longer than a queue can delay it, as far as it says so itself: the zone of its recipient is not known here.
    pub(super) fn is_to_be_parked(&self, now: Timestamp) -> bool {
        let longest = Duration::from_secs(u64::from(SQS_MAX_DELAY_SECONDS) + 1);
        let due = self.message.deliver_at.map_or(now, |at| at.max(now));
        let hours = self.message.deliver_between.as_ref();
        let opens = hours.and_then(|hours| Some(hours.opening(due, hours.zone?))).unwrap_or(due);
        opens.since(now) >= longest
    }

    /// It, on its way to the queue of its lane.
    pub fn outgoing(&self) -> Outgoing {
        Outgoing {
            queue: Queue::Ingest(self.message.class.lane()),
            body: self.message.expose_ingest_body(),
            delay: DelaySeconds::ZERO,
            tenant: Some(self.message.tenant.clone()),
            attribute: self.traceparent.map(Attribute::Trace),
        }
    }
}

#[cfg(test)]
mod tests {
    use redial_core::lane::Lane;
    use redial_core::message::{MOST_BYTES, QueueKind, parse};
    use redial_core::wait::MAX_WAIT;
    use serde_json::json;

    use super::*;

    fn keys() -> HashKeys {
        HashKeys::parse("k1:0123456789abcdef").expect("valid")
    }

    fn now() -> Timestamp {
        Timestamp::from_secs(1_800_000_000)
    }

    fn read(text: &str) -> Result<Accepted, Vec<String>> {
        let (tenant, made) =
            (Tenant::parse("acme").expect("valid"), DeliveryId::parse("made").expect("valid"));
        accept(text, &tenant, &made, None, &keys(), now())
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    fn body(text: &str) -> Value {
        serde_json::from_str(&read(text).expect("accepted").outgoing().body).expect("JSON")
    }

    #[test]
    fn what_a_caller_may_leave_out_is_filled_in() {
        assert_eq!(
            body(r#" { "to": {"subscription": "s1"} }"#),
            json!({"tenant": "acme", "to": {"subscription": "s1"}, "id": "made"})
        );
        let given = json!({"tenant": "acme", "id": "m1", "to": {"subscription": "s1"}, "payload": [1, 2]});
        assert_eq!(body(&given.to_string()), given);
        let idempotent = json!({"tenant": "acme", "idempotency_key": "k", "to": {"subscription": "s1"}});
        assert_eq!(body(&idempotent.to_string()), idempotent);
    }

    #[test]
    fn what_goes_to_the_queue_is_read_there_as_it_was_read_here() {
        for text in [
            r#"{"to": {"subscription": "s1"}, "payload": {"a" : 1.0, "b":"\u00e9"}}"#,
            r#"{"to": {"webhook": {"url": "https://hooks.example/x"}}, "payload": "hi", "class": "campaign"}"#,
            "{\"to\": {\"subscription\": \"s1\"}, \"payload\": \"\u{fffe}\u{ffff}\", \"idempotency_key\": \"k\"}",
        ] {
            let accepted = read(text).expect("accepted");
            let Outgoing { queue, body, tenant, .. } = accepted.outgoing();
            assert!(!body.contains(['\u{fffe}', '\u{ffff}']));
            let read = parse(&body, QueueKind::Ingest, "another", now()).expect("a message");
            let Inbound::Message(message, _) = read else { panic!("no message") };
            assert_eq!((&message.id, &message.fingerprint(&keys())), (accepted.id(), accepted.fingerprint()));
            assert_eq!(tenant.as_ref(), Some(&message.tenant));
            let lane = if text.contains("campaign") { Lane::Bulk } else { Lane::Transactional };
            assert_eq!(queue, Queue::Ingest(lane));
        }
    }

    #[test]
    fn what_waits_for_long_by_its_own_words_is_known() {
        // It is 08:00 UTC.
        let hours = |from: &str, more: &str| {
            format!(r#""deliver_between": {{"from": "{from}", "to": "20:00"{more}}}"#)
        };
        for (fields, is_parked) in [
            (r#""payload": 1"#.to_owned(), false),
            (r#""deliver_at": "2027-01-15T08:20:00Z""#.to_owned(), true),
            (r#""deliver_at": "2027-01-15T08:10:00Z""#.to_owned(), false),
            (hours("09:00", r#", "time_zone": "UTC""#), true),
            (hours("08:10", r#", "time_zone": "UTC""#), false),
            (hours("09:00", r#", "time_zone": "Europe/Berlin""#), false),
            // By whose clock is not known yet.
            (hours("09:00", ""), false),
        ] {
            let accepted =
                read(&format!(r#"{{"to": {{"subscription": "s1"}}, {fields}}}"#)).expect("accepted");
            assert_eq!(accepted.is_to_be_parked(now()), is_parked, "{fields}");
        }
    }

    #[test]
    fn another_tenant_is_refused_without_naming_either() {
        let of = |tenant: &str| {
            read(&format!(r#"{{"tenant": {tenant}, "to": {{"subscription": "s1"}}}}"#)).expect_err("refused")
        };
        let expected = "tenant: expected the tenant of the key, or no tenant, found";
        assert_eq!(of(r#""other""#), [format!("{expected} another string")]);
        assert_eq!(of("7"), [format!("{expected} an integer")]);
        let twice = read(r#"{"tenant": "acme", "tenant": "other", "to": {"subscription": "s1"}}"#);
        assert_eq!(twice.expect_err("refused"), [format!("{expected} another string")]);
    }

    #[test]
    fn what_is_no_message_is_refused_field_by_field() {
        let refused = read(r#"{"lineage": 1, "retry_count": 2, "ttl": -1}"#).expect_err("refused");
        let fields: Vec<_> = refused.iter().filter_map(|error| error.split(':').next()).collect();
        assert_eq!(fields, ["to", "ttl", "lineage", "retry_count"], "{refused:?}");
        for text in ["", "[]", "{", r#"{"release":"w60"} x"#] {
            assert_eq!(read(text).expect_err("refused").len(), 1, "{text}");
        }
        assert!(read(r#"{"release":"w60-transactional-20261121T100500Z"}"#).is_err());
    }

    #[test]
    fn what_would_not_fit_a_queue_is_refused() {
        // Bytes that the payload's own limit does not count.
        let padded =
            |n: usize| format!(r#"{{"to":{{"subscription":"s1"}},"payload":"{}"}}"#, "\\u0041".repeat(n));
        assert!(read(&padded(170_000)).is_ok());
        let refused = read(&padded(175_000)).expect_err("too long");
        assert!(refused[0].contains("at most 1046528 bytes"), "{refused:?}");
    }

    #[test]
    fn what_is_accepted_is_not_too_long_with_its_id() {
        let frame = r#"{"tenant":"acme","to":{"subscription":"s1"},"payload":""}"#.len();
        let id = r#""id":"made","#.len();
        for (shorter, is_accepted) in [(0, false), (id - 1, false), (id, true)] {
            let length = MOST_BYTES - frame - shorter;
            let payload = format!("{}{}", "\\u0041".repeat(length / 6), "A".repeat(length % 6));
            let read = read(&format!(r#"{{"to":{{"subscription":"s1"}},"payload":"{payload}"}}"#));
            assert_eq!(read.is_ok(), is_accepted, "{shorter} bytes shorter");
            let Ok(accepted) = read else { continue };
            assert!(parse(&accepted.outgoing().body, QueueKind::Ingest, "another", now()).is_ok());
        }
    }

    #[test]
    fn what_is_accepted_is_not_too_late_by_a_clock_that_is_behind() {
        let at = |secs: u64| {
            let time = now().plus(MAX_WAIT).plus(Duration::from_secs(secs)).to_rfc3339();
            read(&format!(r#"{{"to":{{"subscription":"s1"}},"deliver_at":"{time}"}}"#))
        };
        let body = at(0).expect("accepted").outgoing().body;
        let behind = now().minus(Duration::from_secs(3_600));
        assert!(parse(&body, QueueKind::Ingest, "another", behind).is_ok());
        let expected = "deliver_at: expected an RFC 3339 time at most 360 days ahead, found a string";
        assert_eq!(at(1).expect_err("too late"), [expected]);
    }
}
