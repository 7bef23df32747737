//! Where a message waits that may not be sent yet.
//!
//! Up to what SQS can delay it goes to its lane's retry queue; beyond that it is parked in a bucket of waits. SQS delays in
//! whole seconds, so the delay is rounded down and dispatch waits out the rest: that keeps the overhead on top of a planned
//! delay under a second.

use std::time::Duration;

use crate::lane::Lane;
use crate::time::Timestamp;
use crate::wait::{MAX_SHARDS, MAX_WAIT, WaitBucket};

/// SQS's own limit of DelaySeconds (SendMessage, API reference).
pub const SQS_MAX_DELAY_SECONDS: u16 = 900;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct DelaySeconds(u16);

impl DelaySeconds {
    pub const ZERO: Self = Self(0);

    pub const MOST: u16 = SQS_MAX_DELAY_SECONDS;

    /// The whole seconds of `delay`, at most `most` and never more than SQS takes.
    pub fn floor(delay: Duration, most: u16) -> Self {
        let secs = u16::try_from(delay.as_secs()).unwrap_or(u16::MAX);
        Self(secs.min(most).min(SQS_MAX_DELAY_SECONDS))
    }

    pub fn get(self) -> u16 {
        self.0
    }
}

/// Three pages of a release: a shard costs a message and a query, which are a few per cent of the calls for that many messages. A bucket
/// of 32,000 messages has all 128 shards, which take 128,000 writes a second and are released by a dozen workers and more.
const MESSAGES_A_SHARD: u32 = 256;

/// How waits are divided; the same in every function of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitSettings {
    /// The longest delay that is left to SQS, in seconds; at most [`SQS_MAX_DELAY_SECONDS`].
    pub sqs_max_delay: u16,
    pub bucket_secs: u32,
    /// The most shards that a bucket is divided into.
    pub shards: u16,
    /// A bucket gets another shard for each of this number of messages.
    pub messages_a_shard: u32,
}

impl Default for WaitSettings {
    fn default() -> Self {
        Self {
            sqs_max_delay: SQS_MAX_DELAY_SECONDS,
            bucket_secs: 60,
            shards: 128,
            messages_a_shard: MESSAGES_A_SHARD,
        }
    }
}

impl WaitSettings {
    /// Into how many shards a bucket is divided in which `messages` were put: a power of two, so that it grows seldom.
    pub fn shards_for(&self, messages: u64) -> u16 {
        let needed = messages.div_ceil(u64::from(self.messages_a_shard.max(1))).max(1);
        let needed = needed.checked_next_power_of_two().unwrap_or(u64::MAX);
        u16::try_from(needed).unwrap_or(u16::MAX).min(self.shards.clamp(1, MAX_SHARDS))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    Queue(DelaySeconds),
    Park(WaitBucket),
}

/// Buckets that are far away are few: who waits longer than the first comes back with all others of a span of the second, the third before
/// the first of them is due, and waits on from there. Each bucket is an execution, of which an account has a limit, so no tenant can
/// fill that by naming a minute each.
const COARSER: [(Duration, i64, Duration); 2] = [
    (Duration::from_secs(4 * 86_400), 86_400, Duration::from_secs(3600)),
    (Duration::from_secs(12 * 3600), 3600, Duration::from_secs(900)),
];

/// When a message that is not to be sent before `not_before` comes back to be routed again or sent.
fn comes_back(not_before: Timestamp, now: Timestamp) -> Timestamp {
    let wait = not_before.since(now);
    let coarser = COARSER.into_iter().find(|(further_than, ..)| wait > *further_than);
    coarser.map_or(not_before, |(_, span, before)| {
        Timestamp::from_secs(not_before.as_secs().div_euclid(span).saturating_mul(span)).minus(before)
    })
}

/// The way of a message of `lane` that is not to be sent before `not_before`.
pub fn route(lane: Lane, not_before: Timestamp, now: Timestamp, settings: &WaitSettings) -> Route {
    let delay = not_before.since(now);
    let most = settings.sqs_max_delay.min(SQS_MAX_DELAY_SECONDS);
    // What is due later than an execution can wait is parked for as long as one can, and then routed again.
    let until = comes_back(not_before, now).min(now.plus(MAX_WAIT));
    if delay >= Duration::from_secs(u64::from(most) + 1)
        && let Some(bucket) = WaitBucket::of(lane, until, settings.bucket_secs, now)
    {
        return Route::Park(bucket);
    }
    // Short enough; or due in a bucket that has begun, which only happens when buckets are longer than what SQS delays:
    // then the message comes back early, finds that it has to wait, and is routed again.
    Route::Queue(DelaySeconds::floor(delay, most))
}

/// The delay of a message that cannot be parked at the moment: it is routed again afterwards.
pub fn hop(not_before: Timestamp, now: Timestamp, settings: &WaitSettings) -> DelaySeconds {
    DelaySeconds::floor(not_before.since(now), settings.sqs_max_delay)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid")
    }

    fn of(delay_ms: u64) -> Route {
        route(Lane::Bulk, now().plus(Duration::from_millis(delay_ms)), now(), &WaitSettings::default())
    }

    #[test]
    fn the_queue_delays_up_to_900_seconds_and_longer_waits_are_parked() {
        for (ms, secs) in [(0, 0), (999, 0), (1_000, 1), (900_999, 900)] {
            assert_eq!(of(ms), Route::Queue(DelaySeconds(secs)), "{ms} ms");
        }
        assert!(matches!(of(901_000), Route::Park(_)));
        let past = route(Lane::Bulk, Timestamp::from_ms(0), now(), &WaitSettings::default());
        assert_eq!(past, Route::Queue(DelaySeconds(0)), "a time that has passed is no delay");
    }

    #[test]
    fn a_bucket_has_a_shard_for_each_256_messages_in_powers_of_two() {
        let settings = WaitSettings::default();
        let of = |messages| settings.shards_for(messages);
        assert_eq!([0, 1, 256, 257, 1_000, 10_000, 16_385].map(of), [1, 1, 1, 2, 4, 64, 128]);
        assert_eq!([300_000, u64::MAX].map(of), [128, 128]);
        let few = WaitSettings { shards: 5, messages_a_shard: 0, ..settings };
        assert_eq!([1, 2, 3, 4, 5].map(|messages| few.shards_for(messages)), [1, 2, 4, 4, 5]);
    }

    #[test]
    fn a_year_is_parked_twice() {
        let year = Duration::from_secs(365 * 86_400);
        let Route::Park(bucket) = of(u64::try_from(year.as_millis()).expect("small")) else {
            panic!("parked");
        };
        assert!(bucket.start() > now().plus(Duration::from_secs(359 * 86_400)));
    }

    #[test]
    fn far_buckets_are_few_and_end_before_the_first_of_their_messages_is_due() {
        let start = |minutes: u64| match of(minutes * 60_000 + 1) {
            Route::Park(bucket) => bucket.start().to_rfc3339(),
            Route::Queue(_) => panic!("parked"),
        };
        for (minutes, expected) in [
            (16, "2026-11-21T10:21:00.000Z"),
            (719, "2026-11-21T22:04:00.000Z"),
            (720, "2026-11-21T21:45:00.000Z"),
            (774, "2026-11-21T21:45:00.000Z"),
            (775, "2026-11-21T22:45:00.000Z"),
            (96 * 60, "2026-11-24T23:00:00.000Z"),
            (110 * 60, "2026-11-25T23:00:00.000Z"),
        ] {
            assert_eq!(start(minutes), expected, "{minutes}");
        }
        let buckets: std::collections::BTreeSet<String> = (16..360 * 1440).map(start).collect();
        println!("{} buckets for each minute of 360 days", buckets.len());
        assert!(buckets.len() < 720 + 96 + 360, "{}", buckets.len());
    }

    proptest! {
        #[test]
        fn every_delay_is_within_0_to_900_and_the_wait(
            delay in 0u64..40_000_000_000, most in 0u16..=u16::MAX, bucket_secs in 0u32..100_000,
        ) {
            let settings = WaitSettings { sqs_max_delay: most, bucket_secs, ..WaitSettings::default() };
            let due = now().plus(Duration::from_millis(delay));
            match route(Lane::Transactional, due, now(), &settings) {
                Route::Queue(secs) => {
                    prop_assert!(secs.get() <= 900);
                    prop_assert!(now().plus(Duration::from_secs(secs.get().into())) <= due);
                }
                Route::Park(bucket) => prop_assert!(bucket.start() > now() && bucket.start() <= due),
            }
        }
    }
}
