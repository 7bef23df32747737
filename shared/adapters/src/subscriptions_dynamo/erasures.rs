//! Marks of what was erased: a subscription's is its tombstone, with `erased_at`; that of a `ref` is a row of `control`.
//!
//! | table | pk | sk | what | expires |
//! |---|---|---|---|---|
//! | `subscriptions` | `<tenant>#<id>` | | a tombstone with `erased_at` and without a hash | with the tombstone |
//! | `control` | `erased#<tenant>` | a digest | `erased_at` of a `ref` | after 30 days |

use futures_util::future::join_all;
use redial_core::erasure::{MARK_KEPT, Person, Subject, mark_of};
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::message::ProducerRef;
use redial_core::time::Timestamp;
use redial_engine::ports::{ErasureMarks, Erasures, PortError};

use super::transaction::{After, Met};
use super::{DynamoSubscriptions, item, item_key};
use crate::table::attributes::{Item, Read as _, expiry, key, ms};

/// When it was erased.
pub(super) const ERASED_AT: &str = "erased_at";

impl DynamoSubscriptions {
    /// Removes a subscription, if it is stored, with its rows in audiences and its place in the tenant's count, and marks its id as erased. One
    /// that was stored after `requested_at` is another, and stays.
    pub async fn mark_erased(
        &self,
        key: &SubscriptionKey,
        requested_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), PortError> {
        self.change(key, None, now, |Met { before, .. }| {
            let stored = before.filter(|before| item::is_stored(before));
            if stored.and_then(|stored| stored.time("created_at")).is_some_and(|at| at > requested_at) {
                return Ok((None, ()));
            }
            let mut tombstone = item::tombstone(key, None, now);
            tombstone.insert(ERASED_AT.to_owned(), ms(now));
            Ok((Some(After::Whole(tombstone)), ()))
        })
        .await
    }

    /// Marks a `ref` as erased.
    async fn mark_ref_erased(
        &self,
        tenant: &Tenant,
        producer_ref: &ProducerRef,
        now: Timestamp,
    ) -> Result<(), PortError> {
        let values = [(":at", ms(now)), (":expires_at", expiry(now.plus(MARK_KEPT)))];
        let expression = "SET erased_at = :at, expires_at = :expires_at";
        let update = self.control.table.update(mark_key(tenant, producer_ref), expression, values);
        self.control.table.send(update).await.map(|_| ())
    }

    async fn is_erased(&self, subject: Subject) -> Result<bool, PortError> {
        let found = match subject {
            Subject::Subscription(key) => {
                self.table.get_one(item_key(&key)).await?.filter(|found| !item::is_stored(found))
            }
            Subject::Ref(tenant, producer_ref) => {
                self.control.table.get_one(mark_key(&tenant, &producer_ref)).await?
            }
        };
        Ok(found.is_some_and(|found| found.contains_key(ERASED_AT)))
    }
}

fn mark_key(tenant: &Tenant, producer_ref: &ProducerRef) -> Item {
    key(format!("erased#{tenant}"), mark_of(tenant, producer_ref))
}

impl Erasures for DynamoSubscriptions {
    async fn erased(&self, subjects: Vec<Subject>) -> Vec<Result<bool, PortError>> {
        join_all(subjects.into_iter().map(|subject| self.is_erased(subject))).await
    }
}

impl ErasureMarks for DynamoSubscriptions {
    async fn mark(&self, person: &Person, requested_at: Timestamp, now: Timestamp) -> Result<(), PortError> {
        if let Some(key) = person.key() {
            self.mark_erased(&key, requested_at, now).await?;
        }
        match &person.producer_ref {
            Some(producer_ref) => self.mark_ref_erased(&person.tenant, producer_ref, now).await,
            None => Ok(()),
        }
    }
}
