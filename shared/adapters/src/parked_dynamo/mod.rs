//! Parked messages on DynamoDB: one partition for each shard of a bucket or line, no TTL. Only a release removes them. A body that is longer
//! than an item is cut into parts when it is put, and joined when a page is read.
//!
//! | sk | what |
//! |---|---|
//! | `<sort>` | a message, with its body, or with the first part of a long one, the number of parts and their token |
//! | `<sort>!<token>.001` and on | the other parts of a long body |
//!
//! What it keeps true:
//!
//! - The other parts are stored before the first: where there is a first part, there are all of them.
//! - Each put has a token of its own, so that parts of two puts of a message never mix.
//! - A message's parts follow it in the order of the sort keys: `!` comes before every character that a sort key can go on with.
//! - Parts without a message, which a worker left when it died, are removed once they are `ABANDONED`. Their partition is read until then:
//!   it is not empty.
//! - What cannot be read keeps nothing else from being released, and its parts stay. It is an error once nothing else lies there.
//! - The first part is not called `body`: a release that knows no parts refuses the message instead of sending a part of it.

use std::time::Duration;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::Select;
use redial_core::identity::Tenant;
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock as _, ParkedItem, ParkedKey, Parking, Partition, PortError};

use crate::aws_error;
use crate::system::System;
use crate::table::attributes::{Item, Read as _, b, key as row_key, ms, n, s};
use crate::table::{Table, on_a_table, page, request_token};

/// The longest body that is stored whole: DynamoDB takes items of up to 400 KB, keys and names included.
const WHOLE_BYTES: usize = 380_000;

/// The bytes of a longer body in one item.
const PART_BYTES: usize = 300_000;

/// After this time, parts without a message can get none: Lambda ends every invocation within 15 minutes.
const ABANDONED: Duration = Duration::from_secs(900);

/// The `parked` table: partition key `pk`, sort key `sk` (strings).
#[derive(Clone, Debug)]
pub struct DynamoParking {
    table: Table,
}

on_a_table!(DynamoParking);

impl Parking for DynamoParking {
    async fn put(&self, items: Vec<ParkedItem>) -> Vec<Result<(), PortError>> {
        let now = System.now();
        let cut: Vec<Cut> = items.into_iter().map(|item| cut(item, &request_token(), now)).collect();
        let mut stored = self.store_others(&cut).await;
        let firsts = cut.into_iter().zip(&stored).filter(|(_, stored)| stored.is_ok());
        let firsts = firsts.map(|(cut, _)| cut.first).collect();
        let mut put = self.table.put_all(firsts).await.into_iter();
        for stored in stored.iter_mut().filter(|stored| stored.is_ok()) {
            *stored = put.next().expect("a put is answered for every item");
        }
        stored
    }

    async fn holds_any(&self, partition: Partition) -> Result<bool, PortError> {
        let query = self.of(&partition).select(Select::Count).limit(1);
        Ok(page(query).await?.count > 0)
    }

    async fn page(&self, partition: Partition, limit: u16) -> Result<Vec<ParkedItem>, PortError> {
        let now = System.now();
        let mut reading = Reading::of(partition, now);
        let mut after = None;
        // A page may end within a message, or hold no message.
        loop {
            let query = self.of(&reading.partition).limit(i32::from(limit)).set_exclusive_start_key(after);
            let page = page(query).await?;
            page.items().iter().for_each(|item| reading.read(item));
            after = page.last_evaluated_key;
            if after.is_none() || (reading.open.is_none() && !reading.whole.is_empty()) {
                break;
            }
        }
        if !reading.abandoned.is_empty() {
            // Harmless: parts that are not removed now are removed by the next read.
            let _ = self.table.delete_all(reading.abandoned.clone()).await;
        }
        reading.give_up_open();
        // Skipped, it would never be released.
        let is_stuck = reading.whole.is_empty() && reading.unreadable.is_some();
        if is_stuck { Err(aws_error::of_code("Query", "UnreadableParkedItem")) } else { Ok(reading.whole) }
    }

    /// The first part is deleted first: without it, the other parts are no message.
    async fn delete(&self, keys: Vec<ParkedKey>) -> Result<(), PortError> {
        let (firsts, others): (Vec<_>, Vec<_>) = keys.iter().map(keys_of).unzip();
        let deleted = self.table.delete_each(firsts).await;
        let others = others.into_iter().zip(&deleted).filter(|(_, deleted)| deleted.is_ok());
        self.table.delete_all(others.flat_map(|(others, _)| others).collect()).await?;
        deleted.into_iter().collect()
    }
}

impl DynamoParking {
    fn of(&self, partition: &Partition) -> QueryFluentBuilder {
        self.table.query("pk = :pk", [(":pk", s(partition.to_string()))])
    }

    /// Stores all parts but the first. `Ok` for a message whose parts were all stored.
    async fn store_others(&self, cut: &[Cut]) -> Vec<Result<(), PortError>> {
        let others = cut.iter().flat_map(|cut| cut.others.iter().cloned()).collect();
        let mut stored = self.table.put_all(others).await.into_iter();
        cut.iter()
            .map(|cut| stored.by_ref().take(cut.others.len()).collect::<Vec<_>>())
            .map(|of_one| of_one.into_iter().collect())
            .collect()
    }
}

struct Cut {
    /// The item that makes it a message.
    first: Item,
    /// The other parts of a long body, which are stored first.
    others: Vec<Item>,
}

/// Cuts a message that is put at `now`. Each put has its own `token`.
fn cut(parked: ParkedItem, token: &str, now: Timestamp) -> Cut {
    let ParkedItem { key, tenant, not_before, body } = parked;
    let mut first = item_key(&key.partition, &key.sort);
    first.insert("tenant".to_owned(), s(tenant.as_str()));
    first.insert("not_before".to_owned(), ms(not_before));
    if body.len() <= WHOLE_BYTES {
        first.insert("body".to_owned(), b(body));
        return Cut { first, others: Vec::new() };
    }
    let mut parts = body.as_bytes().chunks(PART_BYTES);
    first.insert("first_part".to_owned(), b(parts.next().unwrap_or_default()));
    let other = |(number, part): (usize, &[u8])| {
        let mut item = item_key(&key.partition, &part_sort(&key.sort, token, number));
        item.insert("part".to_owned(), b(part));
        item.insert("put_at".to_owned(), ms(now));
        item
    };
    let others: Vec<Item> = (1..).zip(parts).map(other).collect();
    first.insert("parts".to_owned(), n(others.len() + 1));
    first.insert("token".to_owned(), s(token));
    Cut { first, others }
}

/// The keys of a message's items, from the key that a page returned for it: the first, and the others.
fn keys_of(key: &ParkedKey) -> (Item, Vec<Item>) {
    let of_parts = || {
        let (sort, rest) = key.sort.rsplit_once('!')?;
        let (parts, token) = rest.split_once('.')?;
        Some((sort, parts.parse().ok()?, token))
    };
    let (sort, parts, token): (&str, usize, &str) = of_parts().unwrap_or((&key.sort, 1, ""));
    let others = (1..parts).map(|number| item_key(&key.partition, &part_sort(sort, token, number)));
    (item_key(&key.partition, sort), others.collect())
}

fn item_key(partition: &Partition, sort: &str) -> Item {
    row_key(partition.to_string(), sort)
}

fn part_sort(sort: &str, token: &str, number: usize) -> String {
    format!("{sort}!{token}.{number:03}")
}

/// A partition, read in the order of its sort keys.
struct Reading {
    partition: Partition,
    now: Timestamp,
    /// Complete messages.
    whole: Vec<ParkedItem>,
    /// A message of which parts are still to be read.
    open: Option<Open>,
    /// The sort key of the last message that could not be read.
    unreadable: Option<String>,
    /// The keys of abandoned parts.
    abandoned: Vec<Item>,
}

/// A long message, whose body is still to be joined.
struct Open {
    message: ParkedItem,
    token: String,
    parts: usize,
    read: usize,
    body: Vec<u8>,
}

impl Open {
    /// The sort key of its next part.
    fn next(&self) -> String {
        part_sort(&self.message.key.sort, &self.token, self.read)
    }
}

impl Reading {
    fn of(partition: Partition, now: Timestamp) -> Self {
        Self { partition, now, whole: Vec::new(), open: None, unreadable: None, abandoned: Vec::new() }
    }

    /// Reads the next item. Another version may have written what cannot be read.
    fn read(&mut self, item: &Item) {
        let sort = item.text("sk").unwrap_or_default();
        if let Some(part) = item.bytes("part") {
            return self.read_part(sort, item.time("put_at"), part);
        }
        self.give_up_open();
        if self.read_message(sort, item).is_none() {
            self.unreadable = Some(sort.to_owned());
        }
    }

    fn read_message(&mut self, sort: &str, item: &Item) -> Option<()> {
        let key = ParkedKey { partition: self.partition.clone(), sort: sort.to_owned() };
        let (tenant, not_before) = (Tenant::parse(item.text("tenant")?)?, item.time("not_before")?);
        let message = |body| ParkedItem { key, tenant, not_before, body };
        if let Some(body) = item.bytes("body") {
            self.whole.push(message(String::from_utf8(body.to_vec()).ok()?));
        } else {
            let (token, parts) = (item.text("token")?.to_owned(), item.number("parts")?);
            let body = item.bytes("first_part")?.to_vec();
            self.open = Some(Open { message: message(String::new()), token, parts, read: 1, body });
        }
        Some(())
    }

    fn read_part(&mut self, sort: &str, put_at: Option<Timestamp>, part: &[u8]) {
        if let Some(mut open) = self.open.take_if(|open| open.next() == sort) {
            open.body.extend_from_slice(part);
            open.read += 1;
            if open.read < open.parts {
                self.open = Some(open)
            } else {
                self.close(open)
            }
            return;
        }
        // Those of a message that is there stay, also if it cannot be read.
        let message = self.open.as_ref().map(|open| &open.message.key.sort).or(self.unreadable.as_ref());
        let is_of = |message: &String| sort.strip_prefix(message).is_some_and(|rest| rest.starts_with('!'));
        let is_abandoned = put_at.is_some_and(|at| self.now.since(at) > ABANDONED);
        if is_abandoned && !message.is_some_and(is_of) {
            self.abandoned.push(item_key(&self.partition, sort));
        }
    }

    /// All parts of a message were read.
    fn close(&mut self, open: Open) {
        let Open { mut message, token, parts, body, .. } = open;
        let Ok(body) = String::from_utf8(body) else {
            self.unreadable = Some(message.key.sort);
            return;
        };
        message.body = body;
        // The key names the parts, so that they are deleted with the message.
        message.key.sort.push_str(&format!("!{parts}.{token}"));
        self.whole.push(message);
    }

    /// A message whose next part is not there cannot be read.
    fn give_up_open(&mut self) {
        if let Some(open) = self.open.take() {
            self.unreadable = Some(open.message.key.sort);
        }
    }
}

#[cfg(test)]
mod tests;
