//! The dead letters of one id: listed, marked as replayed, removed.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use redial_core::dead_letter::DeadLetterKey;
use redial_core::lane::Lane;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::DynamoDeadLetters;
use super::bodies::{PART, key_of, lane_of};
use super::described::{self, Described};
use crate::table::all;
use crate::table::attributes::{Item, Read as _, key, ms, s};

/// A dead letter as far as it is stored: its body is stored before its description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letter {
    pub key: DeadLetterKey,
    pub described: Option<Described>,
    /// From when on its body counts as absent; `None` if none is stored.
    pub body_until: Option<Timestamp>,
    /// The lane of its message, if it is stored with the body.
    pub lane: Option<Lane>,
}

impl DynamoDeadLetters {
    /// All dead letters of an id, by name. Without the bodies, though reading them costs as much.
    pub async fn letters_of(&self, tenant: &str, id: &str) -> Result<Vec<Letter>, PortError> {
        let all = DeadLetterKey { tenant: tenant.to_owned(), id: id.to_owned(), letter: String::new() };
        Ok(letters(&all, &self.items_of(&all).await?))
    }

    /// Marks descriptions as replayed at `now`. One that was removed stays removed.
    pub async fn mark_replayed(&self, keys: &[DeadLetterKey], now: Timestamp) -> Result<(), PortError> {
        let marks = keys.iter().map(async |letter| {
            let key = key(letter.partition(), &letter.letter);
            let update = self.table.update(key, "SET replayed_at = :now", [(":now", ms(now))]);
            self.table.send(update.condition_expression("attribute_exists(pk)")).await
        });
        try_join_all(marks).await.map(|_| ())
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
        query = query.projection_expression(PROJECTED.map(|name| format!("#{name}")).join(", "));
        for name in PROJECTED {
            query = query.expression_attribute_names(format!("#{name}"), name);
        }
        all(query).await
    }
}

/// All attributes but a body's text.
const PROJECTED: [&str; 22] = [
    "pk",
    "sk",
    "expires_at",
    "absent_from",
    "lane",
    "replayed_at",
    "v",
    "kind",
    "tenant",
    "id",
    "letter",
    "lineage",
    "channel",
    "subscription",
    "endpoint_hash",
    "reason",
    "detail",
    "status",
    "attempts",
    "first_sent",
    "at",
    "retention_days",
];

/// Groups the items of an id by dead letter.
fn letters(of: &DeadLetterKey, items: &[Item]) -> Vec<Letter> {
    let mut letters: BTreeMap<&str, Letter> = BTreeMap::new();
    for item in items {
        let Some(sort) = item.text("sk") else { continue };
        let (name, is_body) = sort.split_once(PART).map_or((sort, false), |(name, _)| (name, true));
        let letter = letters.entry(name).or_insert_with(|| Letter {
            key: DeadLetterKey { letter: name.to_owned(), ..of.clone() },
            described: None,
            body_until: None,
            lane: None,
        });
        if is_body {
            letter.body_until = item.time("absent_from");
            letter.lane = lane_of(item);
        } else {
            letter.described = described::read(item);
        }
    }
    letters.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::reference;
    use super::*;
    use crate::table::attributes::item;

    #[test]
    fn a_description_and_the_parts_of_its_body_are_one_dead_letter() {
        let part =
            |sort: &str, until: i64| item([("sk", s(sort)), ("absent_from", ms(Timestamp::from_ms(until)))]);
        let items = [
            part("conflict-m2#body.000", 7_000),
            described::item(&reference("acme", "d1", 5), Timestamp::from_ms(7)),
            part("lineage-0#body.000", 5_000),
            part("lineage-0#body.001", 5_000),
        ];
        let found = letters(&reference("acme", "d1", 5).letter_key(), &items);
        let summary = |letter: &Letter| {
            (letter.key.letter.clone(), letter.described.is_some(), letter.body_until.map(Timestamp::as_ms))
        };
        assert_eq!(
            found.iter().map(summary).collect::<Vec<_>>(),
            [("conflict-m2".to_owned(), false, Some(7_000)), ("lineage-0".to_owned(), true, Some(5_000))]
        );
    }

    #[test]
    fn every_attribute_of_a_description_is_read() {
        let whole = redial_core::dead_letter::Reference {
            endpoint_hash: Some("k1.abc".to_owned()),
            detail: Some("a word".to_owned()),
            ..reference("acme", "d1", 5)
        };
        let item = described::item(&whole, Timestamp::from_ms(7));
        for name in item.keys().filter(|name| !name.starts_with("gsi_")) {
            assert!(PROJECTED.contains(&name.as_str()), "{name}");
        }
    }
}
