//! The table of deliveries in memory: their own entries, and the batches that list what was sent together.

use std::collections::HashMap;

use redial_core::identity::DeliveryKey;
use redial_core::ledger::Entry;
use redial_core::ledger::Place;
use redial_core::ledger::batch::{self, Batch, Success};
use redial_core::time::Timestamp;

/// What a delivery is follows from its own entry and from the batch of its lease token.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entries {
    own: HashMap<DeliveryKey, Entry>,
    batches: HashMap<String, (Batch, Timestamp)>,
}

impl Entries {
    /// A delivery's entry as it is.
    pub fn get(&self, key: &DeliveryKey) -> Option<Entry> {
        self.own.get(key).map(|entry| self.resolved(entry))
    }

    fn resolved(&self, entry: &Entry) -> Entry {
        let stored = self.batches.get(&entry.lease_token);
        stored.map_or_else(|| entry.clone(), |(batch, _)| batch.resolve(entry.clone()))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&DeliveryKey, Entry)> {
        self.own.iter().map(|(key, entry)| (key, self.resolved(entry)))
    }

    pub fn values(&self) -> impl Iterator<Item = Entry> {
        self.own.values().map(|entry| self.resolved(entry))
    }

    pub fn contains_key(&self, key: &DeliveryKey) -> bool {
        self.own.contains_key(key)
    }

    pub fn len(&self) -> usize {
        self.own.len()
    }

    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// A delivery's own entry, whatever a batch lists.
    pub fn own(&self, key: &DeliveryKey) -> Option<&Entry> {
        self.own.get(key)
    }

    pub fn get_mut(&mut self, key: &DeliveryKey) -> Option<&mut Entry> {
        self.own.get_mut(key)
    }

    pub fn insert(&mut self, key: DeliveryKey, entry: Entry) {
        self.own.insert(key, entry);
    }

    pub fn remove(&mut self, key: &DeliveryKey) {
        self.own.remove(key);
    }

    pub(crate) fn own_entries(&self) -> impl Iterator<Item = (&DeliveryKey, &Entry)> {
        self.own.iter()
    }

    /// When each batch expires, by its lease token.
    pub(crate) fn batches(&self) -> impl Iterator<Item = (&String, Timestamp)> {
        self.batches.iter().map(|(token, (_, expires_at))| (token, *expires_at))
    }

    pub(crate) fn remove_batch(&mut self, lease_token: &str) {
        self.batches.remove(lease_token);
    }

    pub fn is_closed(&self, lease_token: &str) -> bool {
        self.batches.get(lease_token).is_some_and(|(batch, _)| batch.is_closed)
    }

    /// Adds successes to a batch; whether it was open.
    pub(crate) fn add(
        &mut self,
        lease_token: &str,
        successes: Vec<(Place, Success)>,
        latest: Timestamp,
    ) -> bool {
        let (batch, expires_at) = self.batches.entry(lease_token.to_owned()).or_default();
        if batch.is_closed {
            return false;
        }
        batch.sent.extend(successes);
        *expires_at = batch::expires_at(latest).max(*expires_at);
        true
    }

    pub(crate) fn close(&mut self, lease_token: &str, latest: Timestamp) {
        let (batch, expires_at) = self.batches.entry(lease_token.to_owned()).or_default();
        batch.is_closed = true;
        *expires_at = batch::expires_at(latest).max(*expires_at);
    }
}
