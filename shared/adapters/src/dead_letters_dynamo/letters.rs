//! The letters of one id, and what an operator does with a letter: mark it as sent again, remove it.

use std::collections::{BTreeMap, HashMap};

use futures_util::future::try_join_all;
use redial_core::dead_letter::DeadLetterKey;
use redial_core::lane::Lane;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::bodies::{PART, lane_of};
use super::{Described, DynamoDeadLetters, described};
use crate::attributes::{Item, Read as _, ms, s};
use crate::{aws_error, batch_write, query};

/// A letter as far as it lies in the table: its body is stored before its description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letter {
    /// What it is known by.
    pub key: DeadLetterKey,
    /// Its description, once that is stored.
    pub described: Option<Described>,
    /// From when on its body counts as absent; `None` if none is stored.
    pub body_until: Option<Timestamp>,
    /// The lane that its message travelled on, if that stands with its body.
    pub lane: Option<Lane>,
}

impl DynamoDeadLetters {
    /// All letters of an id, by name. Bodies are not handed out, though reading them costs as much.
    pub async fn letters_of(&self, tenant: &str, id: &str) -> Result<Vec<Letter>, PortError> {
        let all = DeadLetterKey { tenant: tenant.to_owned(), id: id.to_owned(), letter: String::new() };
        Ok(letters(&all, &self.items_of(&all).await?))
    }

    /// Marks descriptions as sent again at `now`. One that is not there any more stays away.
    pub async fn mark_replayed(&self, keys: &[DeadLetterKey], now: Timestamp) -> Result<(), PortError> {
        let marks = keys.iter().map(|key| async {
            let marked = self
                .client
                .update_item()
                .table_name(&self.table)
                .key("pk", s(key.partition()))
                .key("sk", s(&key.letter))
                .update_expression("SET replayed_at = :now")
                .condition_expression("attribute_exists(pk)")
                .expression_attribute_values(":now", ms(now))
                .send()
                .await;
            match marked {
                Ok(_) => Ok(()),
                Err(error) => match error.as_service_error() {
                    Some(answer) if answer.is_conditional_check_failed_exception() => Ok(()),
                    Some(_) | None => Err(aws_error::of_call("UpdateItem", &error)),
                },
            }
        });
        try_join_all(marks).await.map(|_| ())
    }

    /// Removes letters, their bodies before their descriptions: what was begun is listed until it is done.
    pub async fn remove(&self, keys: &[DeadLetterKey]) -> Result<(), PortError> {
        let found = try_join_all(keys.iter().map(|key| async {
            let items = self.items_of(key).await?;
            let prefix = format!("{}{PART}", key.letter);
            let own = |item: &&Item| item.text("sk").is_some_and(|sort| sort.starts_with(&prefix));
            Ok::<_, PortError>(items.iter().filter(own).map(key_of).collect::<Vec<Item>>())
        }));
        let bodies: Vec<Item> = found.await?.into_iter().flatten().collect();
        let descriptions = keys.iter().map(|key| {
            HashMap::from([("pk".to_owned(), s(key.partition())), ("sk".to_owned(), s(&key.letter))])
        });
        batch_write::delete(&self.client, &self.units, &self.table, bodies).await?;
        batch_write::delete(&self.client, &self.units, &self.table, descriptions.collect()).await
    }

    /// The items of a letter, or of all of an id's letters where the letter has no name; without the bodies' text.
    async fn items_of(&self, key: &DeadLetterKey) -> Result<Vec<Item>, PortError> {
        let query = self.client.query().table_name(&self.table).consistent_read(true);
        let query = query.expression_attribute_values(":pk", s(key.partition()));
        // A key value may not be empty, not even one to begin with.
        let mut query = if key.letter.is_empty() {
            query.key_condition_expression("pk = :pk")
        } else {
            query
                .key_condition_expression("pk = :pk AND begins_with(sk, :letter)")
                .expression_attribute_values(":letter", s(&key.letter))
        };
        let names = PROJECTED.map(|name| format!("#{name}")).join(", ");
        query = query.projection_expression(names);
        for name in PROJECTED {
            query = query.expression_attribute_names(format!("#{name}"), name);
        }
        query::all(query).await
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

/// The letters that these items of an id are parts of, by name.
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

fn key_of(item: &Item) -> Item {
    ["pk", "sk"].into_iter().filter_map(|name| Some((name.to_owned(), item.get(name)?.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters_dynamo::described::tests::reference;

    #[test]
    fn a_description_and_the_parts_of_its_body_are_one_letter() {
        let part = |sort: &str, until: i64| {
            HashMap::from([
                ("sk".to_owned(), s(sort)),
                ("absent_from".to_owned(), ms(Timestamp::from_ms(until))),
            ])
        };
        let items = [
            part("conflict-m2#body.000", 7_000),
            described::item(&reference("acme", "d1", 5), Timestamp::from_ms(7)),
            part("lineage-0#body.000", 5_000),
            part("lineage-0#body.001", 5_000),
        ];
        let found = letters(&reference("acme", "d1", 5).letter_key(), &items);
        let told = |letter: &Letter| {
            (letter.key.letter.clone(), letter.described.is_some(), letter.body_until.map(Timestamp::as_ms))
        };
        assert_eq!(
            found.iter().map(told).collect::<Vec<_>>(),
            [("conflict-m2".to_owned(), false, Some(7_000)), ("lineage-0".to_owned(), true, Some(5_000))]
        );
    }

    #[test]
    fn everything_of_a_description_is_asked_for() {
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
