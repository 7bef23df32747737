//! Parked messages, by when they are due, and by what they wait for.
//!
//! Messages that wait for longer than a queue can delay are parked in buckets of several shards. Messages that an open breaker
//! holds back are parked in the line of their origin, and are due at no time. If there are too many shards to count
//! ([`crate::parked`]), the buckets that are due first are counted, and as many shards of lines.

use std::{iter::Sum, time::Duration};

use redial_adapters::control_dynamo::DynamoControl;
use redial_core::{
    lane::Lane,
    time::Timestamp,
    wait::{MAX_WAIT, WaitBucket},
};
use redial_engine::ports::{Partition, RegisteredBucket, RegisteredLine, WaitRegistry as _};

use crate::{
    aws_error::AwsError,
    parked::{self, Counts, Lines, MOST_SHARDS, Waiting},
    stack::Target,
};

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
    /// Buckets, or lines.
    pub(super) places: u64,
    pub(super) waiting: Waiting,
}

impl Parked {
    fn plus(self, other: Self) -> Self {
        Self { places: self.places + other.places, waiting: self.waiting.plus(other.waiting) }
    }
}

impl Sum for Parked {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::plus)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Waits {
    /// In buckets, by lane and by [`DUE`].
    pub(super) parked: [[Parked; DUE.len()]; Lane::ALL.len()],
    pub(super) lines: Lines,
    /// How long the oldest late bucket is overdue.
    pub(super) late_for: Option<Duration>,
    /// Why counting ended early.
    pub(super) error: Option<AwsError>,
}

impl Waits {
    /// What waits on a lane, for a time or for an origin.
    pub(super) fn of_lane(&self, lane: Lane) -> Waiting {
        let in_buckets = self.parked[lane as usize].iter().map(|it| it.waiting);
        in_buckets.chain([self.for_origins(lane).waiting]).sum()
    }

    /// What waits on a lane for origins.
    pub(super) fn for_origins(&self, lane: Lane) -> Parked {
        let lines = self.lines.iter().filter(|(line, _)| line.lane == lane);
        lines.map(|(_, waiting)| Parked { places: 1, waiting }).sum()
    }

    pub(super) fn all(&self) -> Waiting {
        Lane::ALL.map(|lane| self.of_lane(lane)).into_iter().sum()
    }

    pub(super) fn late(&self) -> Waiting {
        self.parked.iter().map(|lane| lane[0].waiting).sum()
    }
}

/// Counts all parked messages, or those that are due first and as many shards of lines.
pub(super) async fn read(target: &Target, all: bool, now: Timestamp) -> Result<Waits, AwsError> {
    let registry = DynamoControl::new(target.dynamodb(), target.tables.control.clone());
    // No bucket begins later.
    let buckets = registry.begun_before(now.plus(MAX_WAIT * 2)).await;
    let buckets = buckets.map_err(|error| AwsError::of_port(&error))?;
    let lines = parked::registered_lines(target).await?;
    let most = if all { usize::MAX } else { MOST_SHARDS };
    let in_buckets = buckets.iter().flat_map(|it| it.bucket.shards(it.shards)).take(most);
    let in_lines = parked::in_turn(&lines).into_iter().take(most);
    let shards = in_buckets.map(Partition::from).chain(in_lines.map(Partition::from));
    let counts = parked::count(target, shards, all).await;
    Ok(tally(&buckets, &lines, counts, now))
}

fn tally(buckets: &[RegisteredBucket], lines: &[RegisteredLine], counts: Counts, now: Timestamp) -> Waits {
    let mut waits = Waits { lines: Lines::of(lines, &counts), ..Waits::default() };
    for registered in buckets {
        let bucket = registered.bucket;
        let due = due(bucket, now);
        let waiting = counts.of(bucket.shards(registered.shards));
        if due == 0 && waiting.messages > 0 {
            waits.late_for = waits.late_for.max(Some(now.since(bucket.start())));
        }
        let parked = &mut waits.parked[bucket.lane() as usize][due];
        *parked = parked.plus(Parked { places: 1, waiting });
    }
    Waits { error: counts.error, ..waits }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::parked::{
        InShard,
        tests::{registered as line, whole},
    };

    fn now() -> Timestamp {
        Timestamp::parse_rfc3339("2026-11-21T10:00:30Z").expect("a time")
    }

    fn registered(lane: &str, start: &str, shards: u16) -> RegisteredBucket {
        let bucket = WaitBucket::parse(&format!("w60-{lane}-{start}")).expect("a bucket");
        RegisteredBucket { bucket, shards, messages: 0 }
    }

    fn counts(
        shards: impl IntoIterator<Item = Partition>,
        counted: impl IntoIterator<Item = InShard>,
    ) -> Counts {
        Counts { by_shard: shards.into_iter().zip(counted).collect(), error: None }
    }

    /// Two late messages in a bulk bucket, three transactional ones that are due in an hour, a shard not counted, and nine messages
    /// on the bulk lane that wait for two origins.
    pub(crate) fn some() -> Waits {
        let buckets = [
            registered("bulk", "20261121T095500Z", 2),
            registered("transactional", "20261121T104500Z", 2),
            registered("transactional", "20261122T104500Z", 2),
        ];
        let lines = [line("bulk#https://fcm.googleapis.com", 2), line("bulk#https://partner.example", 1)];
        let mut shards: Vec<Partition> =
            buckets.iter().flat_map(|it| it.bucket.shards(it.shards)).map(Partition::from).collect();
        shards.truncate(5);
        shards.extend(lines.iter().flat_map(|it| it.line.shards(it.shards)).map(Partition::from));
        let in_buckets = [whole(0), whole(2), whole(1), whole(2), InShard { messages: 4, is_whole: false }];
        let in_lines = [0, 3, 0, 5, 1, 0].map(whole);
        tally(&buckets, &lines, counts(shards, in_buckets.into_iter().chain(in_lines)), now())
    }

    /// As many messages as have the most digits, in each place of the transactional lane.
    pub(crate) fn wide() -> Waits {
        let part = |messages| InShard { messages, is_whole: false };
        let counted = [part(98_999); 7].into_iter().chain([part(49_000); 2]);
        let starts = ["21T0955", "21T1001", "21T1010", "21T1045", "21T1500", "22T0500", "23T0500"];
        let buckets = starts.map(|start| registered("transactional", &format!("202611{start}00Z"), 1));
        let lines = [line("transactional#https://fcm.googleapis.com", 1)];
        let shards = buckets.iter().flat_map(|it| it.bucket.shards(1)).map(Partition::from);
        let shards = shards.chain(lines.iter().flat_map(|it| it.line.shards(1)).map(Partition::from));
        tally(&buckets, &lines, counts(shards, counted), now())
    }

    #[test]
    fn messages_are_grouped_by_lane_and_by_when_they_are_due() {
        let waits = some();
        let waiting = |messages, not_counted, in_part| Waiting { messages, not_counted, in_part };
        let of = |lane: Lane, due: &str| {
            let parked = waits.parked[lane as usize][DUE.iter().position(|it| *it == due).expect("a label")];
            (parked.places, parked.waiting)
        };
        assert_eq!(of(Lane::Bulk, "late"), (1, waiting(2, 0, 0)));
        assert_eq!(of(Lane::Transactional, "1h"), (1, waiting(3, 0, 0)));
        assert_eq!(of(Lane::Transactional, "later"), (1, waiting(4, 1, 1)));
        assert_eq!(waits.of_lane(Lane::Transactional), waiting(7, 1, 1));
        assert_eq!((waits.late(), waits.late_for), (waiting(2, 0, 0), Some(Duration::from_secs(330))));
    }

    #[test]
    fn messages_that_wait_for_an_origin_count_in_the_lane_s_total() {
        let waits = some();
        let bulk = waits.for_origins(Lane::Bulk);
        assert_eq!((bulk.places, bulk.waiting.messages, bulk.waiting.at_least()), (2, 9, false));
        assert_eq!(waits.for_origins(Lane::Transactional), Parked::default());
        assert_eq!(waits.of_lane(Lane::Bulk).messages, 2 + 9);
        assert_eq!(waits.all(), Waiting { messages: 18, not_counted: 1, in_part: 1 });
    }

    #[test]
    fn an_empty_bucket_is_never_late() {
        let buckets = [registered("bulk", "20261121T095500Z", 1)];
        let counts = counts(buckets[0].bucket.shards(1).map(Partition::from), [whole(0)]);
        let waits = tally(&buckets, &[], counts, now());
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
