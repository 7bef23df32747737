//! The index `by_state` of the `deliveries` table ([`redial_core::ledger::listing`]): partition key `found_by`, sort key `found_at`, strings.
//!
//! It is sparse, because most entries have neither attribute, and holds keys alone. A page is read from every partition of the tenant's
//! entries in these states, merged, and cut; the position of its last one is where the next page begins.

use futures_util::future::try_join_all;
use redial_core::identity::DeliveryKey;
use redial_core::ledger::listing::{Listing, Position, partitions};
use redial_engine::ports::PortError;

use crate::table::attributes::{Read, s};
use crate::table::{Table, page as one_page};

const INDEX: &str = "by_state";

/// The keys of a page, the latest first, and where the next one begins.
pub(crate) async fn page(
    table: &Table,
    listing: &Listing,
) -> Result<(Vec<DeliveryKey>, Option<Position>), PortError> {
    let states = listing.filter.states().iter();
    let names = states.flat_map(|state| partitions(&listing.tenant, *state));
    let read = try_join_all(names.map(|name| of_partition(table, listing, name))).await?;
    Ok(listing.page(read.into_iter().flatten().collect()))
}

/// One more than the limit of one partition, so that it is known whether there are more.
async fn of_partition(table: &Table, listing: &Listing, name: String) -> Result<Vec<Position>, PortError> {
    // A sort key begins with the moment and goes on with `#`, which is before `~`.
    let until = listing.after.as_ref().map_or_else(|| "~".to_owned(), Position::to_sort);
    let since = listing.since.to_rfc3339();
    // DynamoDB refuses a range that ends before it begins; a usual `since` passes a page's `next` while its reader takes time.
    if until < since {
        return Ok(Vec::new());
    }
    let condition = "found_by = :by AND found_at BETWEEN :since AND :until";
    let values = [(":by", s(name)), (":since", s(since)), (":until", s(until))];
    // The one that the listing goes on from is the first of its partition.
    let most = i32::try_from(listing.limit() + 2).unwrap_or(i32::MAX);
    let query = table.query_index(INDEX, condition, values).scan_index_forward(false).limit(most);
    let items = one_page(query).await?.items.unwrap_or_default();
    let positions = items.iter().filter_map(|item| Position::of_sort(item.text("found_at")?));
    Ok(positions.filter(|position| listing.after.as_ref().is_none_or(|after| position < after)).collect())
}

#[cfg(test)]
#[path = "by_state_dynamo_tests.rs"]
mod tests;
