//! What a scenario left.

use std::collections::BTreeMap;

use redial_core::identity::{DeliveryKey, SubscriptionKey};
use redial_core::time::Timestamp;
use redial_memory::State;
use serde_json::Value;

use crate::scenario::Scenario;
use crate::scenario::messages::Sending;
use crate::scenario::storage::Storage;
use crate::sqs::Sqs;

/// What a scenario left.
pub(crate) struct Remains<'a> {
    pub(crate) scenario: &'a Scenario,
    /// Whether nothing is under way, and nothing is to come.
    pub(crate) is_quiet: bool,
    pub(crate) state: &'a State,
    pub(crate) sqs: &'a Sqs,
    /// What producers received.
    pub(crate) events: &'a [Value],
    pub(crate) faults_end: Timestamp,
    /// The end of the second time of faults, if there is one.
    pub(crate) last_faults_end: Timestamp,
    pub(crate) accepted: &'a BTreeMap<DeliveryKey, Vec<Sending>>,
    pub(crate) storage: &'a Storage,
    /// When there were no faults any more.
    pub(crate) calm_from: Timestamp,
    /// How many messages are too long to be sent again.
    pub(crate) too_long: usize,
}

impl Remains<'_> {
    /// The events of this state about a subscription.
    pub(crate) fn events_of(&self, key: &SubscriptionKey, state: &str) -> impl Iterator<Item = &Value> {
        self.events.iter().filter(move |event| {
            event["tenant"] == key.tenant.as_str()
                && event["subscription"] == key.id.as_str()
                && event["id"].is_null()
                && event["state"] == state
        })
    }
}
