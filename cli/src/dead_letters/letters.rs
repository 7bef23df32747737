//! The letters that a filter names, one by one and the newest first.
//!
//! By tenant and time they come out of the index; by id they lie in one partition of the table, which is asked for directly.

use std::collections::{BTreeSet, VecDeque};

use futures_util::future::try_join_all;
use redial_adapters::dead_letters_dynamo::{Described, DynamoDeadLetters, Position, Walk};
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::{Filter, Tally};

/// How many of a partition of the index are read at once where all of them are wanted.
pub(super) const LARGE_PAGE: u16 = 250;

const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);

/// Gives letters.
#[derive(Debug)]
pub(crate) struct Letters<'a> {
    filter: &'a Filter,
    source: Source<'a>,
}

#[derive(Debug)]
enum Source<'a> {
    Index(Walk<'a>),
    Found(VecDeque<Described>),
}

impl<'a> Letters<'a> {
    /// Those that come after `after`, read in pages of that size.
    pub(crate) async fn open(
        store: &'a DynamoDeadLetters,
        filter: &'a Filter,
        after: Option<Position>,
        page: u16,
    ) -> Result<Self, PortError> {
        let source = match &filter.id {
            None => Source::Index(store.walk(filter.scope(after), page)),
            Some(id) => {
                let tenants = match &filter.tenant {
                    Some(tenant) => BTreeSet::from([tenant.clone()]),
                    None => tenants(store, filter).await?,
                };
                let of = tenants.iter().map(|tenant| store.letters_of(tenant, id.as_str()));
                let found = try_join_all(of).await?.into_iter().flatten();
                let described = found.filter_map(|letter| letter.described);
                let mut placed: Vec<(Position, Described)> =
                    described.map(|it| (Position::of(&it), it)).collect();
                placed.retain(|(position, _)| after.as_ref().is_none_or(|after| position < after));
                placed.sort_by(|(a, _), (b, _)| b.cmp(a));
                Source::Found(placed.into_iter().map(|(_, described)| described).collect())
            }
        };
        Ok(Self { filter, source })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Result<Option<Described>, PortError> {
        loop {
            let next = match &mut self.source {
                Source::Index(walk) => walk.next().await?,
                Source::Found(found) => found.pop_front(),
            };
            match next {
                Some(described) if !self.filter.matches(&described) => {}
                next => return Ok(next),
            }
        }
    }

    /// The next ones, so many at most.
    pub(super) async fn some(&mut self, most: usize) -> Result<Vec<Described>, PortError> {
        let mut some = Vec::new();
        while some.len() < most
            && let Some(next) = self.next().await?
        {
            some.push(next);
        }
        Ok(some)
    }
}

/// Everybody who has had letters on a day of the filter's.
async fn tenants(store: &DynamoDeadLetters, filter: &Filter) -> Result<BTreeSet<String>, PortError> {
    let mut tenants = BTreeSet::new();
    let mut day: Timestamp = filter.until;
    while day.day() >= filter.since.day() {
        tenants.extend(store.tenants_on(&day.day()).await?);
        day = day.minus(DAY);
    }
    Ok(tenants)
}

/// Counts letters by tenant and reason.
pub(crate) async fn count(store: &DynamoDeadLetters, filter: &Filter) -> Result<Tally, PortError> {
    let mut letters = Letters::open(store, filter, None, LARGE_PAGE).await?;
    let mut tally = Tally::default();
    while let Some(described) = letters.next().await? {
        tally.add(&described.reference);
    }
    Ok(tally)
}
