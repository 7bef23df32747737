//! Erasures in memory: marks, requests, and a search of what tests look at. A page of it is a table.

use redial_core::dead_letter::Reference;
use redial_core::erasure::{At, Counts, Erasure, ErasureId, Kind, Person, Place, Searched, Subject};
use redial_core::identity::Tenant;
use redial_core::time::Timestamp;
use redial_engine::ports::{ErasureMarks, ErasureRequests, Erasures, PersonSearch, PortError};

use super::book::leaves;
use super::effects::assert_distinct;
use super::{Memory, PortErrorKind, Row, State};

impl Erasures for Memory {
    async fn erased(&self, subjects: Vec<Subject>) -> Vec<Result<bool, PortError>> {
        assert_distinct(subjects.iter());
        self.effect_on_each("erased", subjects, |state, subject| state.erased.contains(&subject)).await
    }
}

impl ErasureMarks for Memory {
    async fn mark(&self, person: &Person, requested_at: Timestamp, now: Timestamp) -> Result<(), PortError> {
        self.effect("mark", |state| {
            if let Some(key) = person.key() {
                let stored = state.subscriptions.get(&key);
                if stored.and_then(|it| it.created_at).is_none_or(|at| at <= requested_at) {
                    leaves(state, &key, now);
                    state.tombstones.insert(key.clone(), (None, now));
                    state.erased.insert(Subject::Subscription(key));
                }
            }
            let text = person.producer_ref.clone();
            state.erased.extend(text.map(|text| Subject::Ref(person.tenant.clone(), text)));
        })
        .await
    }
}

impl PersonSearch for Memory {
    async fn erase_page(&self, person: &Person, at: &At, _most: u16) -> Result<Searched, PortError> {
        let place = at.place().ok_or_else(|| PortErrorKind::Broken.error("erase_page"))?;
        self.effect("erase_page", |state| {
            let (read, found) = erase(state, person, place);
            let next = Place::ALL.get(place as usize + 1).copied().map(At::of);
            Searched { found, read, next }
        })
        .await
    }
}

/// Removes what is the person's in a table; how much was read, and what was found.
fn erase(state: &mut State, person: &Person, place: Place) -> (u64, Counts) {
    let mut found = Counts::default();
    let read = match place {
        Place::Deliveries => {
            let own: Vec<_> = state.ledger.values().collect();
            for entry in &own {
                let is_hash = entry.endpoint_hash.as_ref().is_some_and(|it| person.hashes.contains(it));
                let is_its = person.is_subscription(entry.subscription.as_ref().map(|id| id.as_str()));
                if person.tenant == entry.key.tenant && (is_its || is_hash) {
                    state.delete(&Row::Entry(entry.key.clone()));
                    found.add(Kind::Delivery);
                }
            }
            own.len()
        }
        Place::DeadLetters => {
            let before = state.bodies.len();
            let bodies = state.bodies.iter().filter(|(_, body)| person.is_in_body(&body.body));
            let letters: Vec<_> = bodies.map(|(key, _)| key.clone()).collect();
            for letter in letters {
                state.bodies.remove(&letter);
                state.described.remove(&letter);
                found.add(Kind::DeadLetter);
            }
            let is_its = |it: &Reference| {
                let is_hash = person.is_hash(it.endpoint_hash.as_deref());
                it.tenant == person.tenant.as_str()
                    && (person.is_subscription(it.subscription.as_deref()) || is_hash)
            };
            state.described.retain(|_, reference| !is_its(reference));
            before
        }
        Place::Parked => {
            let before = state.parked.len();
            state.parked.retain(|_, item| !person.is_in_body(&item.body));
            (state.parked.len()..before).for_each(|_| found.add(Kind::Parked));
            before
        }
        Place::Subscriptions | Place::Audiences | Place::Control => 0,
    };
    (read as u64, found)
}

impl ErasureRequests for Memory {
    async fn begin(&self, erasure: Erasure) -> Result<Erasure, PortError> {
        self.effect("begin_erasure", |state| {
            let key = (erasure.tenant.clone(), erasure.id.clone());
            state.erasures.entry(key).or_insert_with(|| erasure.clone()).clone()
        })
        .await
    }

    async fn count_pending(&self, tenant: &Tenant) -> Result<usize, PortError> {
        self.effect("count_erasures", |state| state.erasures.keys().filter(|(of, _)| of == tenant).count())
            .await
    }

    async fn pending(&self) -> Result<Vec<Erasure>, PortError> {
        self.effect("pending_erasures", |state| state.erasures.values().cloned().collect()).await
    }

    async fn advance(&self, before: &Erasure, after: &Erasure) -> Result<bool, PortError> {
        self.effect("advance_erasure", |state| {
            let key = (before.tenant.clone(), before.id.clone());
            if state.erasures.get(&key) != Some(before) {
                return false;
            }
            if after.done_at.is_some() {
                state.erasures.remove(&key);
                state.erasures_done.insert(key, after.clone());
            } else {
                state.erasures.insert(key, after.clone());
            }
            true
        })
        .await
    }

    async fn find(&self, tenant: &Tenant, id: &ErasureId) -> Result<Option<Erasure>, PortError> {
        let key = (tenant.clone(), id.clone());
        self.effect("find_erasure", |state| {
            state.erasures.get(&key).or_else(|| state.erasures_done.get(&key)).cloned()
        })
        .await
    }
}
