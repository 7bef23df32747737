//! The dead letters of an id: their descriptions, and until when their bodies are kept. The bodies themselves stay where
//! they are.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use redial_core::{identity::DeliveryId, time::Timestamp};
use serde_json::{Value, json};

use crate::{aws_words::in_words, failure::Failure};

/// What is read of an item. A body is not, however long its text.
const READ: [&str; 8] = ["sk", "kind", "reason", "detail", "status", "attempts", "at", "absent_from"];

/// Between a letter's name and the parts of its body, in the sort key.
const BODY: &str = "#body.";

/// The `dead_letters` table.
#[derive(Clone, Debug)]
pub(super) struct Letters {
    client: Client,
    table: String,
}

/// The store cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the dead letters cannot be looked up: Query: {0}")]
struct LettersError(String);

/// A dead letter, as far as it is there: body and description are stored one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Letter {
    /// Which of the id's letters: `lineage-0`, `malformed`, …
    pub(super) name: String,
    /// Whether its description is stored yet.
    pub(super) described: bool,
    /// `failed`, `gone` or `not_found`.
    pub(super) kind: Option<String>,
    /// Why.
    pub(super) reason: Option<String>,
    /// What exactly.
    pub(super) detail: Option<String>,
    /// The last HTTP status.
    pub(super) status: Option<u16>,
    /// Attempts made.
    pub(super) attempts: Option<u32>,
    /// When it ended.
    pub(super) at: Option<Timestamp>,
    /// From when on its body counts as absent; `None` if none is stored.
    pub(super) body_until: Option<Timestamp>,
}

type Item = HashMap<String, AttributeValue>;

impl Letters {
    pub(super) fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// The letters of an id, by name.
    pub(super) async fn of(&self, tenant: &str, id: &DeliveryId) -> Result<Vec<Letter>, Failure> {
        let mut query = self
            .client
            .query()
            .table_name(&self.table)
            .consistent_read(true)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(format!("{tenant}#{id}")))
            .projection_expression(READ.map(|name| format!("#{name}")).join(", "));
        for name in READ {
            query = query.expression_attribute_names(format!("#{name}"), name);
        }
        let items: Result<Vec<Item>, _> = query.into_paginator().items().send().collect().await;
        Ok(letters(&items.map_err(|error| LettersError(in_words(&error)))?))
    }
}

fn letters(items: &[Item]) -> Vec<Letter> {
    let mut letters: BTreeMap<&str, Letter> = BTreeMap::new();
    for item in items {
        let text = |name: &str| item.get(name)?.as_s().ok().cloned();
        let Some(sort) = item.get("sk").and_then(|sort| sort.as_s().ok()) else { continue };
        let (name, is_body) = sort.split_once(BODY).map_or((sort.as_str(), false), |(name, _)| (name, true));
        let letter = letters.entry(name).or_default();
        letter.name = name.to_owned();
        if is_body {
            letter.body_until = number(item, "absent_from").map(Timestamp::from_ms);
            continue;
        }
        letter.described = true;
        letter.kind = text("kind");
        letter.reason = text("reason");
        letter.detail = text("detail");
        letter.status = number(item, "status");
        letter.attempts = number(item, "attempts");
        letter.at = number(item, "at").map(Timestamp::from_ms);
    }
    letters.into_values().collect()
}

fn number<T: std::str::FromStr>(item: &Item, name: &str) -> Option<T> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

impl Letter {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "letter": self.name,
            "described": self.described,
            "kind": self.kind,
            "reason": self.reason,
            "detail": self.detail,
            "status": self.status,
            "attempts": self.attempts,
            "at": self.at.map(Timestamp::to_rfc3339),
            "body_until": self.body_until.map(Timestamp::to_rfc3339),
        })
    }

    /// One line: `lineage-0: retries_exhausted (…), 6 attempts, last status 503, at …`.
    pub(super) fn in_words(&self) -> String {
        let mut words = self.name.clone();
        let mut add = |separator: &str, text: Option<String>| {
            words.extend(text.map(|text| format!("{separator}{text}")));
        };
        add(": ", self.reason.clone());
        add(" (", self.detail.as_ref().map(|detail| format!("{detail})")));
        add(
            ", ",
            self.attempts.map(|n| if n == 1 { "1 attempt".to_owned() } else { format!("{n} attempts") }),
        );
        add(", last status ", self.status.map(|status| status.to_string()));
        add(", at ", self.at.map(Timestamp::to_rfc3339));
        words
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::status) fn letter(name: &str, reason: &str) -> Letter {
        Letter {
            name: name.to_owned(),
            described: true,
            reason: Some(reason.to_owned()),
            ..Letter::default()
        }
    }

    fn item(fields: &[(&str, &str)]) -> Item {
        let value = |text: &str| match text.parse::<i64>() {
            Ok(_) => AttributeValue::N(text.to_owned()),
            Err(_) => AttributeValue::S(text.to_owned()),
        };
        fields.iter().map(|(name, text)| ((*name).to_owned(), value(text))).collect()
    }

    #[test]
    fn a_description_and_the_parts_of_its_body_are_one_letter() {
        let items = [
            item(&[
                ("sk", "lineage-0"),
                ("reason", "retries_exhausted"),
                ("attempts", "6"),
                ("status", "503"),
            ]),
            item(&[("sk", "lineage-0#body.000"), ("absent_from", "5000")]),
            item(&[("sk", "lineage-0#body.001"), ("absent_from", "5000")]),
            item(&[("sk", "conflict-m2#body.000"), ("absent_from", "7000")]),
        ];
        let found = letters(&items);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), found[0].described), ("conflict-m2", false));
        assert_eq!(found[1].body_until, Some(Timestamp::from_ms(5000)));
        assert_eq!(found[1].in_words(), "lineage-0: retries_exhausted, 6 attempts, last status 503");
    }
}
