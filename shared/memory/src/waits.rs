//! Waits in memory.

use redial_core::time::Timestamp;
use redial_core::wait::{Shard, WaitBucket};
use redial_engine::ports::{
    ParkedItem, ParkedKey, Parking, PortError, RegisteredBucket, WaitExecutions, WaitRegistry,
};

use super::Memory;

impl Parking for Memory {
    async fn put(&self, items: Vec<ParkedItem>) -> Vec<Result<(), PortError>> {
        self.effect_on_each("park", items, |state, item| {
            state.parked.insert(item.key.clone(), item);
        })
        .await
    }

    async fn page(&self, shard: Shard, limit: u16) -> Result<Vec<ParkedItem>, PortError> {
        self.effect("page", |state| {
            let own = state.parked.values().filter(|item| item.key.shard == shard);
            own.take(usize::from(limit)).cloned().collect()
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

impl WaitRegistry for Memory {
    async fn register(&self, bucket: RegisteredBucket) -> Result<(), PortError> {
        self.effect("register", |state| {
            let shards = state.registered.entry(bucket.bucket).or_default();
            *shards = (*shards).max(bucket.shards);
        })
        .await
    }

    async fn shards_of(&self, bucket: WaitBucket) -> Result<Option<u16>, PortError> {
        self.effect("shards_of", |state| state.registered.get(&bucket).copied()).await
    }

    async fn begun_before(&self, time: Timestamp) -> Result<Vec<RegisteredBucket>, PortError> {
        self.effect("begun_before", |state| {
            let begun = state.registered.iter().filter(|(bucket, _)| bucket.start() < time);
            begun.map(|(bucket, shards)| RegisteredBucket { bucket: *bucket, shards: *shards }).collect()
        })
        .await
    }

    async fn forget(&self, bucket: WaitBucket) -> Result<(), PortError> {
        self.effect("forget", |state| {
            state.registered.remove(&bucket);
        })
        .await
    }
}

impl WaitExecutions for Memory {
    async fn ensure_running(&self, bucket: WaitBucket) -> Result<(), PortError> {
        self.effect("ensure_running", |state| {
            state.executions.insert(bucket);
        })
        .await
    }
}
