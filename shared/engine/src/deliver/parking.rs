//! Parking: a message that waits longer than a queue can delay lies in its bucket until a release.
//!
//! The order makes sure that no message is forgotten: the bucket is registered before anything lies in it, and the execution is
//! started after; if it cannot be, the sweep releases the bucket. Where the put ended too late for the bucket's own release, the message is released here and now; where
//! the store has no room at the moment, the message hops through the queue until it has.

use super::Settings;
use super::fate::Fate;
use super::hand_off::{fate_of, send};
use crate::ports::{
    Clock, Environment, Outbox, ParkedItem, Parking, PortError, RegisteredBucket, Telemetry, WaitExecutions,
    WaitRegistry,
};
use redial_core::metric::Metric;
use redial_core::queue::{Outgoing, Queue};
use redial_core::route::hop;
use redial_core::wait::{Release, WaitBucket};

/// Parks these messages.
pub(crate) async fn park<E: Environment>(
    env: &E,
    settings: &Settings,
    items: Vec<(usize, WaitBucket, ParkedItem)>,
) -> Vec<(usize, Fate)> {
    let mut buckets: Vec<WaitBucket> = items.iter().map(|(_, bucket, _)| *bucket).collect();
    buckets.sort();
    buckets.dedup();
    let mut fates = Vec::with_capacity(items.len());
    for bucket in buckets {
        let own = items.iter().filter(|(_, of, _)| *of == bucket);
        let own: Vec<_> = own.map(|(index, _, item)| (*index, item.clone())).collect();
        fates.extend(park_in(env, settings, bucket, own).await);
    }
    fates
}

async fn park_in<E: Environment>(
    env: &E,
    settings: &Settings,
    bucket: WaitBucket,
    items: Vec<(usize, ParkedItem)>,
) -> Vec<(usize, Fate)> {
    let registered = RegisteredBucket { bucket, shards: settings.waits.shards };
    if let Err(error) = env.wait_registry().register(registered).await {
        return instead(env, settings, items, &error).await;
    }
    let put = env.parking().put(items.iter().map(|(_, item)| item.clone()).collect()).await;
    let mut fates = Vec::with_capacity(items.len());
    let mut parked = Vec::new();
    let mut refused = Vec::new();
    for ((index, item), put) in items.into_iter().zip(put) {
        match put {
            Ok(()) => parked.push((index, item)),
            Err(error) => refused.push((index, item, error)),
        }
    }
    for (index, item, error) in refused {
        fates.extend(instead(env, settings, vec![(index, item)], &error).await);
    }
    if parked.is_empty() {
        return fates;
    }
    let released = if env.clock().now() < bucket.start() {
        start(env, bucket).await;
        Ok(())
    } else {
        release_at_once(env, bucket).await
    };
    if released.is_ok() {
        env.telemetry().count(Metric::Parked, parked.len() as u64);
    }
    fates.extend(parked.into_iter().map(|(index, _)| (index, fate_of(env, released.clone()))));
    fates
}

/// Starts the execution that ends the bucket's wait. Its messages lie in a registered bucket by now, so that the sweep releases
/// them if it cannot be started: that makes them late, and is no reason to hold up what brought them here.
async fn start<E: Environment>(env: &E, bucket: WaitBucket) {
    if let Err(error) = env.wait_executions().ensure_running(bucket).await {
        env.telemetry().infrastructure(&error);
        env.telemetry().count(Metric::WaitsNotStarted, 1);
    }
}

/// What is done with messages that cannot be parked: throttled, they hop; else they come back.
async fn instead<E: Environment>(
    env: &E,
    settings: &Settings,
    items: Vec<(usize, ParkedItem)>,
    error: &PortError,
) -> Vec<(usize, Fate)> {
    if !error.throttled {
        return items.into_iter().map(|(index, _)| (index, fate_of(env, Err(error.clone())))).collect();
    }
    let now = env.clock().now();
    let hops = items
        .into_iter()
        .map(|(index, item)| {
            let delay = hop(item.not_before, now, &settings.waits);
            let queue = Queue::Retry(item.key.shard.bucket.lane());
            (index, Outgoing { queue, body: item.body, delay, tenant: Some(item.tenant) })
        })
        .collect();
    send(env, hops).await
}

/// Sends the release of a bucket whose time has come.
async fn release_at_once<E: Environment>(env: &E, bucket: WaitBucket) -> Result<(), PortError> {
    let release = Outgoing::release(Release::Bucket(bucket));
    env.outbox().send(vec![release]).await.into_iter().collect()
}
