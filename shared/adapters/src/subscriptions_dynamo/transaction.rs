//! Every change that adds, replaces or removes a subscription: the item, the tenant's count and the rows of its audiences, in one
//! transaction, on the condition that the item is still as it was read.
//!
//! What a change was decided over is read first, and named in its condition by the attributes that decisions depend on
//! ([`DECIDES`]). Who comes second finds the condition broken, reads again and decides again. Counts and failures of a
//! receiver's health are not among them: they change with every attempt, and a change that keeps them does not write them.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem, Update};
use redial_core::identity::SubscriptionKey;
use redial_core::tag::Tag;
use redial_engine::ports::PortError;

use super::{DynamoSubscriptions, item, item_key};
use crate::attributes::Item;
use crate::{audiences_dynamo, aws_error, transact};

/// What every decision depends on; whoever changes one of these has another's decision made anew.
const DECIDES: [&str; 5] = ["kind", "endpoint", "state", "tags", "deleted_at"];

/// How often a change begins anew when others keep changing the item.
const ROUNDS: usize = 8;

/// What a change makes of the item.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum After {
    /// This item, in place of whatever was there.
    Whole(Item),
    /// These attributes set and those removed; all others stay.
    Part {
        /// Set.
        sets: Vec<(&'static str, AttributeValue)>,
        /// Removed.
        removes: Vec<&'static str>,
    },
    /// Nothing: it is removed.
    Nothing,
}

impl DynamoSubscriptions {
    /// Reads the item and changes it as `decide` says, which is asked again whenever the item has changed meanwhile, and
    /// answers with what is to be written and what that comes to; without the former, nothing is written.
    pub(super) async fn change<T>(
        &self,
        key: &SubscriptionKey,
        mut decide: impl FnMut(Option<&Item>) -> Result<(Option<After>, T), PortError>,
    ) -> Result<T, PortError> {
        for _ in 0..ROUNDS {
            let before = self.items(std::slice::from_ref(key)).await?.pop();
            let (after, comes_to) = decide(before.as_ref())?;
            let Some(after) = after else { return Ok(comes_to) };
            if self.commit(key, before.as_ref(), after).await? {
                return Ok(comes_to);
            }
        }
        Err(aws_error::of_code("TransactWriteItems", "Contention"))
    }

    /// Writes it; `false` if the item is not as it was read.
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
        let written = self.write_of(key, before, after);
        // What most renewals are, at half of a transaction's price.
        if let (Some(update), true) = (written.update(), writes.is_empty()) {
            return self.updated(alone(self.updating(key), update)).await;
        }
        writes.insert(0, written);
        transact::write(&self.client, &writes).await
    }

    fn write_of(&self, key: &SubscriptionKey, before: Option<&Item>, after: After) -> TransactWriteItem {
        let mut condition = Condition::as_read(before);
        let write = TransactWriteItem::builder();
        match after {
            After::Whole(item) => write.put(
                Put::builder()
                    .table_name(&self.table)
                    .set_item(Some(item))
                    .condition_expression(condition.expression)
                    .set_expression_attribute_names(Some(condition.names).filter(|it| !it.is_empty()))
                    .set_expression_attribute_values(Some(condition.values).filter(|it| !it.is_empty()))
                    .build()
                    .expect("a put has its table and its item"),
            ),
            After::Part { sets, removes } => write.update(
                Update::builder()
                    .table_name(&self.table)
                    .set_key(Some(item_key(key)))
                    .update_expression(condition.updating(sets, &removes))
                    .condition_expression(condition.expression)
                    .set_expression_attribute_names(Some(condition.names))
                    .set_expression_attribute_values(Some(condition.values))
                    .build()
                    .expect("an update has its table, key and expression"),
            ),
            After::Nothing => write.delete(
                Delete::builder()
                    .table_name(&self.table)
                    .set_key(Some(item_key(key)))
                    .condition_expression(condition.expression)
                    .set_expression_attribute_names(Some(condition.names).filter(|it| !it.is_empty()))
                    .set_expression_attribute_values(Some(condition.values).filter(|it| !it.is_empty()))
                    .build()
                    .expect("a delete has its table and its key"),
            ),
        }
        .build()
    }
}

/// The part of a transaction as a call of its own.
fn alone(
    updating: aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder,
    update: &Update,
) -> aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder {
    updating
        .update_expression(update.update_expression())
        .set_condition_expression(update.condition_expression().map(str::to_owned))
        .set_expression_attribute_names(update.expression_attribute_names().cloned())
        .set_expression_attribute_values(update.expression_attribute_values().cloned())
}

/// Whether there is a subscription afterwards that counts.
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
            Some((name, value)) => tags_of(Some(&HashMap::from([((*name).to_owned(), value.clone())]))),
            None if removes.contains(&"tags") => BTreeSet::new(),
            None => tags_of(before),
        },
        After::Nothing => BTreeSet::new(),
    }
}

/// That an item is as it was read.
struct Condition {
    expression: String,
    names: HashMap<String, String>,
    values: Item,
}

impl Condition {
    fn as_read(before: Option<&Item>) -> Self {
        let Some(before) = before else {
            let (names, values) = (HashMap::new(), HashMap::new());
            return Self { expression: "attribute_not_exists(pk)".to_owned(), names, values };
        };
        let mut it = Self {
            expression: "attribute_exists(pk)".to_owned(),
            names: HashMap::new(),
            values: HashMap::new(),
        };
        for name in DECIDES {
            it.names.insert(format!("#{name}"), name.to_owned());
            match before.get(name) {
                Some(value) => {
                    it.values.insert(format!(":was_{name}"), value.clone());
                    it.expression.push_str(&format!(" AND #{name} = :was_{name}"));
                }
                None => it.expression.push_str(&format!(" AND attribute_not_exists(#{name})")),
            }
        }
        it
    }

    /// `SET … REMOVE …`, its names and values beside the condition's own.
    fn updating(&mut self, sets: Vec<(&'static str, AttributeValue)>, removes: &[&'static str]) -> String {
        let mut expression = Vec::new();
        let assigned = sets.into_iter().map(|(name, value)| {
            self.names.insert(format!("#{name}"), name.to_owned());
            self.values.insert(format!(":{name}"), value);
            format!("#{name} = :{name}")
        });
        let assigned: Vec<String> = assigned.collect();
        if !assigned.is_empty() {
            expression.push(format!("SET {}", assigned.join(", ")));
        }
        let removed: Vec<String> = removes.iter().map(|name| format!("#{name}")).collect();
        self.names.extend(removes.iter().map(|name| (format!("#{name}"), (*name).to_owned())));
        if !removed.is_empty() {
            expression.push(format!("REMOVE {}", removed.join(", ")));
        }
        expression.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::{n, s};

    fn item(fields: &[(&str, AttributeValue)]) -> Item {
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn tagged(tags: &[&str]) -> AttributeValue {
        AttributeValue::L(tags.iter().map(|tag| s(*tag)).collect())
    }

    #[test]
    fn an_item_is_as_it_was_read_if_all_that_decides_is() {
        let none = Condition::as_read(None);
        assert_eq!((none.expression.as_str(), none.names.len()), ("attribute_not_exists(pk)", 0));
        let before = item(&[("endpoint", s("https://a")), ("state", s("active")), ("failures", n(3))]);
        let condition = Condition::as_read(Some(&before));
        assert_eq!(
            condition.expression,
            "attribute_exists(pk) AND attribute_not_exists(#kind) AND #endpoint = :was_endpoint AND #state = :was_state \
             AND attribute_not_exists(#tags) AND attribute_not_exists(#deleted_at)"
        );
        assert_eq!(condition.values.len(), 2, "health decides nothing");
    }

    #[test]
    fn what_is_set_and_removed_has_names_of_its_own() {
        let mut condition = Condition::as_read(Some(&item(&[("tags", tagged(&["a"]))])));
        let text = condition.updating(vec![("tags", tagged(&["b"])), ("auth", s("x"))], &["vapid_key_id"]);
        assert_eq!(text, "SET #tags = :tags, #auth = :auth REMOVE #vapid_key_id");
        assert_eq!(condition.values[":was_tags"], tagged(&["a"]));
        assert_eq!(condition.values[":tags"], tagged(&["b"]));
    }

    #[test]
    fn a_change_says_what_is_counted_and_tagged_afterwards() {
        let before = item(&[("endpoint", s("https://a")), ("tags", tagged(&["a", "b"]))]);
        let tombstone = item(&[("state", s("deleted"))]);
        let part = |sets: Vec<(&'static str, AttributeValue)>, removes| After::Part { sets, removes };
        let told = |after: &After| {
            let tags = tags_after(Some(&before), after);
            (counts(Some(&before), after), tags.iter().map(Tag::to_string).collect::<Vec<_>>())
        };
        assert_eq!(told(&After::Nothing), (false, vec![]));
        assert_eq!(told(&After::Whole(tombstone)), (false, vec![]));
        assert_eq!(told(&part(vec![], vec!["auth"])), (true, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(told(&part(vec![("tags", tagged(&["c"]))], vec![])), (true, vec!["c".to_owned()]));
        assert_eq!(told(&part(vec![], vec!["tags"])), (true, vec![]));
    }
}
