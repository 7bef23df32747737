//! Releases: the messages of a bucket whose time has come go on to their retry queue.
//!
//! A bucket's release becomes one message a shard, so that many workers share the work; a shard's messages are sent page by page,
//! and each page is deleted only after it was sent. Dying in between sends some of them twice, and the claim drops the second.

use super::acknowledgements::{Acknowledgement, Acknowledgements};
use super::park::Waits;
use super::settings::{Invocation, Settings};
use crate::ports::{Clock, Outbox, ParkedItem, Parking, PortError, Telemetry, WaitRegistry};
use redial_core::queue::{Outgoing, Queue};
use redial_core::route::DelaySeconds;
use redial_core::time::Timestamp;
use redial_core::wait::{Release, Shard};

/// How many parked messages are read, sent and deleted at a time.
const PAGE: u16 = 100;

/// Carries out these releases, one after the other.
pub(super) async fn release_all<E>(
    waits: &Waits<impl Parking, impl WaitRegistry, E>,
    outbox: &impl Outbox,
    clock: &impl Clock,
    telemetry: &impl Telemetry,
    settings: &Settings,
    invocation: &Invocation,
    releases: Vec<(usize, Release)>,
) -> Acknowledgements {
    let mut acknowledgements = Acknowledgements::default();
    for (place, release) in releases {
        let done = release_one(waits, outbox, clock, settings, invocation, release).await;
        acknowledgements.set(place, Acknowledgement::of(done, telemetry));
    }
    acknowledgements
}

async fn release_one<E>(
    waits: &Waits<impl Parking, impl WaitRegistry, E>,
    outbox: &impl Outbox,
    clock: &impl Clock,
    settings: &Settings,
    invocation: &Invocation,
    release: Release,
) -> Result<(), PortError> {
    let shard = match release {
        Release::Shard(shard) => shard,
        Release::Bucket(bucket) => {
            // The number of shards may have been changed while the bucket waited.
            let registered = waits.registry.shards_of(bucket).await?;
            let shards: Vec<Shard> =
                bucket.shards(registered.unwrap_or(0).max(settings.waits.shards)).collect();
            match shards[..] {
                [shard] => shard,
                _ => return outbox.send(shards.into_iter().map(again).collect()).await.into_iter().collect(),
            }
        }
    };
    drain(&waits.parking, outbox, clock, settings, invocation, shard).await
}

async fn drain(
    parking: &impl Parking,
    outbox: &impl Outbox,
    clock: &impl Clock,
    settings: &Settings,
    invocation: &Invocation,
    shard: Shard,
) -> Result<(), PortError> {
    loop {
        let now = clock.now();
        if invocation.is_ending(now) {
            return outbox.send(vec![again(shard)]).await.into_iter().collect();
        }
        let page = parking.page(shard, PAGE).await?;
        if page.is_empty() {
            return Ok(());
        }
        let sent = outbox.send(page.iter().map(|item| onward(item, now, settings)).collect()).await;
        let (gone, failed): (Vec<_>, Vec<_>) = page.into_iter().zip(sent).partition(|(_, sent)| sent.is_ok());
        parking.delete(gone.into_iter().map(|(item, _)| item.key).collect()).await?;
        failed.into_iter().next().map_or(Ok(()), |(_, failed)| failed)?;
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
