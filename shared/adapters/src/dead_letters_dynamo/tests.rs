use redial_core::dead_letter::{Kind, Reference};

pub(super) fn reference(tenant: &str, id: &str, at: i64) -> Reference {
    Reference {
        v: Reference::VERSION,
        kind: Kind::Failed,
        tenant: tenant.to_owned(),
        id: id.to_owned(),
        letter: "lineage-0".to_owned(),
        lineage: 0,
        channel: "web_push".to_owned(),
        subscription: Some("s1".to_owned()),
        endpoint_hash: None,
        reason: "retries_exhausted".to_owned(),
        detail: None,
        status: Some(503),
        attempts: 6,
        first_sent: 1,
        at,
        retention_days: 14,
    }
}
