//! What an operator does: looks how far a message to an audience is, and calls it off.

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use redial_core::audience::{Progress, Run, RunKey, SHARDS};
use redial_core::identity::{DeliveryKey, Tenant};
use redial_core::tag::Tag;
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock as _, PortError};

use super::{DynamoAudiences, partition, run_key, runs};
use crate::attributes::{Read, ms, s};
use crate::system::System;
use crate::{aws_error, query};

/// How far a message to an audience is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// It.
    pub run: Run,
    /// Its parts, from the first; one that nobody walked yet is at its beginning.
    pub parts: Vec<Progress>,
}

impl Standing {
    /// How many recipients it was handed on to.
    pub fn recipients(&self) -> u64 {
        self.parts.iter().map(|part| part.recipients).sum()
    }

    /// How many parts are walked to their end.
    pub fn done(&self) -> usize {
        self.parts.iter().filter(|part| part.done).count()
    }
}

impl DynamoAudiences {
    /// How far this message is, as it was opened last; `None` if it is not known (any more). Two reads of single items and one query.
    pub async fn standing(&self, key: &DeliveryKey) -> Result<Option<Standing>, PortError> {
        let Some(run) = self.current(key, System.now()).await? else { return Ok(None) };
        let query = self.client.query().table_name(&self.table).consistent_read(true);
        let query = query
            .key_condition_expression("pk = :pk AND begins_with(sk, :part)")
            .expression_attribute_values(":pk", s(format!("run#{}", run.key)))
            .expression_attribute_values(":part", s("part#"));
        let mut parts = vec![Progress::default(); usize::from(SHARDS)];
        for item in query::all(query).await? {
            let number = item.text("sk").and_then(|sk| sk.strip_prefix("part#")?.parse::<usize>().ok());
            if let Some(part) = number.and_then(|number| parts.get_mut(number)) {
                *part = runs::progress(&item);
            }
        }
        Ok(Some(Standing { run, parts }))
    }

    /// Calls a run off: nobody is handed it any more, and who was and is still waiting for it does not get it. `false` if it is
    /// not known (any more). What was called off stays so.
    pub async fn cancel(&self, key: &RunKey, now: Timestamp) -> Result<bool, PortError> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(run_key(key)))
            .update_expression("SET cancelled_at = if_not_exists(cancelled_at, :now)")
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_values(":now", ms(now));
        match update.send().await {
            Ok(_) => Ok(true),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(false),
                Some(_) | None => Err(aws_error::of_call("UpdateItem", &error)),
            },
        }
    }

    /// How many subscriptions bear a tag: a read unit for every 8 KiB of their ids.
    pub async fn count(&self, tenant: &Tenant, tag: &Tag) -> Result<u64, PortError> {
        let mut count = 0;
        for shard in 0..SHARDS {
            let query = self.client.query().table_name(&self.table).projection_expression("sk");
            let query = query
                .key_condition_expression("pk = :pk")
                .expression_attribute_values(":pk", s(partition(tenant, tag, shard)));
            count += query::all(query).await?.len() as u64;
        }
        Ok(count)
    }
}
