//! An operator's view of a message to an audience: its progress, and its cancellation.

use redial_core::audience::{Progress, Run, RunKey, SHARDS};
use redial_core::identity::{DeliveryKey, Tenant};
use redial_core::tag::Tag;
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock as _, PortError};

use super::{DynamoAudiences, partition, run_key, runs};
use crate::system::System;
use crate::table::all;
use crate::table::attributes::{Read, ms, s};

/// The progress of a message to an audience.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    pub run: Run,
    /// In order; a part that no worker has reached yet is at its beginning.
    pub parts: Vec<Progress>,
}

impl Standing {
    /// How many recipients it was queued for.
    pub fn recipients(&self) -> u64 {
        self.parts.iter().map(|part| part.recipients).sum()
    }

    /// How many parts are done.
    pub fn done(&self) -> usize {
        self.parts.iter().filter(|part| part.done).count()
    }
}

impl DynamoAudiences {
    /// The progress of this message as it was opened last; `None` if it is unknown or expired. Two reads of single items and one query.
    pub async fn standing(&self, key: &DeliveryKey) -> Result<Option<Standing>, PortError> {
        let Some(run) = self.current(key, System.now()).await? else { return Ok(None) };
        let values = [(":pk", s(format!("run#{}", run.key))), (":part", s("part#"))];
        let query = self.table.query("pk = :pk AND begins_with(sk, :part)", values);
        let mut parts = vec![Progress::default(); usize::from(SHARDS)];
        for item in all(query).await? {
            let number = item.text("sk").and_then(|sk| sk.strip_prefix("part#")?.parse::<usize>().ok());
            if let Some(part) = number.and_then(|number| parts.get_mut(number)) {
                *part = runs::progress(&item);
            }
        }
        Ok(Some(Standing { run, parts }))
    }

    /// Cancels a run: no further recipient gets it, not even one that is waiting for it. `false` if the run is unknown or expired.
    pub async fn cancel(&self, key: &RunKey, now: Timestamp) -> Result<bool, PortError> {
        let expression = "SET cancelled_at = if_not_exists(cancelled_at, :now)";
        let update = self.table.update(run_key(key), expression, [(":now", ms(now))]);
        let update = update.condition_expression("attribute_exists(pk)");
        Ok(self.table.send(update).await?.is_done())
    }

    /// How many subscriptions have a tag: a read unit for every 8 KiB of their ids.
    pub async fn count(&self, tenant: &Tenant, tag: &Tag) -> Result<u64, PortError> {
        let mut count = 0;
        for shard in 0..SHARDS {
            let query = self.table.query("pk = :pk", [(":pk", s(partition(tenant, tag, shard)))]);
            let query = query.projection_expression("sk").set_consistent_read(None);
            count += all(query).await?.len() as u64;
        }
        Ok(count)
    }
}
