//! Every change that adds, replaces or removes a subscription: the item, the tenant's count and the rows of its audiences, in one
//! transaction, on the condition that the item is still as it was read.
//!
//! The item is read first, and the attributes that decisions depend on ([`DECIDES`]) are in the condition. Of two changes at once, the
//! second fails, reads again and decides again. A receiver's health is not among these attributes: it changes with every attempt, and a
//! change that keeps it does not write it.

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::identity::SubscriptionKey;
use redial_engine::ports::PortError;

use super::{DynamoSubscriptions, item, item_key};
use crate::table::attributes::Item;
use crate::table::{Change, transact};
use crate::{audiences_dynamo, aws_error};

/// The attributes that decisions depend on: a change to one of them makes a concurrent decision start over.
const DECIDES: [&str; 7] = ["kind", "endpoint", "state", "tags", "created_at", "authorized_at", "deleted_at"];

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
            let before = self.table.get_one(item_key(key)).await?;
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
        let end = end(before, &after);
        let step = i8::from(item::is_stored(&end)) - i8::from(before.is_some_and(item::is_stored));
        let tags_before = before.map(item::tags).unwrap_or_default();
        let mut writes = audiences_dynamo::changes(&self.audiences, key, &tags_before, &item::tags(&end));
        if step != 0 {
            writes.push(self.control.counting(key, step));
        }
        let (condition, mut values) = as_read(before);
        let change = match after {
            After::Whole(item) => Change::Put(item),
            After::Nothing => Change::Delete(item_key(key)),
            After::Part { sets, removes } => {
                let expression = updating(&sets, &removes);
                values.extend(sets.into_iter().map(|(name, value)| (format!(":{name}"), value)));
                // Most renewals, at half of a transaction's price.
                if writes.is_empty() {
                    let update = self.table.update(item_key(key), expression, []);
                    let update = update.condition_expression(condition);
                    let update = update.set_expression_attribute_values(Some(values));
                    return Ok(self.table.send(update).await?.is_done());
                }
                Change::Update(item_key(key), expression)
            }
        };
        writes.insert(0, self.table.write(change, Some(&condition), values));
        transact(self.table.client(), &writes).await
    }
}

/// The item afterwards; empty if there is none.
fn end(before: Option<&Item>, after: &After) -> Item {
    match after {
        After::Whole(item) => item.clone(),
        After::Part { sets, removes } => {
            let mut item = before.cloned().unwrap_or_default();
            item.extend(sets.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            item.retain(|name, _| !removes.contains(&name.as_str()));
            item
        }
        After::Nothing => Item::new(),
    }
}

/// The condition that an item is as it was read, and its values.
fn as_read(before: Option<&Item>) -> (String, Item) {
    let Some(before) = before else { return ("attribute_not_exists(pk)".to_owned(), Item::new()) };
    let (mut condition, mut values) = ("attribute_exists(pk)".to_owned(), Item::new());
    for name in DECIDES {
        match before.get(name) {
            Some(value) => {
                values.insert(format!(":was_{name}"), value.clone());
                condition.push_str(&format!(" AND #{name} = :was_{name}"));
            }
            None => condition.push_str(&format!(" AND attribute_not_exists(#{name})")),
        }
    }
    (condition, values)
}

/// `SET … REMOVE …`; the value of `name` is `:name`.
fn updating(sets: &[(&str, AttributeValue)], removes: &[&str]) -> String {
    let sets: Vec<String> = sets.iter().map(|(name, _)| format!("#{name} = :{name}")).collect();
    let removes: Vec<String> = removes.iter().map(|name| format!("#{name}")).collect();
    let parts = [("SET", sets), ("REMOVE", removes)].into_iter().filter(|(_, parts)| !parts.is_empty());
    parts.map(|(verb, parts)| format!("{verb} {}", parts.join(", "))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use redial_core::tag::Tag;

    use super::super::item;
    use super::*;
    use crate::table::attributes::{item, n, s};

    fn tagged(tags: &[&str]) -> AttributeValue {
        AttributeValue::L(tags.iter().map(|tag| s(*tag)).collect())
    }

    #[test]
    fn the_condition_names_the_attributes_that_decide() {
        assert_eq!(as_read(None), ("attribute_not_exists(pk)".to_owned(), Item::new()));
        let before = item([("endpoint", s("https://a")), ("state", s("active")), ("failures", n(3))]);
        let (condition, values) = as_read(Some(&before));
        assert_eq!(
            condition,
            "attribute_exists(pk) AND attribute_not_exists(#kind) AND #endpoint = :was_endpoint AND #state = :was_state \
             AND attribute_not_exists(#tags) AND attribute_not_exists(#created_at) AND attribute_not_exists(#authorized_at) \
             AND attribute_not_exists(#deleted_at)"
        );
        assert_eq!(values, item([(":was_endpoint", s("https://a")), (":was_state", s("active"))]));
        let sets = [("tags", tagged(&["b"])), ("auth", s("x"))];
        assert_eq!(
            updating(&sets, &["vapid_key_id"]),
            "SET #tags = :tags, #auth = :auth REMOVE #vapid_key_id"
        );
    }

    #[test]
    fn a_change_determines_the_count_and_the_tags() {
        let before = item([("endpoint", s("https://a")), ("tags", tagged(&["a", "b"]))]);
        let part = |sets: Vec<(&'static str, AttributeValue)>, removes| After::Part { sets, removes };
        for (after, counts, tags) in [
            (After::Nothing, false, &[][..]),
            (After::Whole(item([("state", s("deleted"))])), false, &[]),
            (part(vec![], vec!["auth"]), true, &["a", "b"]),
            (part(vec![("tags", tagged(&["c"]))], vec![]), true, &["c"]),
            (part(vec![], vec!["tags"]), true, &[]),
        ] {
            let end = end(Some(&before), &after);
            let found = item::tags(&end);
            let found: Vec<&str> = found.iter().map(Tag::as_str).collect();
            assert_eq!((item::is_stored(&end), &found[..]), (counts, tags), "{after:?}");
        }
    }
}
