//! Acknowledgements on the `deliveries` table: `displayed_at`, `clicked_at` and `closed_at` of an entry, or, of a recipient of a page, of an
//! item of its own.
//!
//! One conditional write decides which of two equal acknowledgements is the first. On an entry it touches no other attribute, so it never
//! interferes with a worker's claim, and it never makes an item: a forgotten delivery stays forgotten.
//!
//! | `pk` | `ack#<tenant>#<id>` |
//! |---|---|
//! | `displayed_at`, `clicked_at`, `closed_at` | when it was acknowledged first |
//! | `expires_at` | the end of the last token, which nothing acknowledges after |
//! | `erased_at` | its person was erased: nothing is acknowledged any more |
//!
//! No entry has such a key: an id contains no `#`.

use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use redial_core::ack::AckEvent;
use redial_core::identity::DeliveryKey;
use redial_core::page::Position;
use redial_core::time::Timestamp;
use redial_engine::ports::{Acknowledged, Acks, Clock as _, PortError};

use crate::retries::Patience;
use crate::system::System;
use crate::table::attributes::{Item, Read, expiry, item, ms, s};
use crate::table::{Table, Update, on_a_table};

/// The `deliveries` table: partition key `pk` (string).
#[derive(Clone, Debug)]
pub struct DynamoAcks {
    table: Table,
}

on_a_table!(DynamoAcks);

/// The attribute with the time of an event's first acknowledgement.
pub fn attribute(event: AckEvent) -> &'static str {
    match event {
        AckEvent::Displayed => "displayed_at",
        AckEvent::Clicked => "clicked_at",
        AckEvent::Closed => "closed_at",
    }
}

impl DynamoAcks {
    /// How many of these recipients of pages, which have no entry, were acknowledged.
    pub async fn count(&self, keys: &[DeliveryKey], now: Timestamp) -> Result<u64, PortError> {
        let found = self.table.get_each(keys.iter().map(own_key).collect(), Patience::brief()).await;
        let mut count = 0;
        for item in found {
            count += u64::from(item?.is_some_and(|item| is_kept(&item, now) && !times(&item).is_empty()));
        }
        Ok(count)
    }

    /// Of a recipient of a page. The item is kept until the last of its tokens ends: who sends a delivery again may give it more time.
    async fn acknowledge_apart(
        &self,
        key: Item,
        name: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Acknowledged, PortError> {
        let is_new = format!("attribute_not_exists(#{name}) AND attribute_not_exists(#{ERASED})");
        let update = self
            .table
            .update(
                key.clone(),
                format!("SET #{name} = :now, expires_at = :end"),
                [(":now", ms(now)), (":end", expiry(until))],
            )
            .condition_expression(format!(
                "{is_new} AND (attribute_not_exists(expires_at) OR expires_at <= :end)"
            ))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let Update::Refused(found) = self.table.send(update).await? else { return Ok(Acknowledged::First) };
        if found.contains_key(ERASED) {
            return Ok(Acknowledged::Unknown);
        }
        let is_first = if !found.contains_key(name) {
            // One of its tokens ends later than this one.
            self.table.update_if(key, &format!("SET #{name} = :now"), &is_new, [(":now", ms(now))]).await?
        } else {
            if found.expires_at().is_some_and(|at| at < until) {
                let end = [(":end", expiry(until))];
                self.table.update_if(key, "SET expires_at = :end", "expires_at < :end", end).await?;
            }
            false
        };
        Ok(if is_first { Acknowledged::First } else { Acknowledged::Again })
    }
}

/// Whether its token has not ended: DynamoDB deletes it late.
fn is_kept(item: &Item, now: Timestamp) -> bool {
    item.expires_at().is_some_and(|at| now < at)
}

impl Acks for DynamoAcks {
    async fn acknowledge(
        &self,
        key: &DeliveryKey,
        event: AckEvent,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Acknowledged, PortError> {
        let name = attribute(event);
        if Position::of(key).is_some() {
            return self.acknowledge_apart(own_key(key), name, until, now).await;
        }
        let key = item([("pk", s(key.to_string()))]);
        let update = self
            .table
            .update(key, format!("SET #{name} = :now"), [(":now", ms(now))])
            .condition_expression(format!("attribute_exists(pk) AND attribute_not_exists(#{name})"))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        Ok(match self.table.send(update).await? {
            Update::Done(_) => Acknowledged::First,
            Update::Refused(item) if item.is_empty() => Acknowledged::Unknown,
            Update::Refused(_) => Acknowledged::Again,
        })
    }

    async fn acknowledged(
        &self,
        key: &DeliveryKey,
        now: Timestamp,
    ) -> Result<Option<Vec<(AckEvent, Timestamp)>>, PortError> {
        let mut found = self.table.get_each(vec![own_key(key)], Patience::brief()).await;
        let item = found.pop().expect("every key is answered")?;
        let item = item.filter(|item| is_kept(item, now)).unwrap_or_default();
        Ok((!item.contains_key(ERASED)).then(|| times(&item)))
    }
}

/// Marks a recipient of a page whose person was erased.
pub(crate) const ERASED: &str = "erased_at";

/// What keeps a recipient of a page from being acknowledged; its expiry is the caller's to add.
pub(crate) fn erased(key: &DeliveryKey) -> Item {
    let mut mark = own_key(key);
    mark.insert(ERASED.to_owned(), ms(System.now()));
    mark
}

/// The item of a recipient of a page.
fn own_key(key: &DeliveryKey) -> Item {
    item([("pk", s(format!("ack#{key}")))])
}

/// The first acknowledgement of each kind, in the order of [`AckEvent::ALL`].
pub(crate) fn times(item: &Item) -> Vec<(AckEvent, Timestamp)> {
    let at = |event| Some((event, item.time(attribute(event))?));
    AckEvent::ALL.into_iter().filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use redial_core::identity::DeliveryId;
    use serde_json::json;

    use super::*;
    use crate::fixtures::tenant;
    use crate::stub_dynamo::{StubDynamo, error};

    #[tokio::test]
    async fn an_erased_recipient_of_a_page_is_unknown() {
        let stub = StubDynamo::new(|_, _| {
            let mut refused = error("ConditionalCheckFailedException");
            refused["Item"] = json!({"pk": {"S": "ack#acme#x"}, "erased_at": {"N": "1"}});
            Err(refused)
        });
        let acks = DynamoAcks::new(stub.client(), "deliveries".to_owned());
        let id = DeliveryId::parse(&format!("{}-3-7", "A".repeat(43))).expect("valid");
        let key = DeliveryKey { tenant: tenant("acme"), id };
        assert!(Position::of(&key).is_some());
        let (now, until) = (Timestamp::from_secs(1_800_000_000), Timestamp::from_secs(1_800_000_060));
        let answer = acks.acknowledge(&key, AckEvent::Displayed, until, now).await;
        assert_eq!(answer, Ok(Acknowledged::Unknown));
        assert_eq!(stub.calls("UpdateItem").len(), 1);
    }
}
