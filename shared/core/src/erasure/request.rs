//! An erasure that a tenant has requested over the HTTP API, until it is done.
//!
//! It is stored before anything is removed, with what the search needs of what will be gone: the endpoint. Whoever asks for the same
//! again while it is pending gets the same one. It is `done` when the search has come to the end of the last table, and not before; then
//! nothing is kept of whom it was about.

use std::fmt;
use std::time::Duration;

use super::person::Person;
use super::search::{At, Counts, Searched, search_from};
use crate::distinct::distinct;
use crate::endpoint::{Endpoint, EndpointHash, HashKeys};
use crate::identity::{SubscriptionId, Tenant, hashed};
use crate::label::labels;
use crate::message::ProducerRef;
use crate::text::{checked_text, is_word};
use crate::time::Timestamp;

/// How many erasures of a tenant may be pending: each is a search of every table.
pub const MOST_PENDING: usize = 100;

checked_text! {
    /// Unique within its tenant: a digest of whom it is about.
    ErasureId, |text| is_word(text, 64);
}

impl ErasureId {
    pub fn of(
        tenant: &Tenant,
        subscription: Option<&SubscriptionId>,
        producer_ref: Option<&ProducerRef>,
    ) -> Self {
        let id = subscription.map(SubscriptionId::as_str).unwrap_or_default();
        let text = producer_ref.map(ProducerRef::expose).unwrap_or_default();
        Self(hashed(&format!("erasure\0{tenant}\0{id}\0{text}")).into())
    }
}

/// When an erasure counts as requested of a subscription that was found at `now` and was first stored at `created_at`: not before that. The
/// worker that stored it may have a clock that is ahead, and a subscription that was stored after the request is a later one, which stays.
pub fn requested_at(now: Timestamp, created_at: Option<Timestamp>) -> Timestamp {
    created_at.map_or(now, |at| at.max(now))
}

labels! {
    pub enum ErasureState {
        /// It is marked, or about to be: workers that have not seen the mark may still be at work.
        Waiting = "waiting",
        Searching = "searching",
        Done = "done",
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct Erasure {
    pub tenant: Tenant,
    pub id: ErasureId,
    /// Whom it is about: one of these at least, until it is done.
    pub subscription: Option<SubscriptionId>,
    pub producer_ref: Option<ProducerRef>,
    /// Where the subscription led.
    pub endpoint: Option<Endpoint>,
    /// Of endpoints that it led to before.
    pub former: Vec<EndpointHash>,
    pub requested_at: Timestamp,
    /// When whom it is about was marked as erased.
    pub marked_at: Option<Timestamp>,
    /// Where the search goes on; `None` at the end.
    pub at: Option<At>,
    /// How many items were read.
    pub read: u64,
    pub found: Counts,
    pub done_at: Option<Timestamp>,
    /// How often it has changed: of two workers at one time, one goes on.
    pub step: u64,
}

/// Without whom it is about.
impl fmt::Debug for Erasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Erasure")
            .field("id", &self.id)
            .field("marked_at", &self.marked_at)
            .field("at", &self.at)
            .field("done_at", &self.done_at)
            .finish_non_exhaustive()
    }
}

impl Erasure {
    pub fn new(
        tenant: Tenant,
        subscription: Option<SubscriptionId>,
        producer_ref: Option<ProducerRef>,
        now: Timestamp,
    ) -> Self {
        Self {
            id: ErasureId::of(&tenant, subscription.as_ref(), producer_ref.as_ref()),
            tenant,
            subscription,
            producer_ref,
            endpoint: None,
            former: Vec::new(),
            requested_at: now,
            marked_at: None,
            at: Some(At::start()),
            read: 0,
            found: Counts::default(),
            done_at: None,
            step: 0,
        }
    }

    pub fn state(&self) -> ErasureState {
        match self.done_at {
            Some(_) => ErasureState::Done,
            None if self.at.as_ref() == Some(&At::start()) => ErasureState::Waiting,
            None => ErasureState::Searching,
        }
    }

    /// Whom it is about, recognised by these keys.
    pub fn person(&self, keys: &HashKeys) -> Person {
        Person {
            tenant: self.tenant.clone(),
            subscription: self.subscription.clone(),
            producer_ref: self.producer_ref.clone(),
            hashes: self.hashes(keys),
            endpoint: self.endpoint.clone(),
            hash_keys: Some(keys.clone()),
        }
    }

    fn hashes(&self, keys: &HashKeys) -> Vec<EndpointHash> {
        let own = self.endpoint.iter().flat_map(|endpoint| keys.all_of(endpoint));
        distinct(own.chain(self.former.iter().cloned()))
    }

    /// From its beginning, about a subscription that was stored since and leads to `endpoint`; see [`requested_at`].
    #[must_use]
    pub fn again(&self, endpoint: Endpoint, keys: &HashKeys, requested_at: Timestamp) -> Self {
        Self {
            former: self.hashes(keys),
            endpoint: Some(endpoint),
            requested_at,
            marked_at: None,
            at: Some(At::start()),
            step: self.step + 1,
            ..self.clone()
        }
    }

    /// From when on it may be searched; `None` before it is marked.
    pub fn search_from(&self, longest_invocation: Duration) -> Option<Timestamp> {
        self.marked_at.map(|at| search_from(at, longest_invocation))
    }

    #[must_use]
    pub fn marked(&self, at: Timestamp) -> Self {
        Self { marked_at: Some(at), step: self.step + 1, ..self.clone() }
    }

    /// After a page of the search. At the end it is done, and whom it was about is forgotten.
    #[must_use]
    pub fn searched(&self, page: Searched, now: Timestamp) -> Self {
        let Searched { found, read, next } = page;
        let mut after = Self { read: self.read + read, step: self.step + 1, at: next, ..self.clone() };
        after.found.extend(&found);
        if after.at.is_none() {
            (after.subscription, after.producer_ref, after.endpoint) = (None, None, None);
            after.former.clear();
            after.done_at = Some(now);
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::erasure::{Kind, Place};
    use crate::fixtures::{at, endpoint, hash_keys, subscription, tenant};

    fn erasure(producer_ref: Option<&str>) -> Erasure {
        let producer_ref = producer_ref.and_then(ProducerRef::parse);
        let new = Erasure::new(tenant(), Some(subscription("s1").id), producer_ref, at(0));
        Erasure { endpoint: Some(endpoint("https://push.example/s3cret")), ..new }
    }

    fn page(next: Option<At>) -> Searched {
        let mut found = Counts::default();
        found.add(Kind::Delivery);
        Searched { found, read: 7, next }
    }

    #[test]
    fn it_is_done_at_the_end_of_the_last_table_and_then_names_no_one() {
        let marked = erasure(Some("user 7")).marked(at(1));
        assert_eq!(marked.state(), ErasureState::Waiting);
        assert_eq!(marked.search_from(Duration::from_secs(60)), Some(at(62)));
        let again = marked.again(endpoint("https://push.example/s3cret"), &hash_keys(), at(2));
        assert_eq!((again.former.len(), again.hashes(&hash_keys()).len()), (1, 1), "each hash once");
        let under_way = marked.searched(page(Some(At::of(Place::Control))), at(70));
        assert_eq!((under_way.state(), under_way.done_at), (ErasureState::Searching, None));
        assert_eq!(under_way.person(&hash_keys()).hashes.len(), 1);
        let done = under_way.searched(page(None), at(80));
        assert_eq!((done.state(), done.read, done.found.total()), (ErasureState::Done, 14, 2));
        assert_eq!((done.step, done.done_at), (3, Some(at(80))));
        assert_eq!((&done.subscription, &done.endpoint, done.producer_ref.is_none()), (&None, &None, true));
    }

    #[test]
    fn it_is_requested_no_earlier_than_its_subscription_was_stored() {
        let stored = [None, Some(at(3)), Some(at(7))];
        assert_eq!(stored.map(|created_at| requested_at(at(5), created_at)), [at(5), at(5), at(7)]);
    }

    #[test]
    fn the_same_request_has_the_same_id_and_another_s_has_another() {
        let id = |tenant: &str, subscription: Option<&str>, text: Option<&str>| {
            let subscription = subscription.and_then(SubscriptionId::parse);
            let text = text.and_then(ProducerRef::parse);
            ErasureId::of(&Tenant::parse(tenant).expect("valid"), subscription.as_ref(), text.as_ref())
        };
        let it = id("acme", Some("s1"), None);
        assert_eq!(it, id("acme", Some("s1"), None));
        for other in
            [id("shop", Some("s1"), None), id("acme", None, Some("s1")), id("acme", Some("s1"), Some("x"))]
        {
            assert_ne!(it, other);
        }
        assert_eq!(ErasureId::parse(it.as_str()), Some(it));
    }

    #[test]
    fn it_is_printed_without_whom_it_is_about() {
        let shown = format!("{:?}", erasure(Some("user 7")));
        assert!(!shown.contains("user 7") && !shown.contains("s1") && !shown.contains("s3cret"), "{shown}");
    }
}
