//! A dead letter of tests.

use redial_adapters::dead_letters_dynamo::Described;
use redial_core::{
    dead_letter::{DeadLetterKey, Kind, Reference},
    reason::Reason,
    time::Timestamp,
};

pub(super) fn key() -> DeadLetterKey {
    DeadLetterKey { tenant: "acme".to_owned(), id: "d1".to_owned(), letter: "lineage-0".to_owned() }
}

pub(super) fn described() -> Described {
    let (first_sent, at) = (Timestamp::from_secs(900), Timestamp::from_secs(1_000));
    let failed = Reference::new(&key(), Kind::Failed, Reason::RetriesExhausted, first_sent, at);
    let reference = Reference {
        channel: "web_push".to_owned(),
        tags: Some("eu order".to_owned()),
        status: Some(503),
        attempts: 6,
        endpoint_hash: Some(format!("hmac:k1:{:0<64}", "0a3fc1d2")),
        ..failed
    };
    Described { reference, replayed_at: None, kept_until: None }
}
