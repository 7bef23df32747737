//! Bodies: cut into parts, whole again, and found by the hour in which their time is over through the index
//! `bodies_by_hour`, because DynamoDB's own TTL, which is set as well, may be days late.

use std::collections::HashMap;
use std::time::Duration;

use redial_core::dead_letter::{DeadLetterBody, DeadLetterKey};
use redial_core::lane::Lane;
use redial_core::time::Timestamp;
use redial_engine::ports::{DeadLetterBodies, PortError};

use super::{DynamoDeadLetters, moment, shard};
use crate::attributes::{Item, Read, expiry, ms, s};
use crate::{aws_error, batch_write, query};

/// Over how many partitions an hour's bodies are spread.
const HOUR_SHARDS: u32 = 8;

/// How much of a body one item holds, in bytes: DynamoDB takes items of up to 400 KB.
const PART_BYTES: usize = 300_000;

/// How many hours back the sweep looks; what is older is left to DynamoDB's own TTL.
const HOURS_SWEPT: u32 = 48;

const HOUR: Duration = Duration::from_secs(3600);

/// A body that lies in the store, be its time over or not.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredBody {
    /// As it was stored. Never log it.
    pub body: String,
    /// The lane that its message travelled on; `None` where that is not known, as in bodies that earlier releases stored.
    pub lane: Option<Lane>,
    /// From when on it counts as absent, though it may lie there until the next sweep.
    pub absent_from: Timestamp,
}

impl std::fmt::Debug for StoredBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredBody").field("absent_from", &self.absent_from).finish_non_exhaustive()
    }
}

impl DynamoDeadLetters {
    /// A letter's body, unless it counts as absent at `now`.
    pub async fn body(&self, key: &DeadLetterKey, now: Timestamp) -> Result<Option<String>, PortError> {
        let stored = self.stored_body(key).await?;
        Ok(stored.filter(|stored| now < stored.absent_from).map(|stored| stored.body))
    }

    /// A letter's body as long as it lies in the store, also when it counts as absent already. For an operator who says so
    /// and for nobody else.
    pub async fn stored_body(&self, key: &DeadLetterKey) -> Result<Option<StoredBody>, PortError> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("pk = :pk AND begins_with(sk, :body)")
            .expression_attribute_values(":pk", s(key.partition()))
            .expression_attribute_values(":body", s(part_prefix(key)))
            .consistent_read(true);
        let parts = query::all(query).await?;
        // The first part whose time is over takes the others with it.
        let absent_from = parts.iter().map(|item| item.time("absent_from")).min().flatten();
        let body = || parts.iter().filter_map(|item| item.text("body")).collect();
        let lane = parts.first().and_then(lane_of);
        Ok(absent_from.map(|absent_from| StoredBody { body: body(), lane, absent_from }))
    }

    /// Deletes up to `limit` items of bodies that count as absent at `now`, and says how many.
    pub(super) async fn sweep_bodies(&self, now: Timestamp, limit: u32) -> Result<u32, PortError> {
        let mut deleted = 0;
        for back in 0..HOURS_SWEPT {
            for number in 0..HOUR_SHARDS {
                let hour = hour_key(now.minus(HOUR * back), number);
                let keys = self.absent(&hour, now, limit - deleted).await?;
                let found = u32::try_from(keys.len()).unwrap_or(u32::MAX);
                if found > 0 {
                    batch_write::delete(&self.client, &self.units, &self.table, keys).await?;
                    deleted += found;
                }
                if deleted >= limit {
                    return Ok(deleted);
                }
            }
        }
        Ok(deleted)
    }

    async fn absent(&self, hour: &str, now: Timestamp, limit: u32) -> Result<Vec<Item>, PortError> {
        let page = self
            .client
            .query()
            .table_name(&self.table)
            .index_name("bodies_by_hour")
            .key_condition_expression("body_pk = :hour AND body_sk < :now")
            .expression_attribute_values(":hour", s(hour))
            .expression_attribute_values(":now", s(moment(now)))
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .send()
            .await
            .map_err(|error| aws_error::of_call("Query", &error))?;
        let key = |item: &Item| {
            let part = |name: &str| Some((name.to_owned(), item.get(name)?.clone()));
            Some(HashMap::from([part("pk")?, part("sk")?]))
        };
        Ok(page.items().iter().filter_map(key).collect())
    }
}

impl DeadLetterBodies for DynamoDeadLetters {
    async fn put(&self, bodies: Vec<DeadLetterBody>) -> Vec<Result<(), PortError>> {
        let parts: Vec<Vec<Item>> = bodies.iter().map(body_items).collect();
        let mut counts: Vec<usize> = parts.iter().map(Vec::len).collect();
        let mut written =
            batch_write::put(&self.client, &self.units, &self.table, parts.into_iter().flatten().collect())
                .await;
        // A body is stored when all of its parts are.
        counts.drain(..).map(|count| written.drain(..count).collect()).collect()
    }
}

/// Between a letter's name and the number of a part of its body, in the sort key.
pub(super) const PART: &str = "#body.";

/// The lane that stands with a part of a body. One that this version does not know is none.
pub(super) fn lane_of(part: &Item) -> Option<Lane> {
    Lane::from_label(part.text("lane")?)
}

fn part_prefix(key: &DeadLetterKey) -> String {
    format!("{}{PART}", key.letter)
}

fn body_items(letter: &DeadLetterBody) -> Vec<Item> {
    let DeadLetterBody { key, body, lane, absent_from } = letter;
    let hour = hour_key(*absent_from, shard(key, HOUR_SHARDS));
    let item = |(at, part): (usize, &str)| {
        let part_sort = format!("{}{at:03}", part_prefix(key));
        let mut item = HashMap::from([
            ("pk".to_owned(), s(key.partition())),
            ("sk".to_owned(), s(&part_sort)),
            ("body".to_owned(), s(part)),
            ("absent_from".to_owned(), ms(*absent_from)),
            ("body_pk".to_owned(), s(&hour)),
            ("body_sk".to_owned(), s(format!("{}#{}#{part_sort}", moment(*absent_from), key.partition()))),
            ("expires_at".to_owned(), expiry(*absent_from)),
        ]);
        item.extend(lane.map(|lane| ("lane".to_owned(), s(lane.label()))));
        item
    };
    parts(body).into_iter().enumerate().map(item).collect()
}

/// Cuts a text into parts that fit an item each, between characters; at least one.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > PART_BYTES {
        let (part, more) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
        parts.push(part);
        rest = more;
    }
    parts.push(rest);
    parts
}

fn hour_key(at: Timestamp, shard: u32) -> String {
    let text = at.to_rfc3339();
    format!("{}#{shard}", &text[..13])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lane_stands_with_every_part_and_may_be_missing() {
        let key =
            DeadLetterKey { tenant: "acme".to_owned(), id: "d1".to_owned(), letter: "lineage-0".to_owned() };
        let body = "a".repeat(PART_BYTES + 1);
        for lane in [Some(Lane::Transactional), Some(Lane::Bulk), None] {
            let (key, body) = (key.clone(), body.clone());
            let letter = DeadLetterBody { key, body, lane, absent_from: Timestamp::from_ms(5) };
            let items = body_items(&letter);
            assert_eq!(items.iter().map(lane_of).collect::<Vec<_>>(), [lane, lane]);
        }
        assert_eq!(lane_of(&HashMap::from([("lane".to_owned(), s("express"))])), None);
    }

    #[test]
    fn a_body_is_cut_between_characters_and_whole_again() {
        for text in [String::new(), "a".repeat(PART_BYTES), "é".repeat(PART_BYTES + 7)] {
            let cut = parts(&text);
            assert!(cut.iter().all(|part| part.len() <= PART_BYTES));
            assert_eq!(cut.concat(), text);
        }
    }
}
