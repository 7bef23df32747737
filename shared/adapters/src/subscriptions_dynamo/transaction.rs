//! Every change that adds, replaces or removes a subscription: the item, the tenant's count and the rows of its audiences, in one
//! transaction, on the condition that the item is still as it was read.
//!
//! The item is read first, and the attributes that decisions depend on ([`DECIDES`]) are in the condition. Of two changes at once, the
//! second fails, reads again and decides again. A receiver's health is not among these attributes: it changes with every attempt, and a
//! change that keeps it does not write it.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem, Update};
use redial_core::identity::SubscriptionKey;
use redial_core::tag::Tag;
use redial_engine::ports::PortError;

use super::{DynamoSubscriptions, item, item_key};
use crate::table::attributes::{Item, item as row};
use crate::table::transact;
use crate::{audiences_dynamo, aws_error};

/// The attributes that decisions depend on: a change to one of them makes a concurrent decision start over.
const DECIDES: [&str; 5] = ["kind", "endpoint", "state", "tags", "deleted_at"];

/// How often a change starts over while others keep changing the item.
const ROUNDS: usize = 8;

/// The item after a change.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum After {
    /// This item.
    Whole(Item),
    /// These attributes set and those removed; all others stay.
    Part { sets: Vec<(&'static str, AttributeValue)>, removes: Vec<&'static str> },
    /// It is removed.
    Nothing,
}

impl DynamoSubscriptions {
    /// Reads the item, and writes the change that `decide` returns, if any; returns its second result. `decide` is called again whenever
    /// the item has changed meanwhile.
    pub(super) async fn change<T>(
        &self,
        key: &SubscriptionKey,
        mut decide: impl FnMut(Option<&Item>) -> Result<(Option<After>, T), PortError>,
    ) -> Result<T, PortError> {
        for _ in 0..ROUNDS {
            let before = self.items(std::slice::from_ref(key)).await?.pop();
            let (after, outcome) = decide(before.as_ref())?;
            let Some(after) = after else { return Ok(outcome) };
            if self.commit(key, before.as_ref(), after).await? {
                return Ok(outcome);
            }
        }
        Err(aws_error::of_code("TransactWriteItems", "Contention"))
    }

    /// `false` if the item is not as it was read.
    async fn commit(
        &self,
        key: &SubscriptionKey,
        before: Option<&Item>,
        after: After,
    ) -> Result<bool, PortError> {
        let step = i8::from(counts(before, &after)) - i8::from(before.is_some_and(item::is_stored));
        let (tags_before, tags_after) = (tags_of(before), tags_after(before, &after));
        let mut writes = audiences_dynamo::changes(&self.audiences, key, &tags_before, &tags_after);
        if step != 0 {
            let count = self.control.counting(key, step);
            writes.push(TransactWriteItem::builder().update(count).build());
        }
        let condition = Condition::as_read(before);
        // Most renewals, at half of a transaction's price.
        if let (After::Part { sets, removes }, true) = (&after, writes.is_empty()) {
            let (expression, names, values) = condition.updating(sets, removes);
            let update = self.table.update(item_key(key), expression, []);
            let update = update
                .condition_expression(condition.expression)
                .set_expression_attribute_names(Some(names))
                .set_expression_attribute_values(Some(values));
            return Ok(self.table.send(update).await?.is_done());
        }
        writes.insert(0, self.write_of(key, condition, after));
        transact(self.table.client(), &writes).await
    }

    fn write_of(&self, key: &SubscriptionKey, condition: Condition, after: After) -> TransactWriteItem {
        let (table, write) = (self.table.name(), TransactWriteItem::builder());
        match after {
            After::Whole(item) => write.put(
                Put::builder()
                    .table_name(table)
                    .set_item(Some(item))
                    .condition_expression(condition.expression)
                    .set_expression_attribute_names(Some(condition.names).filter(|names| !names.is_empty()))
                    .set_expression_attribute_values(
                        Some(condition.values).filter(|values| !values.is_empty()),
                    )
                    .build()
                    .expect("a put has its table and its item"),
            ),
            After::Part { sets, removes } => {
                let (expression, names, values) = condition.updating(&sets, &removes);
                write.update(
                    Update::builder()
                        .table_name(table)
                        .set_key(Some(item_key(key)))
                        .update_expression(expression)
                        .condition_expression(condition.expression)
                        .set_expression_attribute_names(Some(names))
                        .set_expression_attribute_values(Some(values))
                        .build()
                        .expect("an update has its table, key and expression"),
                )
            }
            After::Nothing => write.delete(
                Delete::builder()
                    .table_name(table)
                    .set_key(Some(item_key(key)))
                    .condition_expression(condition.expression)
                    .set_expression_attribute_names(Some(condition.names).filter(|names| !names.is_empty()))
                    .set_expression_attribute_values(
                        Some(condition.values).filter(|values| !values.is_empty()),
                    )
                    .build()
                    .expect("a delete has its table and its key"),
            ),
        }
        .build()
    }
}

/// Whether there is a subscription afterwards.
fn counts(before: Option<&Item>, after: &After) -> bool {
    match after {
        After::Whole(item) => item::is_stored(item),
        After::Part { .. } => before.is_some_and(item::is_stored),
        After::Nothing => false,
    }
}

fn tags_of(item: Option<&Item>) -> BTreeSet<Tag> {
    item.map(|item| item::tags(item).iter().cloned().collect()).unwrap_or_default()
}

fn tags_after(before: Option<&Item>, after: &After) -> BTreeSet<Tag> {
    match after {
        After::Whole(item) => tags_of(Some(item)),
        After::Part { sets, removes } => match sets.iter().find(|(name, _)| *name == "tags") {
            Some((name, value)) => tags_of(Some(&row([(*name, value.clone())]))),
            None if removes.contains(&"tags") => BTreeSet::new(),
            None => tags_of(before),
        },
        After::Nothing => BTreeSet::new(),
    }
}

/// That an item is as it was read.
#[derive(Default)]
struct Condition {
    expression: String,
    names: HashMap<String, String>,
    values: Item,
}

impl Condition {
    fn as_read(before: Option<&Item>) -> Self {
        let Some(before) = before else {
            return Self { expression: "attribute_not_exists(pk)".to_owned(), ..Self::default() };
        };
        let mut condition = Self { expression: "attribute_exists(pk)".to_owned(), ..Self::default() };
        for name in DECIDES {
            condition.names.insert(format!("#{name}"), name.to_owned());
            match before.get(name) {
                Some(value) => {
                    condition.values.insert(format!(":was_{name}"), value.clone());
                    condition.expression.push_str(&format!(" AND #{name} = :was_{name}"));
                }
                None => condition.expression.push_str(&format!(" AND attribute_not_exists(#{name})")),
            }
        }
        condition
    }

    /// `SET … REMOVE …`, with its names and values and the condition's.
    fn updating(
        &self,
        sets: &[(&'static str, AttributeValue)],
        removes: &[&'static str],
    ) -> (String, HashMap<String, String>, Item) {
        let (mut names, mut values) = (self.names.clone(), self.values.clone());
        let changed = sets.iter().map(|(name, _)| name).chain(removes);
        names.extend(changed.map(|name| (format!("#{name}"), (*name).to_owned())));
        values.extend(sets.iter().map(|(name, value)| (format!(":{name}"), value.clone())));
        let sets: Vec<String> = sets.iter().map(|(name, _)| format!("#{name} = :{name}")).collect();
        let removes: Vec<String> = removes.iter().map(|name| format!("#{name}")).collect();
        let parts = [("SET", sets), ("REMOVE", removes)].into_iter().filter(|(_, parts)| !parts.is_empty());
        let parts: Vec<String> = parts.map(|(verb, parts)| format!("{verb} {}", parts.join(", "))).collect();
        (parts.join(" "), names, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::attributes::{n, s};

    fn item(fields: &[(&str, AttributeValue)]) -> Item {
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn tagged(tags: &[&str]) -> AttributeValue {
        AttributeValue::L(tags.iter().map(|tag| s(*tag)).collect())
    }

    #[test]
    fn the_condition_names_the_attributes_that_decide() {
        let none = Condition::as_read(None);
        assert_eq!((none.expression.as_str(), none.names.len()), ("attribute_not_exists(pk)", 0));
        let before = item(&[("endpoint", s("https://a")), ("state", s("active")), ("failures", n(3))]);
        let condition = Condition::as_read(Some(&before));
        assert_eq!(
            condition.expression,
            "attribute_exists(pk) AND attribute_not_exists(#kind) AND #endpoint = :was_endpoint AND #state = :was_state \
             AND attribute_not_exists(#tags) AND attribute_not_exists(#deleted_at)"
        );
        assert_eq!(condition.values.len(), 2, "health is not compared");
    }

    #[test]
    fn sets_and_removes_are_separate_from_the_condition() {
        let condition = Condition::as_read(Some(&item(&[("tags", tagged(&["a"]))])));
        let sets = [("tags", tagged(&["b"])), ("auth", s("x"))];
        let (text, names, values) = condition.updating(&sets, &["vapid_key_id"]);
        assert_eq!(text, "SET #tags = :tags, #auth = :auth REMOVE #vapid_key_id");
        assert_eq!(names["#vapid_key_id"], "vapid_key_id");
        assert_eq!((&values[":was_tags"], &values[":tags"]), (&tagged(&["a"]), &tagged(&["b"])));
    }

    #[test]
    fn a_change_determines_the_count_and_the_tags() {
        let before = item(&[("endpoint", s("https://a")), ("tags", tagged(&["a", "b"]))]);
        let tombstone = item(&[("state", s("deleted"))]);
        let part = |sets: Vec<(&'static str, AttributeValue)>, removes| After::Part { sets, removes };
        let summary = |after: &After| {
            let tags = tags_after(Some(&before), after);
            (counts(Some(&before), after), tags.iter().map(Tag::to_string).collect::<Vec<_>>())
        };
        assert_eq!(summary(&After::Nothing), (false, vec![]));
        assert_eq!(summary(&After::Whole(tombstone)), (false, vec![]));
        assert_eq!(summary(&part(vec![], vec!["auth"])), (true, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(summary(&part(vec![("tags", tagged(&["c"]))], vec![])), (true, vec!["c".to_owned()]));
        assert_eq!(summary(&part(vec![], vec!["tags"])), (true, vec![]));
    }
}
