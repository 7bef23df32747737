//! A dead letter of tests.

use redial_adapters::dead_letters_dynamo::Described;
use redial_core::dead_letter::{Kind, Reference};

pub(super) fn described() -> Described {
    let reference = Reference {
        v: Reference::VERSION,
        kind: Kind::Failed,
        tenant: "acme".to_owned(),
        id: "d1".to_owned(),
        letter: "lineage-0".to_owned(),
        lineage: 0,
        channel: "web_push".to_owned(),
        subscription: None,
        endpoint_hash: None,
        reason: "retries_exhausted".to_owned(),
        detail: None,
        status: Some(503),
        attempts: 6,
        first_sent: 900_000,
        at: 1_000_000,
        retention_days: 14,
    };
    Described { reference, replayed_at: None, kept_until: None }
}
