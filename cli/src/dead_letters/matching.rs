//! The dead letters that match a filter, one by one, newest first.
//!
//! By tenant and time they come from the index; by id from their partition of the table.

use std::collections::{BTreeSet, VecDeque};

use futures_util::future::try_join_all;
use redial_adapters::dead_letters_dynamo::{Described, DynamoDeadLetters, Position, Walk};
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::{filter::Filter, tally::Tally};

/// Items to read at once from a partition of the index where all are needed.
pub(super) const LARGE_PAGE: u16 = 250;

const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);

#[derive(Debug)]
pub(super) struct Matching<'a> {
    filter: &'a Filter,
    source: Source<'a>,
}

#[derive(Debug)]
enum Source<'a> {
    Index(Walk<'a>),
    Found(VecDeque<Described>),
}

impl<'a> Matching<'a> {
    /// Those after `after`, read in pages of that size.
    pub(super) async fn open(
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

    pub(super) async fn next(&mut self) -> Result<Option<Described>, PortError> {
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

    pub(super) async fn next_batch(&mut self, most: usize) -> Result<Vec<Described>, PortError> {
        let mut batch = Vec::new();
        while batch.len() < most
            && let Some(next) = self.next().await?
        {
            batch.push(next);
        }
        Ok(batch)
    }
}

/// The tenants that had dead letters on a day of the filter.
async fn tenants(store: &DynamoDeadLetters, filter: &Filter) -> Result<BTreeSet<String>, PortError> {
    let mut tenants = BTreeSet::new();
    let mut day: Timestamp = filter.until;
    while day.day() >= filter.since.day() {
        tenants.extend(store.tenants_on(&day.day()).await?);
        day = day.minus(DAY);
    }
    Ok(tenants)
}

pub(super) async fn count(store: &DynamoDeadLetters, filter: &Filter) -> Result<Tally, PortError> {
    let mut matching = Matching::open(store, filter, None, LARGE_PAGE).await?;
    let mut tally = Tally::default();
    while let Some(described) = matching.next().await? {
        tally.add(&described.reference);
    }
    Ok(tally)
}
