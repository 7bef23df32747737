//! Long waits: a message that waits longer than a queue can delay lies in its bucket until a release.
//!
//! The order makes sure that no message is forgotten: the bucket is registered before anything lies in it, and the execution is
//! started after; if it cannot be, the sweep releases the bucket. Where the put ended too late for the bucket's own release, the
//! message is released at once; where the store has no room at the moment, the message hops through the queue until it has.
//!
//! A release sends the messages of a bucket whose time has come on to their retry queue.
//!
//! A bucket's release becomes one message a shard, so that many workers share the work; a shard's messages are sent page by page,
//! and each page is deleted only after it was sent. Dying in between sends some of them twice, and the claim drops the second.

use super::acknowledgements::{Acknowledgement, Acknowledgements};
use super::worker::{Invocation, Ports, Settings, Worker};
use crate::ports::{
    Clock, Outbox, ParkedItem, Parking, PortError, RegisteredBucket, Telemetry, WaitExecutions, WaitRegistry,
};
use redial_core::metric::Metric;
use redial_core::queue::{Outgoing, Queue};
use redial_core::quota::Quota;
use redial_core::route::{DelaySeconds, hop};
use redial_core::time::Timestamp;
use redial_core::wait::{Release, Shard, WaitBucket};

pub(super) struct Waiting {
    pub(super) place: usize,
    pub(super) bucket: WaitBucket,
    pub(super) item: ParkedItem,
}

impl<P: Ports> Worker<P> {
    pub(super) async fn park(&self, mut waiting: Vec<Waiting>) -> Acknowledgements {
        let Self { settings, system: clock, telemetry, .. } = self;
        let mut acknowledgements = Acknowledgements::default();
        let mut throttled = Vec::new();
        let mut counted = Vec::new();
        waiting.sort_by_key(|it| it.bucket);
        for own in waiting.chunk_by(|one, other| one.bucket == other.bucket) {
            let bucket = own[0].bucket;
            let registered = RegisteredBucket { bucket, shards: settings.waits.shards };
            let put = match self.wait_registry.register(registered).await {
                Ok(()) => self.parking.put(own.iter().map(|it| it.item.clone()).collect()).await,
                Err(error) => vec![Err(error); own.len()],
            };
            let mut parked = Vec::new();
            for (it, put) in own.iter().zip(put) {
                match put {
                    Ok(()) => {
                        counted.push((it.item.tenant.clone(), bucket.start()));
                        parked.push(it.place);
                    }
                    Err(error) if error.throttled => throttled.push((it.place, &it.item)),
                    Err(error) => acknowledgements.failed(it.place, error, telemetry),
                }
            }
            if parked.is_empty() {
                continue;
            }
            let released = if clock.now() < bucket.start() {
                self.start(bucket).await;
                Ok(())
            } else {
                let release = Outgoing::release(Release::Bucket(bucket));
                self.send_all(vec![release]).await
            };
            if released.is_ok() {
                telemetry.count(Metric::Parked, parked.len() as u64);
            }
            let acknowledged = |place| (place, Acknowledgement::of(released.clone(), telemetry));
            acknowledgements.extend(parked.into_iter().map(acknowledged));
        }
        let now = clock.now();
        let hops = throttled.into_iter().map(|(place, item)| {
            let delay = hop(item.not_before, now, &settings.waits);
            let queue = Queue::Retry(item.key.shard.bucket.lane());
            let (body, tenant) = (item.body.clone(), Some(item.tenant.clone()));
            (place, Outgoing { queue, body, delay, tenant })
        });
        // Counted once they are there: a worker that dies before puts them again, and counts them then.
        let counting = self.quota_guard.add(&self.quotas, telemetry, Quota::Parked, counted);
        let (hopped, ()) = futures_util::join!(self.send(hops.collect()), counting);
        acknowledgements.extend(hopped);
        acknowledgements
    }

    /// Starts the execution that ends the bucket's wait. Its messages lie in a registered bucket by now, so that the sweep releases
    /// them if it cannot be started: that makes them late, and is no reason to hold up what brought them here.
    async fn start(&self, bucket: WaitBucket) {
        if let Err(error) = self.wait_executions.ensure_running(bucket).await {
            self.telemetry.infrastructure(&error);
            self.telemetry.count(Metric::WaitsNotStarted, 1);
        }
    }
}

/// How many parked messages are read, sent and deleted at a time.
const PAGE: u16 = 100;

impl<P: Ports> Worker<P> {
    /// Carries out these releases, one after the other.
    pub(super) async fn release_all(
        &self,
        invocation: &Invocation,
        releases: Vec<(usize, Release)>,
    ) -> Acknowledgements {
        let mut acknowledgements = Acknowledgements::default();
        for (place, release) in releases {
            let done = self.release(invocation, release).await;
            acknowledgements.set(place, Acknowledgement::of(done, &self.telemetry));
        }
        acknowledgements
    }

    async fn release(&self, invocation: &Invocation, release: Release) -> Result<(), PortError> {
        match release {
            Release::Shard(shard) => self.drain(invocation, shard).await,
            Release::Bucket(bucket) => {
                // The number of shards may have been changed while the bucket waited.
                let registered = self.wait_registry.shards_of(bucket).await?.unwrap_or(0);
                let shards: Vec<Shard> = bucket.shards(registered.max(self.settings.waits.shards)).collect();
                match shards[..] {
                    [shard] => self.drain(invocation, shard).await,
                    _ => self.fan_out(invocation, shards).await,
                }
            }
        }
    }

    /// Sends a release for each of these shards. A shard whose release could not be sent is drained by this worker: if all of them were
    /// sent again for its sake, a bucket of many shards would be released over and over while a share of the calls fails.
    async fn fan_out(&self, invocation: &Invocation, shards: Vec<Shard>) -> Result<(), PortError> {
        let sent = self.outbox.send(shards.iter().copied().map(again).collect()).await;
        for (shard, sent) in shards.into_iter().zip(sent) {
            if let Err(error) = sent {
                self.telemetry.infrastructure(&error);
                self.drain(invocation, shard).await?;
            }
        }
        Ok(())
    }

    async fn drain(&self, invocation: &Invocation, shard: Shard) -> Result<(), PortError> {
        let Self { settings, system, outbox, parking, .. } = self;
        loop {
            let now = system.now();
            if invocation.is_ending(now) {
                return self.send_all(vec![again(shard)]).await;
            }
            let page = parking.page(shard, PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            let sent = outbox.send(page.iter().map(|item| onward(item, now, settings)).collect()).await;
            let (gone, failed): (Vec<_>, Vec<_>) =
                page.into_iter().zip(sent).partition(|(_, sent)| sent.is_ok());
            parking.delete(gone.into_iter().map(|(item, _)| item.key).collect()).await?;
            failed.into_iter().next().map_or(Ok(()), |(_, failed)| failed)?;
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
