//! Long waits: a message that waits longer than a queue can delay lies in its bucket until a release.
//!
//! The order makes sure that no message is forgotten: the bucket is registered before anything lies in it, and the execution is
//! started after; if it cannot be, the sweep releases the bucket. Where the put ended too late for the bucket's own release, the
//! message is released at once; where the store has no room at the moment, the message hops through the queue until it has.
//!
//! A bucket is divided into more shards as it fills, so that it can be written and released by many workers side by side. Each shard is
//! registered before anything lies in it, and the number only grows: a release visits those that are registered.
//!
//! A release sends the messages of a bucket whose time has come on to their retry queue.
//!
//! A bucket's release becomes one message a shard, so that many workers share the work; a shard's messages are sent page by page,
//! and each page is deleted only after it was sent. Dying in between sends some of them twice, and the claim drops the second.

use super::acknowledgements::{Acknowledgement, Acknowledgements};
use super::shards::Ask;
use super::worker::{Invocation, Ports, Settings, Worker};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::ports::{
    Clock, Outbox, ParkedItem, ParkedKey, Parking, PortError, Telemetry, WaitExecutions, WaitRegistry,
};
use redial_core::identity::{DeliveryKey, Turn};
use redial_core::metric::Metric;
use redial_core::queue::{Outgoing, Queue};
use redial_core::quota::Quota;
use redial_core::route::{DelaySeconds, hop};
use redial_core::setback::Setback;
use redial_core::time::Timestamp;
use redial_core::wait::{Release, Shard, WaitBucket};

pub(super) struct Waiting {
    pub(super) place: usize,
    pub(super) bucket: WaitBucket,
    pub(super) delivery: DeliveryKey,
    pub(super) turn: Turn,
    pub(super) deferred_from: Option<String>,
    pub(super) not_before: Timestamp,
    /// Whether it was received before: it may have been sent on, and another one sent on would multiply it.
    pub(super) came_before: bool,
    /// The travelling body. Never log it.
    pub(super) body: String,
}

impl Waiting {
    /// How it lies in a bucket of `shards`.
    fn item(&self, shards: u16) -> ParkedItem {
        let shard = self.bucket.shard_of(&self.delivery, shards);
        ParkedItem {
            key: ParkedKey::new(shard, &self.delivery, self.turn, self.deferred_from.as_deref()),
            tenant: self.delivery.tenant.clone(),
            not_before: self.not_before,
            body: self.body.clone(),
        }
    }
}

/// What became of a message that was to be parked.
type Put = Result<Shard, PortError>;

impl<P: Ports> Worker<P> {
    pub(super) async fn park(&self, mut waiting: Vec<Waiting>) -> Acknowledgements {
        let Self { settings, system: clock, telemetry, .. } = self;
        let mut acknowledgements = Acknowledgements::default();
        let mut throttled = Vec::new();
        let mut counted = Vec::new();
        waiting.sort_unstable_by_key(|it| (it.bucket, it.place));
        for own in waiting.chunk_by(|one, other| one.bucket == other.bucket) {
            let bucket = own[0].bucket;
            let mut parked = Vec::new();
            let mut shards = BTreeSet::new();
            for (it, put) in own.iter().zip(self.put(bucket, own).await) {
                match put {
                    Ok(shard) => {
                        counted.push((it.delivery.tenant.clone(), bucket.start()));
                        parked.push(it.place);
                        shards.insert(shard);
                    }
                    Err(error) if error.throttled => throttled.push(it),
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
                // Its own release may be over, and the bucket forgotten.
                self.send_all(shards.into_iter().map(again).collect()).await
            };
            if released.is_ok() {
                telemetry.count(Metric::Parked, parked.len() as u64);
            }
            let acknowledged = |place| (place, Acknowledgement::of(released.clone(), telemetry));
            acknowledgements.extend(parked.into_iter().map(acknowledged));
        }
        let now = clock.now();
        let mut hops = Vec::new();
        for it in throttled {
            let delay = hop(it.not_before, now, &settings.waits);
            if it.came_before {
                let until = now.plus(Duration::from_secs(delay.get().into()));
                acknowledgements.comes_back(it.place, Setback::HeldBack { until });
                continue;
            }
            let queue = Queue::Retry(it.bucket.lane());
            let (body, tenant) = (it.body.clone(), Some(it.delivery.tenant.clone()));
            hops.push((it.place, Outgoing { queue, body, delay, tenant, attribute: None }));
        }
        // Counted once they are there: a worker that dies before puts them again, and counts them then.
        let counting = self.quota_guard.add(&self.quotas, telemetry, Quota::Parked, counted);
        let (hopped, ()) = futures_util::join!(self.send(hops), counting);
        acknowledgements.extend(hopped);
        acknowledgements
    }

    /// Puts these in as many shards as their bucket has; in all that it can have where it has no room.
    async fn put(&self, bucket: WaitBucket, own: &[Waiting]) -> Vec<Put> {
        let shards = match self.shards_for(bucket, own.len() as u64).await {
            Ok(shards) => shards,
            Err(error) => return vec![Err(error); own.len()],
        };
        let mut put = self.put_in(shards, own.iter()).await;
        let most = self.settings.waits.shards;
        let is_throttled = |put: &Put| put.as_ref().is_err_and(|error| error.throttled);
        // A partition takes 1,000 writes a second: this bucket has outgrown its shards.
        if shards < most && put.iter().any(is_throttled) && self.divide(bucket, most).await {
            let again = own.iter().zip(&put).filter(|(_, put)| is_throttled(put)).map(|(it, _)| it);
            let mut again = self.put_in(most, again).await.into_iter();
            for put in put.iter_mut().filter(|put| is_throttled(put)) {
                *put = again.next().expect("a put is answered for every item");
            }
        }
        put
    }

    async fn put_in(&self, shards: u16, own: impl Iterator<Item = &Waiting>) -> Vec<Put> {
        let own: Vec<&Waiting> = own.collect();
        let items: Vec<ParkedItem> = own.iter().map(|it| it.item(shards)).collect();
        let used: Vec<Shard> = own.iter().map(|it| it.bucket.shard_of(&it.delivery, shards)).collect();
        let put = self.parking.put(items).await;
        put.into_iter().zip(used).map(|(put, shard)| put.map(|()| shard)).collect()
    }

    /// Over how many shards messages are spread that are about to be put in this bucket. It is registered with them.
    async fn shards_for(&self, bucket: WaitBucket, messages: u64) -> Result<u16, PortError> {
        let waits = &self.settings.waits;
        let messages = match self.known_buckets.ask(&bucket, messages, waits.shards, self.system.now()) {
            Ask::Known(shards) => return Ok(shards),
            Ask::Report(messages) => messages,
        };
        let registered = self.wait_registry.register(bucket, messages).await?;
        self.known_buckets.learn(bucket, registered.shards, bucket.start(), self.system.now());
        let wanted = waits.shards_for(registered.messages);
        let is_divided = wanted > registered.shards && self.divide(bucket, wanted).await;
        Ok(if is_divided { wanted } else { registered.shards })
    }

    /// Whether the bucket is divided into `shards`. If it cannot be, it goes on with those that it has.
    async fn divide(&self, bucket: WaitBucket, shards: u16) -> bool {
        match self.wait_registry.divide(bucket, shards).await {
            Ok(()) => {
                self.known_buckets.learn(bucket, shards, bucket.start(), self.system.now());
                true
            }
            Err(error) => {
                self.telemetry.infrastructure(&error);
                false
            }
        }
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
pub(super) const PAGE: u16 = 100;

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
            Release::Line(release) => self.release_line(invocation, release).await,
            Release::Bucket(bucket) => {
                let registered = self.wait_registry.shards_of(bucket).await?;
                // A bucket that is not registered was forgotten; a worker of an earlier release may have put something in it since.
                let shards = registered.unwrap_or(self.settings.waits.shards);
                let shards: Vec<Shard> = bucket.shards(shards).collect();
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
        loop {
            let now = self.system.now();
            if invocation.is_ending(now) {
                return self.send_all(vec![again(shard)]).await;
            }
            let page = self.parking.page(shard.into(), PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            self.send_on(page, |_, item| item.not_before.since(now)).await?;
        }
    }

    /// Sends a page to its retry queue, each of it after the delay for its number, and deletes those that were sent. Of copies in a line one is
    /// sent for all: a message that leaves its line and joins it again, while receives are doubled, would become more with each lap.
    pub(super) async fn send_on(
        &self,
        page: Vec<ParkedItem>,
        after: impl Fn(usize, &ParkedItem) -> Duration,
    ) -> Result<(), PortError> {
        if page.is_empty() {
            return Ok(());
        }
        let (sending, mut copies) = apart(page);
        let delayed = |(nth, item): (usize, &ParkedItem)| onward(item, after(nth, item), &self.settings);
        let sent = self.outbox.send(sending.iter().enumerate().map(delayed).collect()).await;
        copies.retain(|(first, _)| sent.get(*first).is_some_and(Result::is_ok));
        let (gone, failed): (Vec<_>, Vec<_>) =
            sending.into_iter().zip(sent).partition(|(_, sent)| sent.is_ok());
        let gone = gone.into_iter().map(|(item, _)| item.key);
        self.parking.delete(gone.chain(copies.into_iter().map(|(_, key)| key)).collect()).await?;
        failed.into_iter().next().map_or(Ok(()), |(_, failed)| failed)
    }
}

/// A page without copies, and the keys of those, each with the number of the one that is sent for it.
fn apart(page: Vec<ParkedItem>) -> (Vec<ParkedItem>, Vec<(usize, ParkedKey)>) {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let (mut sending, mut copies) = (Vec::new(), Vec::new());
    for item in page {
        let next = sending.len();
        let first = item.key.place().map_or(next, |place| *places.entry(place.to_owned()).or_insert(next));
        if first == next { sending.push(item) } else { copies.push((first, item.key)) }
    }
    (sending, copies)
}

/// A parked message on its retry queue.
fn onward(item: &ParkedItem, after: Duration, settings: &Settings) -> Outgoing {
    Outgoing {
        queue: Queue::Retry(item.key.partition.lane()),
        body: item.body.clone(),
        delay: DelaySeconds::floor(after, settings.waits.sqs_max_delay),
        tenant: Some(item.tenant.clone()),
        attribute: None,
    }
}

fn again(shard: Shard) -> Outgoing {
    Outgoing::release(Release::Shard(shard))
}
