//! Values that the tests of this crate share.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::access::TokenKeys;
use crate::endpoint::{Endpoint, HashKeys};
use crate::identity::{
    Attempt, DeliveryId, DeliveryKey, Lineage, SubscriptionId, SubscriptionKey, Tenant, Turn,
};
use crate::ledger::{Entry, Record, State};
use crate::message::{Inbound, Message, QueueKind, Travel, parse};
use crate::outcome::Response;
use crate::policy::{Policy, catalogue};
use crate::push_target::{PushKeys, PushTarget};
use crate::reason::Reason;
use crate::shape::ShapeError;
use crate::tag::{Tag, Tags};
use crate::time::Timestamp;

// RFC 8291, Appendix A.
pub(crate) const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
pub(crate) const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

pub(crate) fn time(rfc3339: &str) -> Timestamp {
    Timestamp::parse_rfc3339(rfc3339).expect("valid")
}

/// The moment `secs` seconds after a fixed one.
pub(crate) fn at(secs: u64) -> Timestamp {
    Timestamp::from_secs(1_000_000).plus(Duration::from_secs(secs))
}

pub(crate) fn rng() -> StdRng {
    StdRng::seed_from_u64(7)
}

pub(crate) fn preset(name: &str) -> &'static Policy {
    catalogue::presets().get(name).expect("a preset")
}

pub(crate) fn tenant() -> Tenant {
    Tenant::parse("acme").expect("valid")
}

pub(crate) fn delivery(id: &str) -> DeliveryKey {
    DeliveryKey { tenant: tenant(), id: DeliveryId::parse(id).expect("valid") }
}

pub(crate) fn subscription(id: &str) -> SubscriptionKey {
    SubscriptionKey { tenant: tenant(), id: SubscriptionId::parse(id).expect("valid") }
}

pub(crate) fn tags(texts: &[&str]) -> Tags {
    Tags::new(texts.iter().map(|text| Tag::parse(text).expect("a tag")).collect()).expect("valid")
}

pub(crate) fn endpoint(url: &str) -> Endpoint {
    Endpoint::parse(url).expect("valid")
}

pub(crate) fn browser(url: &str) -> PushTarget {
    let keys = PushKeys::parse(P256DH, AUTH).expect("valid");
    PushTarget { endpoint: endpoint(url), keys, vapid_key_id: None }
}

pub(crate) fn hash_keys() -> HashKeys {
    HashKeys::parse("k1:0123456789abcdef").expect("valid")
}

pub(crate) fn token_keys() -> TokenKeys {
    TokenKeys::new([("k1".to_owned(), [1; TokenKeys::KEY_BYTES])]).expect("valid")
}

pub(crate) fn pairs(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
    let body = body.as_bytes().to_vec();
    Response { status, headers: pairs(headers), body, ..Response::default() }
}

pub(crate) fn texts(errors: &[ShapeError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The entry that a first claim writes, of which nothing is recorded.
pub(crate) fn entry(now: Timestamp) -> Entry {
    let fingerprint = hash_keys().fingerprint(b"content");
    Entry {
        lease_token: "other".to_owned(),
        lease_until: now,
        source_message: "m1".to_owned(),
        ..Entry::unclaimed(delivery("d1"), State::Sending, Turn::default(), fingerprint, now)
    }
}

/// The record of an attempt that is followed by a retry.
pub(crate) fn record(attempt: u32) -> Record {
    Record {
        key: delivery("d1"),
        turn: Turn { lineage: Lineage(0), attempt: Attempt(attempt) },
        lease_token: "token".to_owned(),
        place: None,
        state: State::Retrying,
        status: Some(503),
        verdict: Some("retry"),
        reason: Some(Reason::ServerError),
        not_sent: None,
        provider_word: None,
        headers: Vec::new(),
        not_before: Some(Timestamp::from_ms(1_800_000_004_000)),
        in_doubt: false,
        kept_until: None,
        now: Timestamp::from_ms(1_800_000_000_000),
    }
}

pub(crate) fn to_subscription(rest: &str) -> String {
    format!(r#"{{"tenant":"acme","to":{{"subscription":"s1"}}{rest}}}"#)
}

pub(crate) fn as_message(inbound: Inbound) -> (Message, Travel) {
    match inbound {
        Inbound::Message(message, travel) => (*message, travel),
        Inbound::Release(_) | Inbound::Expand(_) | Inbound::Page(_) | Inbound::Recipient(..) => {
            panic!("a message")
        }
    }
}

/// A producer's message to the subscription `s1` with these fields besides, sent in January 2027.
pub(crate) fn message(rest: &str) -> Message {
    let sent = Timestamp::from_secs(1_800_000_000);
    as_message(parse(&to_subscription(rest), QueueKind::Ingest, "m-1", sent).expect("valid")).0
}
