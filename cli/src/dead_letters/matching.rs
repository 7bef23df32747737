//! The dead letters that match a filter, newest first, and their number by tenant and reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::ready,
    time::Duration,
};

use futures_util::{
    StreamExt as _, TryStreamExt as _,
    future::try_join_all,
    stream::{self, LocalBoxStream},
};
use redial_adapters::dead_letters_dynamo::{Described, DynamoDeadLetters, Position, Walk};
use redial_core::dead_letter::Reference;
use redial_engine::ports::PortError;
use serde::{Deserialize, Serialize};

use super::which::Filter;
use crate::{
    line::Line,
    table::{Column, Narrow, Table},
    terminal::width,
};

/// Items to read at once from a partition of the index where all are needed.
pub(super) const LARGE_PAGE: u16 = 250;

const DAY: Duration = Duration::from_secs(86_400);

pub(super) type Matching<'a> = LocalBoxStream<'a, Result<Described, PortError>>;

/// Those after `after`: by tenant and time from the index, in pages of that size; by id from their partition of the table.
pub(super) async fn matching<'a>(
    store: &'a DynamoDeadLetters,
    filter: &'a Filter,
    after: Option<Position>,
    page: u16,
) -> Result<Matching<'a>, PortError> {
    let matches = |described: &Described| ready(filter.matches(described));
    let Some(id) = &filter.which.id else {
        let next = async |mut walk: Walk<'a>| Ok(walk.next().await?.map(|described| (described, walk)));
        let all = stream::try_unfold(store.walk(filter.scope(after), page), next);
        return Ok(all.try_filter(matches).boxed_local());
    };
    let tenants = match &filter.which.tenant {
        Some(tenant) => BTreeSet::from([tenant.clone()]),
        None => tenants(store, filter).await?,
    };
    let letters =
        try_join_all(tenants.iter().map(|tenant| store.dead_letters_of(tenant, id.as_str()))).await?;
    let described = letters.into_iter().flatten().filter_map(|letter| letter.described);
    let mut found: Vec<Described> = described
        .filter(|described| after.as_ref().is_none_or(|after| Position::of(described) < *after))
        .collect();
    found.sort_by_key(|described| std::cmp::Reverse(Position::of(described)));
    Ok(stream::iter(found.into_iter().map(Ok)).try_filter(matches).boxed_local())
}

/// The tenants that had dead letters on a day of the filter.
async fn tenants(store: &DynamoDeadLetters, filter: &Filter) -> Result<BTreeSet<String>, PortError> {
    let mut tenants = BTreeSet::new();
    let mut day = filter.until;
    while day.day() >= filter.since.day() {
        tenants.extend(store.tenants_on(&day.day()).await?);
        day = day.minus(DAY);
    }
    Ok(tenants)
}

pub(super) async fn count(store: &DynamoDeadLetters, filter: &Filter) -> Result<Tally, PortError> {
    let mut tally = Tally::default();
    let mut matching = matching(store, filter, None, LARGE_PAGE).await?;
    while let Some(described) = matching.try_next().await? {
        tally.add(&described.reference);
    }
    Ok(tally)
}

/// Counts by tenant and reason: `{"acme": {"poison": 3}}`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally(BTreeMap<String, BTreeMap<String, u64>>);

impl Tally {
    pub(super) fn add(&mut self, reference: &Reference) {
        let of_tenant = self.0.entry(reference.tenant.clone()).or_default();
        *of_tenant.entry(reference.reason.clone()).or_default() += 1;
    }

    pub(super) fn total(&self) -> u64 {
        self.0.values().flat_map(BTreeMap::values).sum()
    }

    /// A table by tenant and reason; `ready` adds a column with the dead letters that would be sent.
    pub(super) fn lines(&self, ready: Option<&Self>) -> Vec<Line> {
        let [tenant, reason] = ["TENANT", "REASON"].map(Column::text);
        let tenant = tenant.narrowed(0, Narrow::CutEnd);
        let numbers = ["DEAD LETTERS", ready.map_or("", |_| "TO BE SENT")].map(Column::number);
        let mut table = Table::new([tenant, reason].into_iter().chain(numbers)).within(width());
        for (tenant, reasons) in &self.0 {
            for (reason, number) in reasons {
                let of =
                    |ready: &Self| ready.0.get(tenant).and_then(|it| it.get(reason)).copied().unwrap_or(0);
                let ready = ready.map_or(String::new(), |ready| of(ready).to_string());
                table.add([tenant.clone(), reason.clone(), number.to_string(), ready]);
            }
        }
        table.lines()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters::described_tests::described;

    #[test]
    fn counts_are_aligned() {
        let (mut found, mut ready) = (Tally::default(), Tally::default());
        (0..12).for_each(|_| found.add(&described().reference));
        ready.add(&described().reference);
        let both = found.lines(Some(&ready));
        assert_eq!(both[0], "TENANT  REASON             DEAD LETTERS  TO BE SENT");
        assert_eq!(both[1], "acme    retries_exhausted            12           1");
        assert_eq!((both.len(), &*found.lines(None)[0]), (2, "TENANT  REASON             DEAD LETTERS"));
    }
}
