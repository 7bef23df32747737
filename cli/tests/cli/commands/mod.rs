//! The commands that work on a stack: what they write is there, and what is there they find.
//!
//! The functions are placeholders and no queue is read, so that a message stays where it was put.

mod acks;
mod audiences;
mod callbacks;
mod cancel;
mod send;
mod status;
mod subscriptions;

use redial_core::{
    channel::Channel,
    endpoint::HashKeys,
    identity::{Attempt, DeliveryId, DeliveryKey, IdSource, Lineage, Tenant, Turn},
    ledger::{Ask, Given, Record, State},
    reason::Reason,
};
use redial_engine::ports::Claim;

use crate::prelude::*;

const SUBSCRIPTION: &str = r#"{"endpoint":"https://push.example/s3cret-endpoint","expirationTime":null,"keys":{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}}"#;

fn key(stack: &TestStack, id: &str) -> DeliveryKey {
    let tenant = Tenant::parse(&stack.tenant).expect("valid");
    DeliveryKey { tenant, id: DeliveryId::parse(id).expect("valid") }
}

fn turn(attempt: u32) -> Turn {
    Turn { lineage: Lineage(0), attempt: Attempt(attempt) }
}

fn claim(key: DeliveryKey, attempt: u32, now: Timestamp) -> Claim {
    let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
    Claim {
        channel: Channel::WebPush,
        ask: Ask {
            key,
            turn: turn(attempt),
            lease_token: "token".to_owned(),
            lease_until: now.plus(Duration::from_secs(600)),
            source_message: format!("m{attempt}"),
            fingerprint: keys.fingerprint(b"content"),
            id_source: IdSource::Producer,
            state: State::Sending,
        },
        endpoint_hash: Some(keys.fingerprint(b"endpoint")),
        subscription: None,
        given: Given::default(),
        place: None,
        kept_until: None,
        settlement: None,
    }
}

fn record(key: DeliveryKey, attempt: u32, state: State, reason: Option<Reason>, now: Timestamp) -> Record {
    Record {
        key,
        turn: turn(attempt),
        lease_token: "token".to_owned(),
        place: None,
        state,
        status: None,
        verdict: Some("retry"),
        reason,
        not_sent: None,
        provider_word: None,
        headers: Vec::new(),
        not_before: None,
        in_doubt: false,
        kept_until: None,
        now,
    }
}
