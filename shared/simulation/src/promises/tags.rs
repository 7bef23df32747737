//! What is recorded of a message has its tags, however it came there: entries, pages, events and dead letters.
//!
//! All messages of a tenant have the same tags here, also those to audiences: so it is known of each record which tags it must have,
//! without knowing which message it is of.

use redial_core::dead_letter::Reference;
use redial_core::identity::Tenant;
use redial_core::ledger::Entry;
use redial_core::page::Position;
use redial_core::tag::MessageTags;
use serde_json::{Value, json};

use super::callbacks;
use super::remains::Remains;
use crate::watch::Memo;

/// A channel of this name has what was never read as a message.
pub(super) const UNREAD: &str = "unknown";

/// The tags of every message of a tenant, as its producer writes them.
pub(crate) fn tags_of(tenant: &str) -> Value {
    json!([format!("of:{tenant}"), "sim"])
}

impl Memo {
    /// What the ledger, or a page, says of a delivery.
    pub(crate) fn is_tagged(&mut self, entry: &Entry) {
        // What was cancelled before its message came says nothing of it.
        let is_of_a_producer = entry.is_known() && !callbacks::is_of_one(entry.key.id.as_str());
        if is_of_a_producer && json!(entry.given.tags) != tags_of(entry.key.tenant.as_str()) {
            let Entry { key, state, given, .. } = entry;
            let tags = given.tags.to_text();
            self.violated(format!("the entry of {key}, {state}, has the tags {tags:?}"));
        }
    }

    /// An event of a delivery.
    fn announces_tags(&mut self, event: &Value) {
        let tenant = event["tenant"].as_str().unwrap_or_default();
        if !event["id"].is_null() && event["tags"] != tags_of(tenant) {
            self.violated(format!("the event of {tenant}#{} has the tags {}", event["id"], event["tags"]));
        }
    }
}

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let mut entries = remains.state.all_known();
    entries.retain(|entry| !entry.is_forgotten(remains.state.now));
    // The rows of a page are deleted one by one: its recipients may be there without what its members' row said.
    entries.extend(memo.forgotten.values().filter(|entry| Position::of(&entry.key).is_none()).cloned());
    for entry in &entries {
        memo.is_tagged(entry);
    }
    for event in remains.events {
        memo.announces_tags(event);
    }
    for reference in remains.state.described.values().filter(|it| it.channel != UNREAD) {
        let Reference { tenant, id, letter, tags, .. } = reference;
        let read = tags.as_deref().map(|tags| json!(MessageTags::from_text(tags)));
        let is_of_a_tenant = Tenant::parse(tenant).is_some() && !callbacks::is_of_one(id);
        if is_of_a_tenant && read != Some(tags_of(tenant)) {
            memo.violated(format!("the dead letter {tenant}#{id} {letter} has the tags {tags:?}"));
        }
    }
}
