//! Waits in memory.

use std::time::Duration;

use redial_core::line::Line;
use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;
use redial_engine::ports::{
    LineRegistry, ParkedItem, ParkedKey, Parking, Partition, PortError, RegisteredBucket, RegisteredLine,
    WaitExecutions, WaitRegistry,
};

use super::items::{fits, others_of_parked};
use super::{Memory, State};

/// DynamoDB ends a page after a megabyte.
const PAGE_BYTES: usize = 1 << 20;

/// After this time, parts without their first part are removed when their partition is read.
const ABANDONED: Duration = Duration::from_secs(900);

impl Parking for Memory {
    /// The parts of long bodies but the first are stored before the first.
    async fn put(&self, items: Vec<ParkedItem>) -> Vec<Result<(), PortError>> {
        let first_put = {
            let mut state = self.state();
            state.long_puts += items.len();
            state.long_puts - items.len()
        };
        let others: Vec<(usize, Partition)> = (0..)
            .zip(&items)
            .flat_map(|(at, item)| vec![(at, item.key.partition.clone()); others_of_parked(&item.body)])
            .collect();
        let mut stored: Vec<Result<(), PortError>> = vec![Ok(()); items.len()];
        if !others.is_empty() {
            let shard = |(_, shard): &(usize, Partition)| Some(shard.to_string());
            let put = self.effect_on_each_at("park", others.clone(), shard, |state, (at, shard)| {
                state.unfinished.insert((shard, first_put + at), state.now);
            });
            for ((at, _), put) in others.into_iter().zip(put.await) {
                stored[at] = stored[at].clone().and(put);
            }
        }
        let firsts: Vec<(usize, ParkedItem)> = (first_put..)
            .zip(items)
            .zip(&stored)
            .filter(|(_, stored)| stored.is_ok())
            .map(|(item, _)| item)
            .collect();
        if firsts.is_empty() {
            return stored;
        }
        let shard = |(_, item): &(usize, ParkedItem)| Some(item.key.partition.to_string());
        let put = self.effect_on_each_at("park", firsts, shard, |state, (put, item)| {
            let first = if others_of_parked(&item.body) == 0 { item.body.len() } else { 0 };
            fits(first)?;
            state.unfinished.remove(&(item.key.partition.clone(), put));
            state.parked.insert(item.key.clone(), item);
            Ok(())
        });
        let mut put = put.await.into_iter().map(|put| put.and_then(|put| put));
        for stored in stored.iter_mut().filter(|stored| stored.is_ok()) {
            *stored = put.next().expect("invariant: an answer for each item");
        }
        stored
    }

    async fn holds_any(&self, partition: Partition) -> Result<bool, PortError> {
        self.effect_at("page", Some(partition.to_string()), |state| {
            state.parked.keys().any(|key| key.partition == partition)
                || state.unfinished.keys().any(|(of, _)| *of == partition)
        })
        .await
    }

    async fn page(&self, partition: Partition, limit: u16) -> Result<Vec<ParkedItem>, PortError> {
        self.effect_at("page", Some(partition.to_string()), |state| {
            let now = state.now;
            state.unfinished.retain(|(of, _), put_at| *of != partition || now.since(*put_at) <= ABANDONED);
            let own = state.parked.values().filter(|item| item.key.partition == partition);
            let mut bytes = 0;
            let is_on_it = |item: &&ParkedItem| {
                let is_first = bytes == 0;
                bytes += item.body.len();
                is_first || bytes <= PAGE_BYTES
            };
            own.take(usize::from(limit)).take_while(is_on_it).cloned().collect()
        })
        .await
    }

    async fn delete(&self, keys: Vec<ParkedKey>) -> Result<(), PortError> {
        self.effect("unpark", |state| {
            for key in &keys {
                state.parked.remove(key);
            }
        })
        .await
    }
}

fn registered(state: &mut State, bucket: WaitBucket) -> &mut RegisteredBucket {
    state.registered.entry(bucket).or_insert(RegisteredBucket { bucket, shards: 1, messages: 0 })
}

impl WaitRegistry for Memory {
    async fn register(&self, bucket: WaitBucket, messages: u64) -> Result<RegisteredBucket, PortError> {
        self.effect("register", |state| {
            let registered = registered(state, bucket);
            registered.messages += messages;
            *registered
        })
        .await
    }

    async fn divide(&self, bucket: WaitBucket, shards: u16) -> Result<(), PortError> {
        self.effect("divide", |state| {
            let registered = registered(state, bucket);
            registered.shards = registered.shards.max(shards);
        })
        .await
    }

    async fn shards_of(&self, bucket: WaitBucket) -> Result<Option<u16>, PortError> {
        self.effect("shards_of", |state| Some(state.registered.get(&bucket)?.shards)).await
    }

    async fn begun_before(&self, time: Timestamp) -> Result<Vec<RegisteredBucket>, PortError> {
        self.effect("begun_before", |state| {
            state.registered.values().filter(|it| it.bucket.start() < time).copied().collect()
        })
        .await
    }

    async fn forget(&self, bucket: RegisteredBucket) -> Result<(), PortError> {
        self.effect("forget", |state| {
            if state.registered.get(&bucket.bucket) == Some(&bucket) {
                state.registered.remove(&bucket.bucket);
            }
        })
        .await
    }
}

impl LineRegistry for Memory {
    async fn register_line(
        &self,
        line: Line,
        messages: u64,
        now: Timestamp,
    ) -> Result<RegisteredLine, PortError> {
        self.effect("register", |state| {
            let line = registered_line(state, &line);
            line.messages += messages;
            line.at = now;
            line.clone()
        })
        .await
    }

    async fn divide_line(&self, line: Line, shards: u16) -> Result<(), PortError> {
        self.effect("divide", |state| {
            let line = registered_line(state, &line);
            line.shards = line.shards.max(shards);
        })
        .await
    }

    async fn line(&self, line: Line) -> Result<Option<RegisteredLine>, PortError> {
        self.effect("line", |state| state.lines.get(&line).cloned()).await
    }

    async fn lines(&self) -> Result<Vec<RegisteredLine>, PortError> {
        self.effect("lines", |state| state.lines.values().cloned().collect()).await
    }

    async fn forget_line(&self, line: RegisteredLine) -> Result<(), PortError> {
        self.effect("forget", |state| {
            if state.lines.get(&line.line) == Some(&line) {
                state.lines.remove(&line.line);
            }
        })
        .await
    }
}

fn registered_line<'s>(state: &'s mut State, line: &Line) -> &'s mut RegisteredLine {
    let at = Timestamp::default();
    let new = || RegisteredLine { line: line.clone(), shards: 1, messages: 0, at };
    state.lines.entry(line.clone()).or_insert_with(new)
}

impl WaitExecutions for Memory {
    async fn ensure_running(&self, bucket: WaitBucket) -> Result<(), PortError> {
        self.effect("ensure_running", |state| {
            state.executions.insert(bucket);
        })
        .await
    }
}
