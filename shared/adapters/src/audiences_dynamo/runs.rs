//! Messages to audiences, under way.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure};
use futures_util::future::join_all;
use rand::RngExt as _;
use redial_core::audience::{Progress, Run, RunKey};
use redial_core::body::Body;
use redial_core::identity::{DeliveryId, RunId, SubscriptionId, Tenant};
use redial_core::lane::Lane;
use redial_core::tag::Tag;
use redial_core::time::Timestamp;
use redial_engine::ports::{Audiences, PortError, Randomness as _};

use super::{DynamoAudiences, part_key, partition, run_key};
use crate::attributes::{Item, Read, expiry, ms, n, s};
use crate::system::System;
use crate::{aws_error, batch_get};

impl DynamoAudiences {
    async fn open_one(&self, run: Run) -> Result<(), PortError> {
        self.put(&run).await?;
        self.note_current(&run).await
    }

    async fn put(&self, run: &Run) -> Result<(), PortError> {
        let mut item = run_key(&run.key);
        let fields = [
            ("tenant", s(run.key.tenant.as_str())),
            ("id", s(run.key.id.as_str())),
            ("message", s(run.message.as_str())),
            ("lane", s(run.lane.label())),
            ("body", AttributeValue::B(Blob::new(run.body.expose()))),
            ("opened_at", ms(run.opened_at)),
            ("expires_at", expiry(run.kept_until)),
        ];
        item.extend(fields.map(|(name, value)| (name.to_owned(), value)));
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        let put = put.condition_expression("attribute_not_exists(pk)");
        match put.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await {
            Ok(answer) => {
                self.units.add(answer.consumed_capacity());
                Ok(())
            }
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(_)) => Ok(()),
                Some(_) | None => Err(aws_error::of_call("PutItem", &error)),
            },
        }
    }
}

impl Audiences for DynamoAudiences {
    async fn open(&self, runs: Vec<Run>) -> Vec<Result<(), PortError>> {
        join_all(runs.into_iter().map(|run| self.open_one(run))).await
    }

    async fn load(&self, keys: Vec<RunKey>, now: Timestamp) -> Vec<Result<Option<Run>, PortError>> {
        let wanted = keys.iter().map(run_key).collect();
        match batch_get::get(&self.client, &self.table, wanted).await {
            Ok(items) => {
                let is_of = |item: &Item, key: &RunKey| {
                    run_key(key).iter().all(|(name, value)| item.get(name) == Some(value))
                };
                let of = |key: &RunKey| items.iter().find(|item| is_of(item, key));
                keys.iter().map(|key| of(key).map_or(Ok(None), |item| kept(item, now))).collect()
            }
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn members(
        &self,
        tenant: &Tenant,
        tag: &Tag,
        shard: u8,
        after: Option<&SubscriptionId>,
        most: u16,
    ) -> Result<Vec<SubscriptionId>, PortError> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .expression_attribute_values(":pk", s(partition(tenant, tag, shard)))
            .projection_expression("sk")
            // Who joined before the message was sent gets it, and the last page is known by being short.
            .consistent_read(true)
            .limit(i32::from(most));
        let query = match after {
            None => query.key_condition_expression("pk = :pk"),
            Some(after) => query
                .key_condition_expression("pk = :pk AND sk > :after")
                .expression_attribute_values(":after", s(after.as_str())),
        };
        let mut pages = query.into_paginator().send();
        let mut members = Vec::with_capacity(usize::from(most));
        while members.len() < usize::from(most)
            && let Some(page) = pages.next().await
        {
            let page = page.map_err(|error| aws_error::of_call("Query", &error))?;
            members.extend(page.items().iter().filter_map(|item| SubscriptionId::parse(item.text("sk")?)));
        }
        members.truncate(usize::from(most));
        Ok(members)
    }

    async fn progress(&self, run: &RunKey, shard: u8) -> Result<Progress, PortError> {
        let get = self.client.get_item().table_name(&self.table).set_key(Some(part_key(run, shard)));
        let answer = get.consistent_read(true).send().await;
        let answer = answer.map_err(|error| aws_error::of_call("GetItem", &error))?;
        Ok(answer.item.as_ref().map(progress).unwrap_or_default())
    }

    async fn advance(&self, run: &Run, shard: u8, from: &Progress, to: &Progress) -> Result<bool, PortError> {
        // A call that was carried out and not answered is made again, and then the part is not where it was: by this it knows its own
        // hand, and the part goes on.
        let hand = format!("{:032x}", System.rng().random::<u128>());
        let after = to.after.as_ref().map_or(AttributeValue::Null(true), |id| s(id.as_str()));
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(part_key(&run.key, shard)))
            .update_expression(
                "SET #after = :after, recipients = :recipients, done = :done, expires_at = :end, moved_by = :hand",
            )
            .expression_attribute_names("#after", "after")
            .expression_attribute_values(":after", after)
            .expression_attribute_values(":recipients", n(to.recipients))
            .expression_attribute_values(":done", AttributeValue::Bool(to.done))
            .expression_attribute_values(":end", expiry(run.kept_until))
            .expression_attribute_values(":hand", s(hand.as_str()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let update = match &from.after {
            None => update.condition_expression("attribute_not_exists(pk)"),
            Some(from) => update
                .condition_expression("#after = :from AND done = :not_done")
                .expression_attribute_values(":from", s(from.as_str()))
                .expression_attribute_values(":not_done", AttributeValue::Bool(false)),
        };
        match update.send().await {
            Ok(answer) => {
                self.units.add(answer.consumed_capacity());
                Ok(true)
            }
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(found)) => {
                    Ok(found.item().and_then(|item| item.text("moved_by")) == Some(hand.as_str()))
                }
                Some(_) | None => Err(aws_error::of_call("UpdateItem", &error)),
            },
        }
    }
}

/// A run, unless it is past what it is kept for: then DynamoDB has not deleted it yet.
fn kept(item: &Item, now: Timestamp) -> Result<Option<Run>, PortError> {
    if item.number("expires_at").is_some_and(|at| Timestamp::from_secs(at) <= now) {
        return Ok(None);
    }
    read(item).map(Some).ok_or_else(PortError::unreadable_run)
}

/// Reads an item; `None` if it is not one that this version wrote.
pub(super) fn read(item: &Item) -> Option<Run> {
    let body = item.get("body")?.as_b().ok()?.clone().into_inner();
    Some(Run {
        key: RunKey { tenant: Tenant::parse(item.text("tenant")?)?, id: RunId::parse(item.text("id")?)? },
        // The previous release gave a run its message's id.
        message: DeliveryId::parse(item.text("message").or_else(|| item.text("id"))?)?,
        lane: Lane::from_label(item.text("lane")?)?,
        body: Body::new(String::from_utf8(body).ok()?),
        opened_at: item.time("opened_at")?,
        kept_until: Timestamp::from_secs(item.number("expires_at")?),
        cancelled_at: item.time("cancelled_at"),
    })
}

pub(super) fn progress(item: &Item) -> Progress {
    Progress {
        after: item.text("after").and_then(SubscriptionId::parse),
        recipients: item.number("recipients").unwrap_or_default(),
        done: item.truth("done"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run {
            key: RunKey {
                tenant: Tenant::parse("acme").expect("valid"),
                id: RunId::parse("r1").expect("valid"),
            },
            message: DeliveryId::parse("news").expect("valid"),
            lane: Lane::Bulk,
            body: Body::new("{}".to_owned()),
            opened_at: Timestamp::from_secs(1_800_000_000),
            kept_until: Timestamp::from_secs(1_801_000_000),
            cancelled_at: None,
        }
    }

    #[test]
    fn an_item_of_another_form_is_none() {
        let mut item = run_key(&run().key);
        assert_eq!(read(&item), None);
        item.insert("body".to_owned(), AttributeValue::B(Blob::new([0xff])));
        assert_eq!(read(&item), None);
        // It is not forgotten: what refers to it waits for a worker that can read it.
        assert_eq!(kept(&item, run().opened_at), Err(PortError::unreadable_run()));
        item.insert("expires_at".to_owned(), expiry(run().kept_until));
        assert_eq!(kept(&item, run().opened_at), Err(PortError::unreadable_run()));
        assert_eq!(kept(&item, run().kept_until), Ok(None));
    }

    #[test]
    fn an_item_of_the_previous_release_has_the_id_of_its_message() {
        let mut item = run_key(&run().key);
        let fields = [
            ("tenant", s("acme")),
            ("id", s("news")),
            ("lane", s("bulk")),
            ("body", AttributeValue::B(Blob::new("{}"))),
            ("opened_at", ms(run().opened_at)),
            ("expires_at", expiry(run().kept_until)),
        ];
        item.extend(fields.map(|(name, value)| (name.to_owned(), value)));
        let of = |item: &Item| read(item).map(|run| (run.key.id.to_string(), run.message.to_string()));
        assert_eq!(of(&item), Some(("news".to_owned(), "news".to_owned())));
        item.insert("id".to_owned(), s("r1"));
        item.insert("message".to_owned(), s("news"));
        assert_eq!(of(&item), Some(("r1".to_owned(), "news".to_owned())));
    }

    #[test]
    fn a_part_that_nobody_walked_is_at_its_beginning() {
        assert_eq!(progress(&Item::new()), Progress::default());
    }
}
