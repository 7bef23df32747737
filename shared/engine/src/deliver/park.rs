//! Parking: a message that waits longer than a queue can delay lies in its bucket until a release.
//!
//! The order makes sure that no message is forgotten: the bucket is registered before anything lies in it, and the execution is
//! started after; if it cannot be, the sweep releases the bucket. Where the put ended too late for the bucket's own release, the
//! message is released at once; where the store has no room at the moment, the message hops through the queue until it has.

use super::acknowledgements::{Acknowledgement, Acknowledgements, send};
use super::settings::Settings;
use crate::ports::{
    Clock, Outbox, ParkedItem, Parking, PortError, RegisteredBucket, Telemetry, WaitExecutions, WaitRegistry,
};
use redial_core::metric::Metric;
use redial_core::queue::{Outgoing, Queue};
use redial_core::route::hop;
use redial_core::wait::{Release, WaitBucket};

/// Where waiting messages lie, and what ends their waits.
#[derive(Debug)]
pub struct Waits<P, R, E> {
    pub parking: P,
    pub registry: R,
    pub executions: E,
}

/// A message that waits in a bucket.
pub(super) struct Waiting {
    pub(super) place: usize,
    pub(super) bucket: WaitBucket,
    pub(super) item: ParkedItem,
}

pub(super) async fn park(
    waits: &Waits<impl Parking, impl WaitRegistry, impl WaitExecutions>,
    outbox: &impl Outbox,
    clock: &impl Clock,
    telemetry: &impl Telemetry,
    settings: &Settings,
    mut waiting: Vec<Waiting>,
) -> Acknowledgements {
    let mut acknowledgements = Acknowledgements::default();
    let mut throttled = Vec::new();
    waiting.sort_by_key(|it| it.bucket);
    for own in waiting.chunk_by(|one, other| one.bucket == other.bucket) {
        let bucket = own[0].bucket;
        let registered = RegisteredBucket { bucket, shards: settings.waits.shards };
        let put = match waits.registry.register(registered).await {
            Ok(()) => waits.parking.put(own.iter().map(|it| it.item.clone()).collect()).await,
            Err(error) => vec![Err(error); own.len()],
        };
        let mut parked = Vec::new();
        for (it, put) in own.iter().zip(put) {
            match put {
                Ok(()) => parked.push(it.place),
                Err(error) if error.throttled => throttled.push((it.place, &it.item)),
                Err(error) => acknowledgements.failed(it.place, error, telemetry),
            }
        }
        if parked.is_empty() {
            continue;
        }
        let released = if clock.now() < bucket.start() {
            start(&waits.executions, telemetry, bucket).await;
            Ok(())
        } else {
            let release = Outgoing::release(Release::Bucket(bucket));
            outbox.send(vec![release]).await.into_iter().collect::<Result<(), PortError>>()
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
    acknowledgements.extend(send(outbox, telemetry, hops.collect()).await);
    acknowledgements
}

/// Starts the execution that ends the bucket's wait. Its messages lie in a registered bucket by now, so that the sweep releases
/// them if it cannot be started: that makes them late, and is no reason to hold up what brought them here.
async fn start(executions: &impl WaitExecutions, telemetry: &impl Telemetry, bucket: WaitBucket) {
    if let Err(error) = executions.ensure_running(bucket).await {
        telemetry.infrastructure(&error);
        telemetry.count(Metric::WaitsNotStarted, 1);
    }
}
