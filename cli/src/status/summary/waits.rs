//! Parked messages, by when they are due.
//!
//! Messages that wait for longer than a queue can delay are parked in buckets of several shards. The registry in the control
//! table names every bucket; a query that returns nothing but a number counts the messages of a shard. It costs as much as
//! reading them (half a read unit for each 4 KB, and for each empty shard), so counting is bounded: the buckets that are due
//! first are counted, and the rest is reported as not counted.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    types::{AttributeValue, Select},
};
use futures_util::{StreamExt as _, stream};
use redial_adapters::control_dynamo::DynamoControl;
use redial_core::{
    lane::Lane,
    time::Timestamp,
    wait::{MAX_WAIT, Shard, WaitBucket},
};
use redial_engine::ports::{RegisteredBucket, WaitRegistry as _};

use crate::{
    aws_error::{AwsError, classified},
    stack::Target,
};

/// The most shards that are counted without `--all`: eight full buckets, or a thousand with few messages.
pub(super) const MOST_SHARDS: usize = 1_024;

/// Shards that are counted concurrently.
const SIDE_BY_SIDE: usize = 32;

/// After this time cleanup releases the messages of a bucket again.
const LATE_AFTER: Duration = redial_engine::cleanup::LATE_AFTER;

/// When messages are due, by the labels of JSON: too late, within these times, or later.
pub(super) const DUE: [&str; 7] = ["late", "1m", "15m", "1h", "6h", "24h", "later"];

/// The times, in seconds.
const WITHIN: [u64; 5] = [60, 900, 3_600, 21_600, 86_400];

/// The place in [`DUE`].
fn due(bucket: WaitBucket, now: Timestamp) -> usize {
    if now.since(bucket.start()) > LATE_AFTER {
        return 0;
    }
    // A bucket whose time has just passed is being released.
    let left = bucket.start().since(now).as_secs();
    1 + WITHIN.iter().filter(|within| left > **within).count()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Parked {
    pub(super) buckets: u64,
    pub(super) messages: u64,
    /// Whether there may be more messages: not all were counted.
    pub(super) at_least: bool,
}

impl Parked {
    fn plus(self, other: &Self) -> Self {
        Self {
            buckets: self.buckets + other.buckets,
            messages: self.messages + other.messages,
            at_least: self.at_least || other.at_least,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Waits {
    /// By lane and by [`DUE`].
    pub(super) parked: [[Parked; DUE.len()]; Lane::ALL.len()],
    /// How long the oldest late bucket is overdue.
    pub(super) late_for: Option<Duration>,
    /// In shards.
    pub(super) not_counted: usize,
    /// Shards of which only the first mebibyte was counted.
    pub(super) in_part: usize,
    /// Why counting ended early.
    pub(super) error: Option<AwsError>,
}

impl Waits {
    pub(super) fn of_lane(&self, lane: Lane) -> Parked {
        self.parked[lane as usize].iter().fold(Parked::default(), Parked::plus)
    }

    pub(super) fn late(&self) -> Parked {
        self.parked.iter().map(|lane| &lane[0]).fold(Parked::default(), Parked::plus)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counted {
    messages: u64,
    is_whole: bool,
}

/// Counts all parked messages, or those that are due first.
pub(super) async fn read(target: &Target, all: bool, now: Timestamp) -> Result<Waits, AwsError> {
    let client = target.dynamodb();
    let registry = DynamoControl::new(client.clone(), target.tables.control.clone());
    // No bucket begins later.
    let buckets = registry.begun_before(now.plus(MAX_WAIT * 2)).await;
    let buckets = buckets.map_err(|error| AwsError::of_port(&error))?;
    let most = if all { usize::MAX } else { MOST_SHARDS };
    let shards = buckets.iter().flat_map(|it| it.bucket.shards(it.shards)).take(most);
    let table = target.tables.parked.as_str();
    let counting = shards.map(|shard| {
        let client = client.clone();
        async move { (shard, count(&client, table, shard, all).await) }
    });
    let mut counting = stream::iter(counting).buffered(SIDE_BY_SIDE);
    let (mut counted, mut error) = (BTreeMap::new(), None);
    while let (None, Some((shard, count))) = (&error, counting.next().await) {
        match count {
            Ok(count) => drop(counted.insert(shard, count)),
            Err(failed) => error = Some(failed),
        }
    }
    Ok(Waits { error, ..tally(&buckets, &counted, now) })
}

/// Counts the messages of a shard: `all`, or those of its first mebibyte.
async fn count(client: &Client, table: &str, shard: Shard, all: bool) -> Result<Counted, AwsError> {
    let mut counted = Counted { messages: 0, is_whole: true };
    let mut after = None;
    loop {
        let response = client
            .query()
            .table_name(table)
            .select(Select::Count)
            .key_condition_expression("pk = :pk")
            // Only the first part of a long body has a time.
            .filter_expression("attribute_exists(not_before)")
            .expression_attribute_values(":pk", AttributeValue::S(shard.to_string()))
            .set_exclusive_start_key(after)
            .send()
            .await;
        let response = classified("dynamodb:Query", response)?;
        counted.messages += u64::try_from(response.count).unwrap_or(0);
        after = response.last_evaluated_key;
        counted.is_whole = after.is_none();
        if counted.is_whole || !all {
            return Ok(counted);
        }
    }
}

fn tally(buckets: &[RegisteredBucket], counted: &BTreeMap<Shard, Counted>, now: Timestamp) -> Waits {
    let mut waits = Waits::default();
    for registered in buckets {
        let bucket = registered.bucket;
        let due = due(bucket, now);
        let mut in_bucket = Parked { buckets: 1, ..Parked::default() };
        for shard in bucket.shards(registered.shards) {
            let Some(counted) = counted.get(&shard) else {
                waits.not_counted += 1;
                in_bucket.at_least = true;
                continue;
            };
            in_bucket.messages += counted.messages;
            if !counted.is_whole {
                waits.in_part += 1;
                in_bucket.at_least = true;
            }
        }
        if due == 0 && in_bucket.messages > 0 {
            waits.late_for = waits.late_for.max(Some(now.since(bucket.start())));
        }
        let parked = &mut waits.parked[bucket.lane() as usize][due];
        *parked = parked.plus(&in_bucket);
    }
    waits
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::parse_rfc3339("2026-11-21T10:00:30Z").expect("a time")
    }

    fn registered(lane: &str, start: &str, shards: u16) -> RegisteredBucket {
        let bucket = WaitBucket::parse(&format!("w60-{lane}-{start}")).expect("a bucket");
        RegisteredBucket { bucket, shards, messages: 0 }
    }

    /// Two late messages in a bulk bucket, three transactional ones that are due in an hour, and a shard not counted.
    pub(crate) fn some() -> Waits {
        let buckets = [
            registered("bulk", "20261121T095500Z", 2),
            registered("transactional", "20261121T104500Z", 2),
            registered("transactional", "20261122T104500Z", 2),
        ];
        let shards: Vec<Shard> = buckets.iter().flat_map(|it| it.bucket.shards(it.shards)).collect();
        let whole = |messages| Counted { messages, is_whole: true };
        let counts = [whole(0), whole(2), whole(1), whole(2), Counted { messages: 4, is_whole: false }];
        tally(&buckets, &shards.into_iter().zip(counts).collect(), now())
    }

    #[test]
    fn messages_are_grouped_by_lane_and_by_when_they_are_due() {
        let waits = some();
        let parked = |buckets, messages, at_least| Parked { buckets, messages, at_least };
        let of = |lane: Lane, due: &str| {
            waits.parked[lane as usize][DUE.iter().position(|it| *it == due).expect("a label")]
        };
        assert_eq!(of(Lane::Bulk, "late"), parked(1, 2, false));
        assert_eq!(of(Lane::Transactional, "1h"), parked(1, 3, false));
        assert_eq!(of(Lane::Transactional, "later"), parked(1, 4, true));
        assert_eq!(waits.of_lane(Lane::Transactional), parked(2, 7, true));
        assert_eq!((waits.late(), waits.late_for), (parked(1, 2, false), Some(Duration::from_secs(330))));
        assert_eq!((waits.not_counted, waits.in_part), (1, 1));
    }

    #[test]
    fn an_empty_bucket_is_never_late() {
        let buckets = [registered("bulk", "20261121T095500Z", 1)];
        let counted = buckets[0].bucket.shards(1).map(|it| (it, Counted { messages: 0, is_whole: true }));
        let waits = tally(&buckets, &counted.collect(), now());
        assert_eq!((waits.late().messages, waits.late_for), (0, None));
    }

    #[test]
    fn a_bucket_is_late_two_minutes_after_its_time() {
        for (start, expected) in [
            ("20261121T095800Z", "late"),
            ("20261121T095900Z", "1m"),
            ("20261121T100100Z", "1m"),
            ("20261121T100200Z", "15m"),
            ("20261121T101500Z", "15m"),
            ("20261121T101600Z", "1h"),
            ("20261121T160000Z", "6h"),
            ("20261122T100000Z", "24h"),
            ("20261122T100100Z", "later"),
        ] {
            assert_eq!(DUE[due(registered("bulk", start, 1).bucket, now())], expected, "{start}");
        }
    }
}
