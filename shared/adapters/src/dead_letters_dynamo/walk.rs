//! Descriptions in the order of time, the newest first, through the index: day by day, and within a day merged from the
//! partitions of every tenant and shard. A page of each partition is held, never a day.
//!
//! Where a walk stands is told by the last letter that it gave, so another one can go on there: nothing is given twice, and
//! nothing that was listed then is left out. A description that is listed later, as an index may be a moment behind, is
//! given only if its place has not been passed.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use redial_core::dead_letter::DeadLetterKey;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::described::{DAY_SHARDS, Described, partition, read, sort};
use super::{DynamoDeadLetters, moment};
use crate::attributes::{Item, s};
use crate::aws_error;

/// How many partitions are asked at a time.
const AT_A_TIME: usize = 16;

const DAY: Duration = Duration::from_secs(86_400);

/// A letter's place in the order of time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    sort: String,
    tenant: String,
    at: Timestamp,
}

impl Position {
    /// Of this letter.
    pub fn of(described: &Described) -> Self {
        let at = Timestamp::from_ms(described.reference.at);
        let key = described.reference.letter_key();
        Self { sort: sort(at, &key), tenant: key.tenant, at }
    }

    /// Reads what [`fmt::Display`] wrote: `time/tenant/id/letter`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '/');
        let at = Timestamp::parse_rfc3339(parts.next()?)?;
        let [tenant, id, letter] = [parts.next()?, parts.next()?, parts.next()?].map(str::to_owned);
        let key = DeadLetterKey { tenant, id, letter };
        let whole = [&key.tenant, &key.id, &key.letter].iter().all(|part| !part.is_empty());
        whole.then(|| Self { sort: sort(at, &key), tenant: key.tenant, at })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.sort.split_once('#').map_or("", |(_, key)| key).replace('#', "/");
        write!(f, "{}/{}/{key}", self.at.to_rfc3339(), self.tenant)
    }
}

/// Which letters a walk is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// Whose; of all tenants that have letters, without one.
    pub tenant: Option<String>,
    /// From then on.
    pub since: Timestamp,
    /// Before then.
    pub until: Timestamp,
    /// Only those that come after this one in the walk: older ones.
    pub after: Option<Position>,
}

/// A partition of the index, as far as it was read.
#[derive(Debug)]
struct Partition {
    name: String,
    page: VecDeque<(Position, Described)>,
    next: Option<HashMap<String, AttributeValue>>,
    ended: bool,
}

/// Gives the letters of a [`Scope`], one by one.
#[derive(Debug)]
pub struct Walk<'a> {
    store: &'a DynamoDeadLetters,
    scope: Scope,
    page: i32,
    /// The day that comes after those that were opened.
    day: Option<Timestamp>,
    partitions: Vec<Partition>,
}

impl DynamoDeadLetters {
    /// Walks through these letters. `page` is how many of a partition are read at once: few where few are wanted.
    pub fn walk(&self, scope: Scope, page: u16) -> Walk<'_> {
        let newest = scope.after.as_ref().map_or(scope.until, |after| after.at.min(scope.until));
        let day = (newest >= scope.since).then_some(newest);
        Walk { store: self, scope, page: i32::from(page.max(1)), day, partitions: Vec::new() }
    }
}

impl Walk<'_> {
    /// The next letter.
    pub async fn next(&mut self) -> Result<Option<Described>, PortError> {
        loop {
            self.read_on().await?;
            let newest = self.partitions.iter_mut().max_by(|a, b| a.head().cmp(&b.head()));
            if let Some((_, described)) = newest.and_then(|partition| partition.page.pop_front()) {
                return Ok(Some(described));
            }
            let Some(day) = self.day else { return Ok(None) };
            self.open(&day.day()).await?;
            let before = day.minus(DAY);
            self.day = (before.day() >= self.scope.since.day()).then_some(before);
        }
    }

    async fn open(&mut self, day: &str) -> Result<(), PortError> {
        let tenants = match &self.scope.tenant {
            Some(tenant) => vec![tenant.clone()],
            None => self.store.tenants_on(day).await?,
        };
        let names = tenants
            .iter()
            .flat_map(|tenant| (0..DAY_SHARDS).map(move |shard| partition(tenant, day, shard)))
            .map(|name| Partition { name, page: VecDeque::new(), next: None, ended: false });
        self.partitions = names.collect();
        Ok(())
    }

    /// Reads on in every partition of which no letter is left.
    async fn read_on(&mut self) -> Result<(), PortError> {
        let (store, scope, page) = (self.store, &self.scope, self.page);
        let empty = self.partitions.iter_mut().filter(|it| it.page.is_empty() && !it.ended);
        let reads: Vec<_> = empty.map(|it| it.read_on(store, scope, page)).collect();
        stream::iter(reads).buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
        self.partitions.retain(|it| !it.page.is_empty());
        Ok(())
    }
}

impl Partition {
    fn head(&self) -> Option<&Position> {
        self.page.front().map(|(position, _)| position)
    }

    async fn read_on(
        &mut self,
        store: &DynamoDeadLetters,
        scope: &Scope,
        page: i32,
    ) -> Result<(), PortError> {
        // A letter's sort key begins with its moment and goes on, so it is greater than the bare moment.
        let until = match &scope.after {
            Some(after) if after.at < scope.until => after.sort.clone(),
            Some(_) | None => moment(scope.until),
        };
        while self.page.is_empty() && !self.ended {
            let answer = store
                .client
                .query()
                .table_name(&store.table)
                .index_name("by_day")
                .key_condition_expression("gsi_pk = :partition AND gsi_sk BETWEEN :since AND :until")
                .expression_attribute_values(":partition", s(&self.name))
                .expression_attribute_values(":since", s(moment(scope.since)))
                .expression_attribute_values(":until", s(&until))
                .scan_index_forward(false)
                .limit(page)
                .set_exclusive_start_key(self.next.take())
                .send()
                .await
                .map_err(|error| aws_error::of_call("Query", &error))?;
            let place = |item: &Item| {
                let described = read(item)?;
                let position = Position::of(&described);
                let is_new = scope.after.as_ref().is_none_or(|after| position < *after);
                is_new.then_some((position, described))
            };
            self.page.extend(answer.items().iter().filter_map(place));
            self.next = answer.last_evaluated_key;
            self.ended = self.next.is_none();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters_dynamo::described::tests::reference;

    fn position(tenant: &str, id: &str, at: i64) -> Position {
        let reference = reference(tenant, id, at);
        Position::of(&Described { reference, replayed_at: None, kept_until: None })
    }

    #[test]
    fn a_position_reads_back() {
        let position = position("acme", "d-1", 1_795_000_000_123);
        let text = position.to_string();
        assert!(text.ends_with(".123Z/acme/d-1/lineage-0"), "{text}");
        assert_eq!(Position::parse(&text), Some(position));
        for text in ["", "now/acme/d/l", "2026-11-21T10:05:00Z", "2026-11-21T10:05:00Z/acme/d/", "a/b/c/d"] {
            assert_eq!(Position::parse(text), None, "{text}");
        }
    }

    #[test]
    fn positions_are_ordered_by_time_and_then_by_what_tells_letters_apart() {
        let day = 1_795_000_000_000;
        let ordered = [
            position("zeta", "z", day),
            position("acme", "a", day + 1),
            position("bolt", "a", day + 1),
            position("acme", "b", day + 1),
            position("acme", "a", day + 2),
        ];
        assert!(ordered.is_sorted());
    }
}
