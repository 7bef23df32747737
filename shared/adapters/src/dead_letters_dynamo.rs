//! The dead-letter store on DynamoDB.
//!
//! Under `tenant#id` lie a letter's description (`<letter>`) and its body (`<letter>#body.000` and on: an SQS message may
//! be longer than a DynamoDB item). Descriptions are listed through the index `by_day`; bodies are found by the hour in which their time is over through the index
//! `bodies_by_hour`, because DynamoDB's own TTL, which is set as well, may be days late.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::dead_letter::{LetterBody, LetterKey, Reference};
use redial_core::ports::{DeadLetterBodies, DeadLetterStore, PortError};
use redial_core::time::Timestamp;

use crate::attributes::{Item, Read, expiry, ms, n, s};
use crate::write_units::WriteUnits;
use crate::{aws_error, batch_write};

/// Over how many partitions a tenant's day is spread.
const DAY_SHARDS: u32 = 4;

/// Over how many partitions an hour's bodies are spread.
const HOUR_SHARDS: u32 = 8;

/// How much of a body one item holds, in bytes: DynamoDB takes items of up to 400 KB.
const PART_BYTES: usize = 300_000;

/// How many hours back the sweep looks; what is older is left to DynamoDB's own TTL.
const HOURS_SWEPT: u32 = 48;

const HOUR: Duration = Duration::from_secs(3600);

/// The `dead_letters` table.
#[derive(Clone, Debug)]
pub struct DynamoDeadLetters {
    client: Client,
    table: String,
    units: WriteUnits,
}

impl DynamoDeadLetters {
    /// On this table: partition key `pk`, sort key `sk`; index `by_day` on `gsi_pk`, `gsi_sk`; index `bodies_by_hour` on
    /// `body_pk`, `body_sk` (all strings); TTL attribute `expires_at`.
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table, units: WriteUnits::default() }
    }

    /// With this meter of write units.
    #[must_use]
    pub fn metered(mut self, units: WriteUnits) -> Self {
        self.units = units;
        self
    }

    /// A letter's body, unless it counts as absent at `now`.
    pub async fn body(&self, key: &LetterKey, now: Timestamp) -> Result<Option<String>, PortError> {
        let parts = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("pk = :pk AND begins_with(sk, :body)")
            .expression_attribute_values(":pk", s(key.partition()))
            .expression_attribute_values(":body", s(format!("{}#body.", key.letter)))
            .consistent_read(true)
            .into_paginator()
            .items()
            .send()
            .collect::<Result<Vec<Item>, _>>()
            .await
            .map_err(|error| aws_error::of_call("Query", &error))?;
        let present = |item: &Item| item.time("absent_from").is_some_and(|from| now < from);
        if parts.is_empty() || !parts.iter().all(present) {
            return Ok(None);
        }
        Ok(Some(parts.iter().filter_map(|item| item.text("body")).collect()))
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
    async fn put(&self, bodies: Vec<LetterBody>) -> Vec<Result<(), PortError>> {
        let parts: Vec<Vec<Item>> = bodies.iter().map(body_items).collect();
        let mut counts: Vec<usize> = parts.iter().map(Vec::len).collect();
        let mut written =
            batch_write::put(&self.client, &self.units, &self.table, parts.into_iter().flatten().collect())
                .await;
        // A body is stored when all of its parts are.
        counts.drain(..).map(|count| written.drain(..count).collect()).collect()
    }
}

impl DeadLetterStore for DynamoDeadLetters {
    async fn describe(&self, reference: &Reference, now: Timestamp) -> Result<(), PortError> {
        let key = reference.letter_key();
        let at = Timestamp::from_ms(reference.at);
        let kept = Duration::from_secs(u64::from(reference.retention_days) * 86_400);
        let day = format!("{}#{}#{}", key.tenant, at.day(), shard(&key, DAY_SHARDS));
        let mut item: Item = HashMap::from([
            ("pk".to_owned(), s(key.partition())),
            ("sk".to_owned(), s(&key.letter)),
            ("gsi_pk".to_owned(), s(day)),
            ("gsi_sk".to_owned(), s(format!("{}#{}#{}", moment(at), key.id, key.letter))),
            ("expires_at".to_owned(), expiry(now.plus(kept))),
        ]);
        let described = serde_json::to_value(reference).expect("a reference is plain strings and numbers");
        for (name, value) in described.as_object().into_iter().flatten() {
            let value = match value {
                serde_json::Value::String(text) => s(text),
                serde_json::Value::Number(number) => n(number),
                serde_json::Value::Bool(truth) => AttributeValue::Bool(*truth),
                serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
                    continue;
                }
            };
            item.insert(name.clone(), value);
        }
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item)).send().await;
        put.map(|_| ()).map_err(|error| aws_error::of_call("PutItem", &error))
    }

    async fn delete_absent_bodies(&self, now: Timestamp, limit: u32) -> Result<u32, PortError> {
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
}

fn body_items(letter: &LetterBody) -> Vec<Item> {
    let LetterBody { key, body, absent_from } = letter;
    let hour = hour_key(*absent_from, shard(key, HOUR_SHARDS));
    let item = |(at, part): (usize, &str)| {
        let part_sort = format!("{}#body.{at:03}", key.letter);
        HashMap::from([
            ("pk".to_owned(), s(key.partition())),
            ("sk".to_owned(), s(&part_sort)),
            ("body".to_owned(), s(part)),
            ("absent_from".to_owned(), ms(*absent_from)),
            ("body_pk".to_owned(), s(&hour)),
            ("body_sk".to_owned(), s(format!("{}#{}#{part_sort}", moment(*absent_from), key.partition()))),
            ("expires_at".to_owned(), expiry(*absent_from)),
        ])
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

/// Thirteen digits of milliseconds, so that text order is the order of time.
fn moment(at: Timestamp) -> String {
    format!("{:013}", at.as_ms())
}

fn hour_key(at: Timestamp, shard: u32) -> String {
    let text = at.to_rfc3339();
    format!("{}#{shard}", &text[..13])
}

fn shard(key: &LetterKey, shards: u32) -> u32 {
    let text = format!("{}#{}", key.partition(), key.letter);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    u32::from(digest.as_ref()[0]) % shards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_cut_between_characters_and_whole_again() {
        for text in [String::new(), "a".repeat(PART_BYTES), "é".repeat(PART_BYTES + 7)] {
            let cut = parts(&text);
            assert!(cut.iter().all(|part| part.len() <= PART_BYTES));
            assert_eq!(cut.concat(), text);
        }
    }
}
