//! Descriptions in the order of time, the newest first, through the index: day by day, and within a day merged from the
//! partitions of every tenant and shard. A page of each partition is held, never a day.
//!
//! The position of a walk is the last dead letter that it returned, so another walk can continue there: none is returned twice, and
//! none that was listed then is left out. A description that the index lists later, as it may be a moment behind, is returned only if
//! its position has not been passed.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use redial_core::dead_letter::DeadLetterKey;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::DynamoDeadLetters;
use super::items::{DAY_SHARDS, Described, moment, partition, read, sort};
use crate::table::attributes::{Item, s};
use crate::table::page;

/// How many partitions are read at a time.
const AT_A_TIME: usize = 16;

const DAY: Duration = Duration::from_secs(86_400);

/// A dead letter's position in the order of time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    sort: String,
    tenant: String,
    at: Timestamp,
}

impl Position {
    pub fn of(described: &Described) -> Self {
        let at = Timestamp::from_ms(described.reference.at);
        let key = described.reference.key();
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

/// The dead letters that a walk returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// `None`: all tenants.
    pub tenant: Option<String>,
    /// Inclusive.
    pub since: Timestamp,
    /// Exclusive.
    pub until: Timestamp,
    /// Only dead letters that come after this position: older ones.
    pub after: Option<Position>,
}

/// A partition of the index, as far as it has been read.
#[derive(Debug)]
struct Partition {
    name: String,
    page: VecDeque<(Position, Described)>,
    next: Option<Item>,
    ended: bool,
}

/// Returns the dead letters of a [`Scope`], one by one.
#[derive(Debug)]
pub struct Walk<'a> {
    store: &'a DynamoDeadLetters,
    scope: Scope,
    page: i32,
    /// The next day to open.
    day: Option<Timestamp>,
    partitions: Vec<Partition>,
}

impl DynamoDeadLetters {
    /// `page` is how many of a partition are read at once: few where few are wanted.
    pub fn walk(&self, scope: Scope, page: u16) -> Walk<'_> {
        let newest = scope.after.as_ref().map_or(scope.until, |after| after.at.min(scope.until));
        let day = (newest >= scope.since).then_some(newest);
        Walk { store: self, scope, page: i32::from(page.max(1)), day, partitions: Vec::new() }
    }
}

impl Walk<'_> {
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

    /// Reads the next page of every partition whose page is empty.
    async fn read_on(&mut self) -> Result<(), PortError> {
        let (store, scope, page) = (self.store, &self.scope, self.page);
        let empty =
            self.partitions.iter_mut().filter(|partition| partition.page.is_empty() && !partition.ended);
        let reads: Vec<_> = empty.map(|partition| partition.read_on(store, scope, page)).collect();
        stream::iter(reads).buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
        self.partitions.retain(|partition| !partition.page.is_empty());
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
        limit: i32,
    ) -> Result<(), PortError> {
        // A sort key begins with the moment and goes on, so it is greater than the bare moment.
        let until = match &scope.after {
            Some(after) if after.at < scope.until => after.sort.clone(),
            Some(_) | None => moment(scope.until),
        };
        while self.page.is_empty() && !self.ended {
            let values =
                [(":partition", s(&self.name)), (":since", s(moment(scope.since))), (":until", s(&until))];
            let condition = "gsi_pk = :partition AND gsi_sk BETWEEN :since AND :until";
            let query = store.table.query_index("by_day", condition, values);
            let query = query.scan_index_forward(false).limit(limit);
            let answer = page(query.set_exclusive_start_key(self.next.take())).await?;
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
    use super::super::items::tests::reference;
    use super::*;

    fn position(tenant: &str, id: &str, at: i64) -> Position {
        let reference = reference(tenant, id, at);
        Position::of(&Described { reference, replayed_at: None, kept_until: None })
    }

    #[test]
    fn a_position_reads_back_and_is_ordered_by_time_and_then_by_key() {
        let first = position("acme", "d-1", 1_795_000_000_123);
        let text = first.to_string();
        assert!(text.ends_with(".123Z/acme/d-1/lineage-0"), "{text}");
        assert_eq!(Position::parse(&text), Some(first));
        for text in ["", "now/acme/d/l", "2026-11-21T10:05:00Z", "2026-11-21T10:05:00Z/acme/d/", "a/b/c/d"] {
            assert_eq!(Position::parse(text), None, "{text}");
        }
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
