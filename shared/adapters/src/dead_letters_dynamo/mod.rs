//! The dead-letter store on DynamoDB.
//!
//! Under `tenant#id` are a dead letter's description (`<letter>`) and its body (`<letter>#body.000` and on: an SQS message may be longer
//! than a DynamoDB item). Descriptions are listed through the index `by_day`, whose partitions are tenant, day and shard; the tenants
//! with dead letters on a day are under `_tenants#<day>`, and no tenant's name begins with `_`. So nothing is found by reading the
//! whole table.

mod bodies;
mod items;
mod walk;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use redial_core::dead_letter::{DeadLetterKey, Reference};
use redial_core::lane::Lane;
use redial_core::time::Timestamp;
use redial_engine::ports::{DeadLetterStore, PortError};

pub use bodies::StoredBody;
pub use items::Described;
pub use walk::{Position, Scope, Walk};

use self::items::{PART, key_of, lane_of};
use crate::cache::Cache;
use crate::table::attributes::{Item, Read as _, expiry, key, ms, s};
use crate::table::{Table, all, names_in, on_a_table};

/// All attributes but a body's text.
const PROJECTED: &str = "#pk, #sk, #expires_at, #absent_from, #lane, #replayed_at, #v, #kind, #tenant, #id, #letter, #lineage, \
    #channel, #subscription, #endpoint_hash, #tags, #reason, #detail, #status, #attempts, #first_sent, #at, #retention_days";

/// The `dead_letters` table: partition key `pk`, sort key `sk`; index `by_day` on `gsi_pk`, `gsi_sk`; index `bodies_by_hour` on
/// `body_pk`, `body_sk` (all strings); TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoDeadLetters {
    table: Table,
    /// Tenants and days that are in the table.
    noted: Cache<(String, String), ()>,
}

on_a_table!(DynamoDeadLetters, noted);

/// A dead letter as far as it is stored: its body is stored before its description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    pub key: DeadLetterKey,
    pub described: Option<Described>,
    /// From when on its body counts as absent; `None` if none is stored.
    pub body_until: Option<Timestamp>,
    /// The lane of its message, if it is stored with the body.
    pub lane: Option<Lane>,
}

impl DynamoDeadLetters {
    /// How long there may be a dead letter of a day: a year, which is the longest that a policy keeps descriptions, and the 14 days
    /// that a reference may wait on its queue.
    pub const LONGEST_KEPT: Duration = Duration::from_secs((365 + 15) * 86_400);

    /// Records that the reference's tenant has a dead letter on the reference's day: once by every worker, as writing it again
    /// changes nothing. The record outlives every description of its day.
    async fn note_tenant(&self, reference: &Reference, now: Timestamp) -> Result<(), PortError> {
        let noted = (reference.tenant.clone(), Timestamp::from_ms(reference.at).day());
        if self.noted.contains(&noted) {
            return Ok(());
        }
        let mut item = key(tenants_of(&noted.1), &noted.0);
        item.insert("expires_at".to_owned(), expiry(now.plus(Self::LONGEST_KEPT)));
        self.table.put(item).await?;
        self.noted.insert(noted, (), |()| 0);
        Ok(())
    }

    /// The tenants that have, or had, dead letters on a UTC day, `2026-11-21`; `_unknown` may be one of them.
    pub async fn tenants_on(&self, day: &str) -> Result<Vec<String>, PortError> {
        let items = self.table.partition(tenants_of(day)).await?;
        Ok(items.iter().filter_map(|item| item.text("sk").map(str::to_owned)).collect())
    }

    /// All dead letters of an id, by name. Without the bodies, though reading them costs as much.
    pub async fn dead_letters_of(&self, tenant: &str, id: &str) -> Result<Vec<DeadLetter>, PortError> {
        let all = DeadLetterKey { tenant: tenant.to_owned(), id: id.to_owned(), letter: String::new() };
        Ok(letters(&all, &self.items_of(&all).await?))
    }

    /// Marks descriptions as replayed at `now`, and returns how many could not be marked. One that was removed stays removed.
    pub async fn mark_replayed(&self, keys: &[DeadLetterKey], now: Timestamp) -> usize {
        let marks = keys.iter().map(async |letter| {
            let (key, values) = (key(letter.partition(), &letter.letter), [(":now", ms(now))]);
            self.table.update_if(key, "SET replayed_at = :now", "attribute_exists(pk)", values).await
        });
        join_all(marks).await.iter().filter(|mark| mark.is_err()).count()
    }

    /// Removes dead letters, their bodies before their descriptions: one whose removal is interrupted is still listed.
    pub async fn remove(&self, keys: &[DeadLetterKey]) -> Result<(), PortError> {
        let found = try_join_all(keys.iter().map(async |letter| {
            let items = self.items_of(letter).await?;
            let prefix = format!("{}{PART}", letter.letter);
            let is_own = |item: &&Item| item.text("sk").is_some_and(|sort| sort.starts_with(&prefix));
            Ok::<_, PortError>(items.iter().filter(is_own).map(key_of).collect::<Vec<Item>>())
        }));
        let bodies: Vec<Item> = found.await?.into_iter().flatten().collect();
        let descriptions = keys.iter().map(|letter| key(letter.partition(), &letter.letter));
        self.table.delete_all(bodies).await?;
        self.table.delete_all(descriptions.collect()).await
    }

    /// The items of a dead letter, or of all of an id's where it has no name; without the bodies' text.
    async fn items_of(&self, letter: &DeadLetterKey) -> Result<Vec<Item>, PortError> {
        let pk = (":pk", s(letter.partition()));
        // A key value may not be empty, not even one to begin with.
        let mut query = if letter.letter.is_empty() {
            self.table.query("pk = :pk", [pk])
        } else {
            let values = [pk, (":letter", s(&letter.letter))];
            self.table.query("pk = :pk AND begins_with(sk, :letter)", values)
        };
        query = query.projection_expression(PROJECTED);
        query = query.set_expression_attribute_names(Some(names_in([PROJECTED].into_iter())));
        all(query).await
    }
}

impl DeadLetterStore for DynamoDeadLetters {
    /// The tenant is noted before its dead letter is described: without the note, no list would find the dead letter.
    async fn describe(&self, reference: &Reference, now: Timestamp) -> Result<(), PortError> {
        self.note_tenant(reference, now).await?;
        self.table.put(items::item(reference, now)).await
    }

    async fn delete_absent_bodies(&self, now: Timestamp, limit: u32) -> Result<u32, PortError> {
        self.sweep_bodies(now, limit).await
    }
}

fn tenants_of(day: &str) -> String {
    format!("_tenants#{day}")
}

/// Groups the items of an id by dead letter.
fn letters(of: &DeadLetterKey, items: &[Item]) -> Vec<DeadLetter> {
    let mut letters: BTreeMap<&str, DeadLetter> = BTreeMap::new();
    for item in items {
        let Some(sort) = item.text("sk") else { continue };
        let (name, is_body) = sort.split_once(PART).map_or((sort, false), |(name, _)| (name, true));
        let letter = letters.entry(name).or_insert_with(|| DeadLetter {
            key: DeadLetterKey { letter: name.to_owned(), ..of.clone() },
            described: None,
            body_until: None,
            lane: None,
        });
        if is_body {
            letter.body_until = item.time("absent_from");
            letter.lane = lane_of(item);
        } else {
            letter.described = items::read(item);
        }
    }
    letters.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::items::tests::reference;
    use super::*;
    use crate::table::attributes::item;

    #[test]
    fn a_description_and_the_parts_of_its_body_are_one_dead_letter() {
        let part =
            |sort: &str, until: i64| item([("sk", s(sort)), ("absent_from", ms(Timestamp::from_ms(until)))]);
        let items = [
            part("conflict-m2#body.000", 7_000),
            items::item(&reference("acme", "d1", 5), Timestamp::from_ms(7)),
            part("lineage-0#body.000", 5_000),
            part("lineage-0#body.001", 5_000),
        ];
        let found = letters(&reference("acme", "d1", 5).key(), &items);
        let summary = |letter: &DeadLetter| {
            (letter.key.letter.clone(), letter.described.is_some(), letter.body_until.map(Timestamp::as_ms))
        };
        assert_eq!(
            found.iter().map(summary).collect::<Vec<_>>(),
            [("conflict-m2".to_owned(), false, Some(7_000)), ("lineage-0".to_owned(), true, Some(5_000))]
        );
    }

    #[test]
    fn every_attribute_of_a_description_is_read() {
        let whole = Reference {
            endpoint_hash: Some("k1.abc".to_owned()),
            detail: Some("a word".to_owned()),
            ..reference("acme", "d1", 5)
        };
        let item = items::item(&whole, Timestamp::from_ms(7));
        for name in item.keys().filter(|name| !name.starts_with("gsi_")) {
            assert!(PROJECTED.split(", ").any(|read| read[1..] == *name), "{name}");
        }
    }
}
