//! Releases: the messages of a bucket whose time has come go on to their retry queue.
//!
//! A bucket's release is answered by one message a shard, so that many workers share the work; a shard's messages are sent page
//! by page, and each page is deleted only after it was sent. Dying in between sends some of them twice, and the claim
//! drops the second.

use super::fate::Fate;
use super::hand_off::fate_of;
use super::{Invocation, RESERVE, Settings};
use crate::ports::{Clock, Environment, Outbox, ParkedItem, Parking, PortError, WaitRegistry};
use redial_core::queue::{Outgoing, Queue};
use redial_core::route::DelaySeconds;
use redial_core::time::Timestamp;
use redial_core::wait::{Release, Shard, WaitBucket};

/// How many parked messages are read, sent and deleted at a time.
const PAGE: u16 = 100;

/// Carries out these releases, one after the other.
pub(crate) async fn release_all<E: Environment>(
    env: &E,
    settings: &Settings,
    invocation: &Invocation,
    releases: Vec<(usize, Release)>,
) -> Vec<(usize, Fate)> {
    let mut fates = Vec::with_capacity(releases.len());
    for (index, release) in releases {
        let done = match release {
            Release::Bucket(bucket) => fan_out(env, settings, invocation, bucket).await,
            Release::Shard(shard) => drain(env, settings, invocation, shard).await,
        };
        fates.push((index, fate_of(env, done)));
    }
    fates
}

async fn fan_out<E: Environment>(
    env: &E,
    settings: &Settings,
    invocation: &Invocation,
    bucket: WaitBucket,
) -> Result<(), PortError> {
    // The number of shards may have been changed while the bucket waited.
    let registered = env.wait_registry().shards_of(bucket).await?;
    let shards = registered.unwrap_or(0).max(settings.waits.shards);
    if let [shard] = bucket.shards(shards).collect::<Vec<_>>().as_slice() {
        return drain(env, settings, invocation, *shard).await;
    }
    let releases = bucket.shards(shards).map(again).collect();
    env.outbox().send(releases).await.into_iter().collect()
}

async fn drain<E: Environment>(
    env: &E,
    settings: &Settings,
    invocation: &Invocation,
    shard: Shard,
) -> Result<(), PortError> {
    loop {
        let now = env.clock().now();
        if now.plus(RESERVE) >= invocation.deadline {
            return env.outbox().send(vec![again(shard)]).await.into_iter().collect();
        }
        let page = env.parking().page(shard, PAGE).await?;
        if page.is_empty() {
            return Ok(());
        }
        let messages = page.iter().map(|item| onward(item, now, settings)).collect();
        let sent = env.outbox().send(messages).await;
        let (gone, failed): (Vec<_>, Vec<_>) = page.into_iter().zip(sent).partition(|(_, sent)| sent.is_ok());
        let keys = gone.into_iter().map(|(item, _)| item.key).collect();
        env.parking().delete(keys).await?;
        if let Some((_, Err(error))) = failed.into_iter().next() {
            return Err(error);
        }
    }
}

fn onward(item: &ParkedItem, now: Timestamp, settings: &Settings) -> Outgoing {
    Outgoing {
        queue: Queue::Retry(item.key.shard.bucket.lane()),
        body: item.body.clone(),
        delay: DelaySeconds::floor(item.not_before.since(now), settings.waits.sqs_max_delay),
        tenant: Some(item.tenant.clone()),
    }
}

fn again(shard: Shard) -> Outgoing {
    Outgoing::release(Release::Shard(shard))
}
