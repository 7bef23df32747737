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
use redial_engine::ports::{Clock as _, ErasureMarks, Erasures, PortError};

use super::transaction::{After, Met};
use super::{DynamoSubscriptions, item, item_key};
use crate::system::System;
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
        // DynamoDB deletes a mark late.
        let is_over = |mark: &Item| mark.expires_at().is_some_and(|at| at <= System.now());
        Ok(found.is_some_and(|mark| mark.contains_key(ERASED_AT) && !is_over(&mark)))
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redial_core::identity::SubscriptionId;
    use serde_json::json;

    use super::*;
    use crate::control_dynamo::DynamoControl;
    use crate::stub_dynamo::StubDynamo;

    #[tokio::test]
    async fn a_mark_that_has_expired_marks_nothing() {
        let minute = Duration::from_secs(60);
        for (expires_at, is_erased) in
            [(System.now().plus(minute), true), (System.now().minus(minute), false)]
        {
            let stub = StubDynamo::new(move |_, call| {
                let (table, keys) =
                    call["RequestItems"].as_object().and_then(|it| it.iter().next()).expect("one");
                let mut mark = keys["Keys"][0].clone();
                mark["erased_at"] = json!({"N": "1"});
                mark["expires_at"] = json!({"N": expires_at.as_secs().to_string()});
                Ok(json!({"Responses": {table: [mark]}}))
            });
            let named = str::to_owned;
            let control = DynamoControl::new(stub.client(), named("control"));
            let (own, audiences) = (named("subscriptions"), named("audiences"));
            let store = DynamoSubscriptions::new(stub.client(), own, audiences, control, None);
            let tenant = Tenant::parse("acme").expect("a tenant");
            let subjects = vec![
                Subject::Ref(tenant.clone(), ProducerRef::parse("order-1").expect("a ref")),
                Subject::Subscription(SubscriptionKey {
                    tenant,
                    id: SubscriptionId::parse("s1").expect("an id"),
                }),
            ];
            assert_eq!(store.erased(subjects).await, [Ok(is_erased), Ok(is_erased)], "{expires_at:?}");
        }
    }
}
