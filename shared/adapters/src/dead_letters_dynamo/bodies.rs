//! Bodies: cut into parts, joined again, and found by the hour in which they expire through the index `bodies_by_hour`, because
//! DynamoDB's own TTL, which is set as well, may be days late.

use std::time::Duration;

use redial_core::dead_letter::{DeadLetterBody, DeadLetterKey};
use redial_core::lane::Lane;
use redial_core::time::Timestamp;
use redial_engine::ports::{DeadLetterBodies, PortError};

use super::DynamoDeadLetters;
use super::items::{PART, key_of, lane_of, moment, shard};
use crate::table::attributes::{Item, Read, expiry, item, ms, s};
use crate::table::{all, page};

/// The partitions of an hour's bodies.
const HOUR_SHARDS: u32 = 8;

/// The bytes of a body in one item: DynamoDB takes items of up to 400 KB.
const PART_BYTES: usize = 300_000;

/// How many hours back the sweep looks; older bodies are left to DynamoDB's own TTL.
const HOURS_SWEPT: u32 = 48;

const HOUR: Duration = Duration::from_secs(3600);

/// A body in the store, expired or not.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredBody {
    /// As it was stored. Never log it.
    pub body: String,
    /// `None` where it is unknown, as in bodies that earlier releases stored.
    pub lane: Option<Lane>,
    /// From then on it counts as absent, though it stays until the next sweep.
    pub absent_from: Timestamp,
}

impl std::fmt::Debug for StoredBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredBody").field("absent_from", &self.absent_from).finish_non_exhaustive()
    }
}

impl DynamoDeadLetters {
    /// A dead letter's body, unless it counts as absent at `now`.
    pub async fn body(&self, key: &DeadLetterKey, now: Timestamp) -> Result<Option<String>, PortError> {
        let stored = self.stored_body(key).await?;
        Ok(stored.filter(|stored| now < stored.absent_from).map(|stored| stored.body))
    }

    /// A dead letter's body as long as it is in the store, even if it counts as absent. Only for an operator who asks for it.
    pub async fn stored_body(&self, key: &DeadLetterKey) -> Result<Option<StoredBody>, PortError> {
        let values = [(":pk", s(key.partition())), (":body", s(part_prefix(key)))];
        let parts = all(self.table.query("pk = :pk AND begins_with(sk, :body)", values)).await?;
        // The first part to expire makes the whole body absent.
        let absent_from = parts.iter().map(|item| item.time("absent_from")).min().flatten();
        let body = || parts.iter().filter_map(|item| item.text("body")).collect();
        let lane = parts.first().and_then(lane_of);
        Ok(absent_from.map(|absent_from| StoredBody { body: body(), lane, absent_from }))
    }

    /// Deletes up to `limit` items of bodies that count as absent at `now`; returns their number.
    pub(super) async fn sweep_bodies(&self, now: Timestamp, limit: u32) -> Result<u32, PortError> {
        let mut deleted = 0;
        for back in 0..HOURS_SWEPT {
            for number in 0..HOUR_SHARDS {
                let hour = hour_key(now.minus(HOUR * back), number);
                let values = [(":hour", s(hour)), (":now", s(moment(now)))];
                let condition = "body_pk = :hour AND body_sk < :now";
                let query = self.table.query_index("bodies_by_hour", condition, values);
                let page = page(query.limit(i32::try_from(limit - deleted).unwrap_or(i32::MAX))).await?;
                let keys: Vec<Item> = page.items().iter().map(key_of).collect();
                deleted += u32::try_from(keys.len()).unwrap_or(u32::MAX);
                self.table.delete_all(keys).await?;
                if deleted >= limit {
                    return Ok(deleted);
                }
            }
        }
        Ok(deleted)
    }
}

impl DeadLetterBodies for DynamoDeadLetters {
    async fn put(&self, bodies: Vec<DeadLetterBody>) -> Vec<Result<(), PortError>> {
        let parts: Vec<Vec<Item>> = bodies.iter().map(body_items).collect();
        let counts: Vec<usize> = parts.iter().map(Vec::len).collect();
        let mut written = self.table.put_all(parts.concat()).await;
        // A body is stored when all of its parts are.
        counts.into_iter().map(|count| written.drain(..count).collect()).collect()
    }
}

fn part_prefix(key: &DeadLetterKey) -> String {
    format!("{}{PART}", key.letter)
}

fn body_items(letter: &DeadLetterBody) -> Vec<Item> {
    let DeadLetterBody { key, body, lane, absent_from } = letter;
    let hour = hour_key(*absent_from, shard(key, HOUR_SHARDS));
    let item = |(at, part): (usize, &str)| {
        let part_sort = format!("{}{at:03}", part_prefix(key));
        let mut item = item([
            ("pk", s(key.partition())),
            ("sk", s(&part_sort)),
            ("body", s(part)),
            ("absent_from", ms(*absent_from)),
            ("body_pk", s(&hour)),
            ("body_sk", s(format!("{}#{}#{part_sort}", moment(*absent_from), key.partition()))),
            ("expires_at", expiry(*absent_from)),
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
    fn every_part_has_the_lane_if_there_is_one() {
        let key =
            DeadLetterKey { tenant: "acme".to_owned(), id: "d1".to_owned(), letter: "lineage-0".to_owned() };
        let body = "a".repeat(PART_BYTES + 1);
        for lane in [Some(Lane::Transactional), Some(Lane::Bulk), None] {
            let (key, body) = (key.clone(), body.clone());
            let letter = DeadLetterBody { key, body, lane, absent_from: Timestamp::from_ms(5) };
            let items = body_items(&letter);
            assert_eq!(items.iter().map(lane_of).collect::<Vec<_>>(), [lane, lane]);
        }
        assert_eq!(lane_of(&item([("lane", s("express"))])), None);
    }

    #[test]
    fn a_body_is_cut_between_characters_and_joined_again() {
        for text in [String::new(), "a".repeat(PART_BYTES), "é".repeat(PART_BYTES + 7)] {
            let cut = parts(&text);
            assert!(cut.iter().all(|part| part.len() <= PART_BYTES));
            assert_eq!(cut.concat(), text);
        }
    }
}
