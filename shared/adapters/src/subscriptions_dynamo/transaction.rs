//! Every change that adds, replaces or removes a subscription: the item, the tenant's count, the rows of its audiences and the row of its
//! endpoint, in one transaction, on the condition that item and row are still as they were read. One that gets the endpoint of another
//! ends that one in the same transaction.
//!
//! The item is read first, and the attributes that decisions depend on ([`DECIDES`]) are in the condition. Of two changes at once, the
//! second fails, reads again and decides again. A receiver's health is not among these attributes: it changes with every attempt, and a
//! change that keeps it does not write it.

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use redial_core::audience::shard_of;
use redial_core::endpoint::Endpoint;
use redial_core::identity::SubscriptionKey;
use redial_core::reason::Reason;
use redial_core::subscription::State;
use redial_core::tag::Tags;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::holder::{HOLDS, Holder, endpoint_of, holds};
use super::{DynamoSubscriptions, item, item_key};
use crate::table::Change;
use crate::table::attributes::{Item, ms, s};
use crate::{audiences_dynamo, aws_error};

/// The attributes that decisions depend on: a change to one of them makes a concurrent decision start over.
const DECIDES: [&str; 10] = [
    "kind",
    "endpoint",
    "state",
    "tags",
    "time_zone",
    "consent_at",
    "created_at",
    "authorized_at",
    "deleted_at",
    HOLDS,
];

/// How often a change starts over while others keep changing the item.
const ROUNDS: usize = 8;

/// The item after a change.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum After {
    /// This item.
    Whole(Item),
    /// These attributes set and those removed; all others stay.
    Part { sets: Vec<(&'static str, AttributeValue)>, removes: Vec<&'static str> },
    /// This item of another stack, as it is: whether it has its endpoint included.
    Copy(Item),
    /// It is removed, and that is noted.
    Nothing(Reason),
}

/// What a change is decided on.
#[derive(Debug)]
pub(super) struct Met<'a> {
    pub(super) before: Option<&'a Item>,
    /// Who else has the endpoint that is to be stored.
    pub(super) holder: &'a Holder,
}

/// What becomes of another subscription that has the endpoint.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Ends {
    /// A tombstone is left.
    Replaced,
    /// It is switched off, for the walk to announce and remove.
    Stale,
}

impl DynamoSubscriptions {
    /// Reads the item, and writes the change that `decide` returns, if any; returns its second result. `decide` is called again whenever
    /// the item has changed meanwhile. `endpoint`: that of a browser, which the item is to have; who has it is read where the item does
    /// not have it yet.
    pub(super) async fn change<T>(
        &self,
        key: &SubscriptionKey,
        endpoint: Option<&Endpoint>,
        now: Timestamp,
        decide: impl FnMut(Met<'_>) -> Result<(Option<After>, T), PortError>,
    ) -> Result<T, PortError> {
        self.change_both(key, endpoint, Ends::Replaced, now, decide).await
    }

    /// The same, with what becomes of the one that loses the endpoint.
    pub(super) async fn change_both<T>(
        &self,
        key: &SubscriptionKey,
        endpoint: Option<&Endpoint>,
        ends: Ends,
        now: Timestamp,
        mut decide: impl FnMut(Met<'_>) -> Result<(Option<After>, T), PortError>,
    ) -> Result<T, PortError> {
        for _ in 0..ROUNDS {
            let before = self.table.get_one(item_key(key)).await?;
            let has_it = |before: &Item| holds(before) && endpoint_of(before).as_ref() == endpoint;
            let holder = match endpoint {
                Some(endpoint) if !before.as_ref().is_some_and(has_it) => {
                    self.holder_of(key, endpoint, now).await?
                }
                Some(_) | None => Holder::default(),
            };
            let (after, outcome) = decide(Met { before: before.as_ref(), holder: &holder })?;
            let Some(after) = after else { return Ok(outcome) };
            if self.commit(key, before.as_ref(), after, &holder, &ends, now).await? {
                return Ok(outcome);
            }
        }
        Err(aws_error::of_code("TransactWriteItems", "Contention"))
    }

    /// `false` if the item, or the row of its endpoint, is not as it was read.
    async fn commit(
        &self,
        key: &SubscriptionKey,
        before: Option<&Item>,
        mut after: After,
        holder: &Holder,
        ends: &Ends,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let end = end(before, &after);
        let tags_before = before.map(item::tags).unwrap_or_default();
        let mut writes = audiences_dynamo::changes(&self.audiences, key, &tags_before, &item::tags(&end));
        let mut steps =
            vec![(key, i8::from(item::is_stored(&end)) - i8::from(before.is_some_and(item::is_stored)))];
        let had = before.filter(|before| holds(before)).and_then(endpoint_of);
        let is_copy = matches!(after, After::Copy(_));
        let has = endpoint_of(&end).filter(|_| !is_copy || holds(&end));
        if let Some(had) = had.as_ref().filter(|had| has.as_ref() != Some(had)) {
            writes.push(self.releases(key, had, now));
        }
        if let Some(endpoint) = has.as_ref() {
            let is_new = had.as_ref() != Some(endpoint);
            if is_new || matches!(after, After::Whole(_)) {
                after.holds();
            }
            if is_new {
                writes.push(self.gives(key, endpoint, holder));
            }
            if let Some((item, other)) = holder.stored().filter(|_| is_new) {
                writes.extend(self.ends(item, &other.key, ends, now));
                // A copy follows from what the other stack has announced.
                if *ends == Ends::Replaced && !is_copy {
                    writes.push(self.notes_removed(&other.key, Reason::EndpointReplaced, now));
                }
                steps.push((&other.key, if *ends == Ends::Replaced { -1 } else { 0 }));
            }
        }
        // A transaction takes one write an item, and both may be counted in one.
        if let [(one, by), (other, less)] = steps[..]
            && shard_of(&one.id) == shard_of(&other.id)
        {
            steps = vec![(one, by + less)];
        }
        let counted = steps.into_iter().filter(|(_, step)| *step != 0);
        writes.extend(counted.map(|(key, step)| self.control.counting(key, step)));
        let (condition, mut values) = if is_copy { exactly_as_read(before) } else { as_read(before) };
        let change = match after {
            After::Whole(item) | After::Copy(item) => Change::Put(item),
            After::Nothing(reason) => {
                writes.push(self.notes_removed(key, reason, now));
                Change::Delete(item_key(key))
            }
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
        self.table.transact(&writes).await
    }

    /// Ends another subscription, whose item this is, if that is as it was read.
    fn ends(
        &self,
        item: &Item,
        key: &SubscriptionKey,
        ends: &Ends,
        now: Timestamp,
    ) -> Vec<TransactWriteItem> {
        let (condition, mut values) = as_read(Some(item));
        match ends {
            Ends::Replaced => {
                let change = Change::Put(item::tombstone(key, None, now));
                let rows =
                    audiences_dynamo::changes(&self.audiences, key, &item::tags(item), &Tags::default());
                [self.table.write(change, Some(&condition), values)].into_iter().chain(rows).collect()
            }
            Ends::Stale => {
                let sets = [("state", s(State::Stale.label())), ("updated_at", ms(now))];
                let expression = updating(&sets, &[HOLDS]);
                values.extend(sets.into_iter().map(|(name, value)| (format!(":{name}"), value)));
                vec![self.table.write(Change::Update(item_key(key), expression), Some(&condition), values)]
            }
        }
    }
}

impl After {
    /// Marks an item that has its endpoint.
    fn holds(&mut self) {
        let yes = AttributeValue::Bool(true);
        match self {
            Self::Whole(item) => {
                item.insert(HOLDS.to_owned(), yes);
            }
            Self::Part { sets, .. } => sets.push((HOLDS, yes)),
            Self::Copy(_) | Self::Nothing(_) => {}
        }
    }
}

/// The item afterwards; empty if there is none.
fn end(before: Option<&Item>, after: &After) -> Item {
    match after {
        After::Whole(item) | After::Copy(item) => item.clone(),
        After::Part { sets, removes } => {
            let mut item = before.cloned().unwrap_or_default();
            item.extend(sets.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            item.retain(|name, _| !removes.contains(&name.as_str()));
            item
        }
        After::Nothing(_) => Item::new(),
    }
}

/// The condition that an item is as it was read, and its values.
fn as_read(before: Option<&Item>) -> (String, Item) {
    on(before, &DECIDES)
}

/// The same, its health included, of which every change sets `updated_at`.
fn exactly_as_read(before: Option<&Item>) -> (String, Item) {
    let names: Vec<&str> = DECIDES.into_iter().chain(["updated_at"]).collect();
    on(before, &names)
}

fn on(before: Option<&Item>, names: &[&str]) -> (String, Item) {
    let Some(before) = before else { return ("attribute_not_exists(pk)".to_owned(), Item::new()) };
    let (mut condition, mut values) = ("attribute_exists(pk)".to_owned(), Item::new());
    for name in names {
        match before.get(*name) {
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
    use crate::table::attributes::{item, n};

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
             AND attribute_not_exists(#tags) AND attribute_not_exists(#time_zone) AND attribute_not_exists(#consent_at) \
             AND attribute_not_exists(#created_at) AND attribute_not_exists(#authorized_at) AND attribute_not_exists(#deleted_at) AND attribute_not_exists(#holds)"
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
            (After::Nothing(Reason::Gone), false, &[][..]),
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
