//! How many messages are parked: in a bucket until a time, or in the line of an origin until that origin may be sent to again.
//!
//! The registry in the control table names every bucket and every line; a query that returns nothing but a number counts the
//! messages of a shard. It costs as much as reading them (half a read unit for each 4 KB, and for each empty shard), so counting
//! is bounded: some shards are counted, and the rest is reported as not counted.

use std::{collections::BTreeMap, fmt, iter::Sum};

use aws_sdk_dynamodb::{
    Client,
    types::{AttributeValue, Select},
};
use futures_util::{StreamExt as _, stream};
use redial_adapters::control_dynamo::DynamoControl;
use redial_core::{
    endpoint::Origin,
    line::{Line, LineShard},
};
use redial_engine::ports::{LineRegistry as _, Partition, RegisteredLine};

use crate::{
    aws_error::{AwsError, classified},
    stack::Target,
};

/// The most shards of buckets, and the most of lines, that are counted unless the caller asks for all: eight full buckets, or a
/// thousand with few messages.
pub(crate) const MOST_SHARDS: usize = 1_024;

/// Shards that are counted concurrently.
const SIDE_BY_SIDE: usize = 32;

/// The messages of some shards, as far as they were counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) messages: u64,
    /// Shards that were not counted.
    pub(crate) not_counted: usize,
    /// Shards of which only the first mebibyte was counted.
    pub(crate) in_part: usize,
}

impl Waiting {
    /// Whether there may be more messages: not all were counted.
    pub(crate) fn at_least(self) -> bool {
        self.not_counted > 0 || self.in_part > 0
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            not_counted: self.not_counted + other.not_counted,
            in_part: self.in_part + other.in_part,
        }
    }
}

impl Sum for Waiting {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::plus)
    }
}

impl fmt::Display for Waiting {
    /// `7`, or `≥7` if there may be more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = if self.at_least() { "≥" } else { "" };
        write!(f, "{at_least}{}", self.messages)
    }
}

/// The messages of one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InShard {
    pub(crate) messages: u64,
    pub(crate) is_whole: bool,
}

/// The shards that were counted, and why counting ended early.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) by_shard: BTreeMap<Partition, InShard>,
    pub(crate) error: Option<AwsError>,
}

impl Counts {
    pub(crate) fn of(&self, shards: impl IntoIterator<Item = impl Into<Partition>>) -> Waiting {
        let waiting = |shard: Partition| match self.by_shard.get(&shard) {
            None => Waiting { not_counted: 1, ..Waiting::default() },
            Some(InShard { messages, is_whole }) => {
                Waiting { messages: *messages, in_part: usize::from(!is_whole), ..Waiting::default() }
            }
        };
        shards.into_iter().map(|shard| waiting(shard.into())).sum()
    }
}

/// Counts the messages of these shards: `all` of them, or at most those of the first mebibyte of each.
pub(crate) async fn count(target: &Target, shards: impl IntoIterator<Item = Partition>, all: bool) -> Counts {
    let (client, table) = (target.dynamodb(), target.tables.parked.as_str());
    let counting = shards.into_iter().map(|shard| {
        let client = client.clone();
        async move {
            let count = in_shard(&client, table, &shard, all).await;
            (shard, count)
        }
    });
    let mut counting = stream::iter(counting).buffered(SIDE_BY_SIDE);
    let mut counts = Counts::default();
    while let (None, Some((shard, count))) = (&counts.error, counting.next().await) {
        match count {
            Ok(count) => drop(counts.by_shard.insert(shard, count)),
            Err(failed) => counts.error = Some(failed),
        }
    }
    counts
}

async fn in_shard(client: &Client, table: &str, shard: &Partition, all: bool) -> Result<InShard, AwsError> {
    let mut counted = InShard { messages: 0, is_whole: true };
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

/// What waits in each registered line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lines(BTreeMap<Line, Waiting>);

impl Lines {
    pub(crate) fn of(registered: &[RegisteredLine], counts: &Counts) -> Self {
        let waiting = |it: &RegisteredLine| (it.line.clone(), counts.of(it.line.shards(it.shards)));
        Self(registered.iter().map(waiting).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Line, Waiting)> {
        self.0.iter().map(|(line, waiting)| (line, *waiting))
    }

    /// What waits for an origin, on both lanes.
    pub(crate) fn at(&self, origin: &Origin) -> Waiting {
        self.iter().filter(|(line, _)| line.origin == *origin).map(|(_, waiting)| waiting).sum()
    }
}

pub(crate) async fn registered_lines(target: &Target) -> Result<Vec<RegisteredLine>, AwsError> {
    let registry = DynamoControl::new(target.dynamodb(), target.tables.control.clone());
    registry.lines().await.map_err(|error| AwsError::of_port(&error))
}

/// Counts what waits in lines, within the bound; also why counting ended early.
pub(crate) async fn lines(target: &Target) -> Result<(Lines, Option<AwsError>), AwsError> {
    let registered = registered_lines(target).await?;
    let shards = in_turn(&registered).into_iter().take(MOST_SHARDS).map(Partition::from);
    let counts = count(target, shards, false).await;
    Ok((Lines::of(&registered, &counts), counts.error))
}

/// The shards of all lines in turn: if there are too many to count, each line is counted in part, and the short ones are counted whole.
pub(crate) fn in_turn(registered: &[RegisteredLine]) -> Vec<LineShard> {
    let shards = registered.iter().flat_map(|it| it.line.shards(it.shards).enumerate());
    let mut shards: Vec<(usize, LineShard)> = shards.collect();
    shards.sort_by_key(|(place, _)| *place);
    shards.into_iter().map(|(_, shard)| shard).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use redial_core::time::Timestamp;

    use super::*;

    pub(crate) fn registered(line: &str, shards: u16) -> RegisteredLine {
        let line = Line::parse(line).expect("a line");
        RegisteredLine { line, shards, messages: 0, at: Timestamp::default() }
    }

    pub(crate) fn whole(messages: u64) -> InShard {
        InShard { messages, is_whole: true }
    }

    /// At least three messages wait for FCM, on both lanes; the shards of the partner's line were not counted.
    pub(crate) fn some() -> Lines {
        let registered = [
            registered("transactional#https://fcm.googleapis.com", 1),
            registered("bulk#https://fcm.googleapis.com", 2),
            registered("bulk#https://partner.example", 1),
        ];
        let shards = registered.iter().flat_map(|it| it.line.shards(it.shards)).map(Partition::from);
        let counted = [whole(1), whole(0), whole(0), whole(0), InShard { messages: 2, is_whole: false }];
        Lines::of(&registered, &Counts { by_shard: shards.zip(counted).collect(), error: None })
    }

    #[test]
    fn what_waits_for_an_origin_is_the_sum_of_its_lanes() {
        let at = |origin: &str| some().at(&Origin::parse(origin).expect("an origin"));
        let fcm = at("https://fcm.googleapis.com");
        assert_eq!(fcm, Waiting { messages: 3, not_counted: 1, in_part: 1 });
        assert_eq!((fcm.at_least(), fcm.to_string()), (true, "≥3".to_owned()));
        assert_eq!(at("https://partner.example"), Waiting { not_counted: 2, ..Waiting::default() });
        let none = at("https://other.example");
        assert_eq!((none.at_least(), none.to_string()), (false, "0".to_owned()));
    }

    #[test]
    fn a_long_line_leaves_room_to_count_the_others() {
        let lines = [registered("bulk#https://a.example", 100), registered("bulk#https://b.example", 1)];
        let shards = in_turn(&lines);
        assert_eq!(shards.len(), 202);
        let first: Vec<String> = shards.iter().take(5).map(ToString::to_string).collect();
        let expected = [
            "a.example#middle.000",
            "b.example#middle.000",
            "a.example#middle.001",
            "b.example#last.000",
            "a.example#middle.002",
        ];
        assert_eq!(first, expected.map(|it| format!("line#bulk#https://{it}")));
    }
}
