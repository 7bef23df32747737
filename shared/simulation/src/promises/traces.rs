//! What is recorded of a message names its trace, and its webhook gets it, on whatever way it came there.
//!
//! All messages of a tenant belong to the same trace here, as they have the same tags ([`super::tags`]).

use redial_core::dead_letter::Reference;
use redial_core::identity::Tenant;
use redial_core::traceparent::Traceparent;
use serde_json::Value;

use super::callbacks;
use super::remains::Remains;
use super::tags::UNREAD;
use crate::watch::Memo;

/// States of events that are no end of a delivery: by then its message is forgotten.
const LATER: [&str; 3] = ["displayed", "clicked", "closed"];

/// The trace of every message of a tenant, as its producer writes it.
pub(crate) fn traceparent_of(tenant: &str) -> String {
    let mut id: String = tenant.bytes().map(|byte| format!("{byte:02x}")).collect();
    id.push_str(&"a".repeat(32));
    id.truncate(32);
    format!("00-{id}-00f067aa0ba902b7-01")
}

fn trace_of(tenant: &str) -> Option<String> {
    Traceparent::parse(&traceparent_of(tenant)).map(|it| it.trace_id())
}

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let is_an_end = |event: &&Value| {
        !event["id"].is_null() && !LATER.contains(&event["state"].as_str().unwrap_or_default())
    };
    for event in remains.events.iter().filter(is_an_end) {
        let tenant = event["tenant"].as_str().unwrap_or_default();
        if event["traceparent"] != traceparent_of(tenant) {
            let words =
                format!("the event of {tenant}#{} names the trace {}", event["id"], event["traceparent"]);
            memo.violated(words);
        }
    }
    for reference in remains.state.described.values().filter(|it| it.channel != UNREAD) {
        let Reference { tenant, id, letter, trace_id, .. } = reference;
        let is_of_a_tenant = Tenant::parse(tenant).is_some() && !callbacks::is_of_one(id);
        if is_of_a_tenant && *trace_id != trace_of(tenant) {
            memo.violated(format!("the dead letter {tenant}#{id} {letter} names the trace {trace_id:?}"));
        }
    }
    for webhook in remains.state.webhooks.iter().filter(|it| !callbacks::is_of_one(&it.id)) {
        let (tenant, trace) = (webhook.tenant.as_str(), webhook.traceparent.map(|it| it.trace_id()));
        if trace != trace_of(tenant) {
            memo.violated(format!("the webhook {tenant}#{} is posted in the trace {trace:?}", webhook.id));
        }
    }
}
