//! Messages to audiences, under way.

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use futures_util::future::join_all;
use redial_core::audience::{Progress, Run, RunKey};
use redial_core::body::Body;
use redial_core::identity::{DeliveryId, RunId, SubscriptionId, Tenant};
use redial_core::lane::Lane;
use redial_core::tag::Tag;
use redial_core::time::Timestamp;
use redial_engine::ports::{Audiences, PortError};

use super::{DynamoAudiences, part_key, partition, run_key};
use crate::aws_error;
use crate::table::attributes::{Item, Read, b, expiry, item, ms, n, or_null, s};
use crate::table::{Update, request_token};

impl DynamoAudiences {
    async fn open_one(&self, run: Run) -> Result<(), PortError> {
        let mut row = run_key(&run.key);
        row.extend(item([
            ("tenant", s(run.key.tenant.as_str())),
            ("id", s(run.key.id.as_str())),
            ("message", s(run.message.as_str())),
            ("lane", s(run.lane.label())),
            ("body", b(run.body.expose())),
            ("opened_at", ms(run.opened_at)),
            ("expires_at", expiry(run.kept_until)),
        ]));
        self.table.put_if_new(row).await?;
        self.note_current(&run).await
    }
}

impl Audiences for DynamoAudiences {
    async fn open(&self, runs: Vec<Run>) -> Vec<Result<(), PortError>> {
        join_all(runs.into_iter().map(|run| self.open_one(run))).await
    }

    async fn load(&self, keys: Vec<RunKey>, now: Timestamp) -> Vec<Result<Option<Run>, PortError>> {
        match self.table.get_all(keys.iter().map(run_key).collect()).await {
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
        // Consistent: a subscription that got the tag before the message was sent gets the message, and the last page is known by
        // being short.
        let pk = (":pk", s(partition(tenant, tag, shard)));
        let query = match after {
            None => self.table.query("pk = :pk", [pk]),
            Some(after) => self.table.query("pk = :pk AND sk > :after", [pk, (":after", s(after.as_str()))]),
        };
        let mut pages = query.projection_expression("sk").limit(i32::from(most)).into_paginator().send();
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
        Ok(self.table.get(part_key(run, shard)).await?.as_ref().map(progress).unwrap_or_default())
    }

    async fn advance(&self, run: &Run, shard: u8, from: &Progress, to: &Progress) -> Result<bool, PortError> {
        // A call that was carried out without an answer is made again, and then the part is no longer where it was: by this token the
        // call recognises its own move.
        let token = request_token();
        let values = [
            (":after", or_null(to.after.as_ref().map(|id| s(id.as_str())))),
            (":recipients", n(to.recipients)),
            (":done", AttributeValue::Bool(to.done)),
            (":end", expiry(run.kept_until)),
            (":token", s(token.as_str())),
        ];
        let expression = "SET #after = :after, recipients = :recipients, done = :done, expires_at = :end, moved_by = :token";
        let update = self
            .table
            .update(part_key(&run.key, shard), expression, values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let update = match &from.after {
            None => update.condition_expression("attribute_not_exists(pk)"),
            Some(from) => update
                .condition_expression("#after = :from AND done = :not_done")
                .expression_attribute_values(":from", s(from.as_str()))
                .expression_attribute_values(":not_done", AttributeValue::Bool(false)),
        };
        Ok(match self.table.send(update).await? {
            Update::Done(_) => true,
            Update::Refused(item) => item.text("moved_by") == Some(&token),
        })
    }
}

/// A run, unless it has expired and DynamoDB has not deleted it yet.
fn kept(item: &Item, now: Timestamp) -> Result<Option<Run>, PortError> {
    if item.number("expires_at").is_some_and(|at| Timestamp::from_secs(at) <= now) {
        return Ok(None);
    }
    read(item).map(Some).ok_or_else(PortError::unreadable_run)
}

/// Reads an item; `None` if it is not one that this version wrote.
pub(super) fn read(item: &Item) -> Option<Run> {
    Some(Run {
        key: RunKey { tenant: Tenant::parse(item.text("tenant")?)?, id: RunId::parse(item.text("id")?)? },
        // The previous release gave a run its message's id.
        message: DeliveryId::parse(item.text("message").or_else(|| item.text("id"))?)?,
        lane: Lane::from_label(item.text("lane")?)?,
        body: Body::new(String::from_utf8(item.bytes("body")?.to_vec()).ok()?),
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
    fn an_item_of_another_form_is_unreadable_until_it_expires() {
        let mut item = run_key(&run().key);
        assert_eq!(read(&item), None);
        item.insert("body".to_owned(), b([0xff]));
        assert_eq!(read(&item), None);
        // It is not absent: messages that refer to it wait for a worker that can read it.
        assert_eq!(kept(&item, run().opened_at), Err(PortError::unreadable_run()));
        item.insert("expires_at".to_owned(), expiry(run().kept_until));
        assert_eq!(kept(&item, run().opened_at), Err(PortError::unreadable_run()));
        assert_eq!(kept(&item, run().kept_until), Ok(None));
    }

    #[test]
    fn a_run_of_the_previous_release_has_the_id_of_its_message() {
        let mut item = run_key(&run().key);
        item.extend(super::item([
            ("tenant", s("acme")),
            ("id", s("news")),
            ("lane", s("bulk")),
            ("body", b("{}")),
            ("opened_at", ms(run().opened_at)),
            ("expires_at", expiry(run().kept_until)),
        ]));
        let of = |item: &Item| read(item).map(|run| (run.key.id.to_string(), run.message.to_string()));
        assert_eq!(of(&item), Some(("news".to_owned(), "news".to_owned())));
        item.insert("id".to_owned(), s("r1"));
        item.insert("message".to_owned(), s("news"));
        assert_eq!(of(&item), Some(("r1".to_owned(), "news".to_owned())));
    }

    #[test]
    fn a_part_without_a_row_is_at_its_beginning() {
        assert_eq!(progress(&Item::new()), Progress::default());
    }
}
