//! Pages of audiences on the `audiences` table ([`redial_core::page`]).
//!
//! | pk | sk | what | expires |
//! |---|---|---|---|
//! | `run#<tenant>#<run>#<part>` | `members#<first>` | the members of the page that begins behind `first` of its part, as one text, when the run was opened, and what its message says of itself | with the run |
//! | the same | `sheet#<first>` | what became of their places: who holds it, when that lease ends, at which step it is, when it was written, and when the last that were sent were | with the run |
//!
//! A part has a partition of its own: a page is some ten writes, and a partition takes a thousand a second. The numbers have ten digits,
//! so that their order is that of the texts: the page of a position is the last one that begins at it or before it.

use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure};
use redial_core::audience::{Run, RunKey};
use redial_core::identity::SubscriptionId;
use redial_core::ledger::Given;
use redial_core::page::{PageKey, Places, Position, Sheet};
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock as _, OnPage, PageClaim, PageLease, PortError};

use crate::delivery_item;
use crate::retries::Patience;
use crate::system::System;
use crate::table::attributes::{Item, Read, expiry, key, ms, n, or_null, s};
use crate::table::{Table, Update};

/// Records the members of a page, unless they are; answers those that are.
pub(crate) async fn record(
    table: &Table,
    run: &Run,
    page: &PageKey,
    members: &[SubscriptionId],
    given: &Given,
) -> Result<Vec<SubscriptionId>, PortError> {
    let ids = members.iter().map(SubscriptionId::as_str).collect::<Vec<_>>().join(" ");
    let values = [(":ids", s(ids)), (":opened", ms(run.opened_at)), (":end", expiry(run.kept_until))];
    let given = delivery_item::given(given);
    let set: String = given.iter().map(|(name, _)| format!(", {name} = :{name}")).collect();
    let expression = format!("SET ids = :ids, opened_at = :opened, expires_at = :end{set}");
    let mut update = table.update(members_key(page), expression, values);
    for (name, value) in given {
        update = update.expression_attribute_values(format!(":{name}"), value);
    }
    let update = update
        .condition_expression("attribute_not_exists(pk)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match table.send(update).await? {
        Update::Done(_) => Ok(members.to_vec()),
        Update::Refused(item) => members_of(&item).ok_or_else(|| unreadable("record_page")),
    }
}

/// Takes a page whose lease, if there is one, is over; or that this very lease has taken, and the answer was lost.
pub(crate) async fn claim(
    table: &Table,
    page: &PageKey,
    lease: &PageLease,
    now: Timestamp,
) -> Result<PageClaim, PortError> {
    let values = [
        (":token", s(lease.token.as_str())),
        (":until", ms(lease.until)),
        (":now", ms(now)),
        (":end", expiry(lease.kept_until)),
    ];
    let update = table
        .update(sheet_key(page), "SET held_by = :token, held_until = :until, expires_at = :end", values)
        .condition_expression("attribute_not_exists(pk) OR held_until <= :now OR held_by = :token")
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match table.send(update).await? {
        Update::Done(item) => sheet(&item).map(PageClaim::Granted),
        Update::Refused(item) => item.time("held_until").map(|until| PageClaim::Leased { until }),
    }
    .ok_or_else(|| unreadable("claim_page"))
}

/// Writes a sheet under its lease; whether that still holds it. A request that arrives after a later one of its lease changes nothing.
pub(crate) async fn write(
    table: &Table,
    page: &PageKey,
    lease: &PageLease,
    sheet: &Sheet,
) -> Result<bool, PortError> {
    let places = |places: Places| s(places.to_text());
    let values = [
        (":token", s(lease.token.as_str())),
        (":until", ms(lease.until)),
        (":step", n(sheet.step)),
        (":started", places(sheet.started)),
        (":sent", places(sheet.sent)),
        (":apart", places(sheet.apart)),
        (":settled", places(sheet.settled)),
        (":sent_at", or_null(sheet.sent_at.map(ms))),
        (":now", ms(System.now())),
    ];
    let expression = "SET held_until = :until, step = :step, started = :started, sent = :sent, apart = :apart, \
         settled = :settled, sent_at = :sent_at, written_at = :now";
    let update = table
        .update(sheet_key(page), expression, values)
        .condition_expression("held_by = :token AND (attribute_not_exists(step) OR step < :step)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    Ok(match table.send(update).await? {
        Update::Done(_) => true,
        // A call that was carried out without an answer and made again finds what it wrote.
        Update::Refused(item) => {
            item.text("held_by") == Some(&lease.token) && item.number("step") == Some(sheet.step)
        }
    })
}

/// The recipient at a position; `None` if no page has it, or its run is forgotten at `now`.
pub(crate) async fn find(
    table: &Table,
    position: &Position,
    now: Timestamp,
) -> Result<Option<OnPage>, PortError> {
    let Some((page, item)) = page_of(table, position).await? else { return Ok(None) };
    if item.expires_at().is_none_or(|at| at <= now) {
        return Ok(None);
    }
    let place = usize::try_from(position.number - page.first).unwrap_or(usize::MAX);
    let members = members_of(&item).ok_or_else(|| unreadable("find"))?;
    let Some(subscription) = members.into_iter().nth(place) else { return Ok(None) };
    let stored = table.get(sheet_key(&page)).await?.unwrap_or_default();
    let opened_at = item.time("opened_at").ok_or_else(|| unreadable("find"))?;
    Ok(Some(OnPage {
        subscription,
        place,
        sheet: sheet(&stored).ok_or_else(|| unreadable("find"))?,
        opened_at,
        updated_at: stored.time("written_at").unwrap_or(opened_at),
        given: delivery_item::read_given(&item),
    }))
}

/// Pages of a part from this number on, with how many members each has and what became of them, and the number to continue from.
pub(crate) async fn read_pages(
    table: &Table,
    run: &RunKey,
    shard: u8,
    from: u32,
) -> Result<(Vec<(PageKey, usize, Sheet)>, Option<u32>), PortError> {
    let part = PageKey { run: run.clone(), shard, first: 0 };
    let values = [
        (":pk", s(pk(&part))),
        (":from", s(sort_key(MEMBERS, from))),
        (":to", s(sort_key(MEMBERS, u32::MAX))),
    ];
    let query = table.query("pk = :pk AND sk BETWEEN :from AND :to", values).limit(PAGES_AT_ONCE);
    let items = crate::table::page(query).await?.items.unwrap_or_default();
    let mut pages = Vec::with_capacity(items.len());
    for item in &items {
        let first = item.text("sk").and_then(|sk| sk.strip_prefix(MEMBERS)?.parse().ok());
        let first = first.ok_or_else(|| unreadable("read_pages"))?;
        let members = members_of(item).ok_or_else(|| unreadable("read_pages"))?.len();
        pages.push((PageKey { first, ..part.clone() }, members));
    }
    let sheets = pages.iter().map(|(page, _)| sheet_key(page)).collect();
    let sheets = table.get_each(sheets, Patience::brief()).await;
    let mut read = Vec::with_capacity(pages.len());
    for ((page, members), item) in pages.into_iter().zip(sheets) {
        let sheet = sheet(&item?.unwrap_or_default()).ok_or_else(|| unreadable("read_pages"))?;
        read.push((page, members, sheet));
    }
    let next = read.last().filter(|_| !items.is_empty()).map(|(page, ..)| page.first.saturating_add(1));
    Ok((read, next))
}

/// Pages that are read at once.
const PAGES_AT_ONCE: i32 = 50;

/// Where a subscription is on the pages of its part, if it is on one. Pages are in the order of their members, as these are on a page:
/// so the page is found by halving, with a read for each doubling of their number.
pub(crate) async fn position_of(
    table: &Table,
    part: &PageKey,
    subscription: &SubscriptionId,
) -> Result<Option<Position>, PortError> {
    // Where it may be: before `end`, and not before `start`.
    let (mut start, mut end) = (0, u32::MAX);
    while start < end {
        let middle = start + (end - start) / 2;
        let Some((page, item)) = page_of(table, &Position { number: middle, ..part.position(0) }).await?
        else {
            return Ok(None);
        };
        let members = members_of(&item).ok_or_else(|| unreadable("position_of"))?;
        if members.first().is_none_or(|first| subscription < first) {
            end = page.first;
        } else if members.last().is_some_and(|last| last < subscription) {
            // The next page begins there, if there is one.
            start = page.position(members.len()).number;
            if start <= middle {
                return Ok(None);
            }
        } else {
            return Ok(members.iter().position(|id| id == subscription).map(|place| page.position(place)));
        }
    }
    Ok(None)
}

/// The item with the members of the last page that begins at this position or before it.
async fn page_of(table: &Table, position: &Position) -> Result<Option<(PageKey, Item)>, PortError> {
    let Position { run, shard, number } = position;
    let key = |first| PageKey { run: run.clone(), shard: *shard, first };
    let values =
        [(":pk", s(pk(&key(0)))), (":from", s(sort_key(MEMBERS, 0))), (":to", s(sort_key(MEMBERS, *number)))];
    let query = table.query("pk = :pk AND sk BETWEEN :from AND :to", values);
    let found = crate::table::page(query.scan_index_forward(false).limit(1)).await?;
    let Some(item) = found.items.unwrap_or_default().pop() else { return Ok(None) };
    let first = item.text("sk").and_then(|sk| sk.strip_prefix(MEMBERS)?.parse().ok());
    Ok(Some((key(first.ok_or_else(|| unreadable("page_of"))?), item)))
}

fn unreadable(operation: &'static str) -> PortError {
    PortError { operation, code: "Unreadable".to_owned(), throttled: false }
}

fn pk(page: &PageKey) -> String {
    format!("run#{}#{:02}", page.run, page.shard)
}

const MEMBERS: &str = "members#";
const SHEET: &str = "sheet#";

fn sort_key(prefix: &str, first: u32) -> String {
    format!("{prefix}{first:010}")
}

fn members_key(page: &PageKey) -> Item {
    key(pk(page), sort_key(MEMBERS, page.first))
}

fn sheet_key(page: &PageKey) -> Item {
    key(pk(page), sort_key(SHEET, page.first))
}

fn members_of(item: &Item) -> Option<Vec<SubscriptionId>> {
    item.text("ids")?.split(' ').map(SubscriptionId::parse).collect()
}

/// Reads an item; `None` if it is not one that this version wrote. One that was only claimed has no places.
fn sheet(item: &Item) -> Option<Sheet> {
    let places = |name| match item.get(name) {
        None => Some(Places::default()),
        Some(_) => Places::from_text(item.text(name)?),
    };
    Some(Sheet {
        step: item.number("step").unwrap_or_default(),
        started: places("started")?,
        sent: places("sent")?,
        apart: places("apart")?,
        settled: places("settled")?,
        sent_at: item.time("sent_at"),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redial_core::audience::Opening;
    use redial_core::identity::Turn;
    use redial_core::lane::Lane;
    use redial_core::{body::Body, ledger::State};
    use serde_json::json;

    use super::*;
    use crate::fake_table::FakeTable;
    use crate::fixtures::{delivery, given};
    use crate::table::attributes::item;

    fn opened_at() -> Timestamp {
        Timestamp::from_secs(1_800_000_000)
    }

    fn run() -> Run {
        let message = delivery("news");
        Run {
            key: RunKey::new(&message, Opening { turn: Turn::default(), at: opened_at() }),
            message: message.id,
            lane: Lane::Bulk,
            body: Body::new("{}".to_owned()),
            opened_at: opened_at(),
            kept_until: opened_at().plus(Duration::from_secs(86_400)),
            cancelled_at: None,
            by_the_page: true,
        }
    }

    fn id(number: usize) -> SubscriptionId {
        SubscriptionId::parse(&format!("s{number:05}")).expect("an id")
    }

    /// A table with `many` pages of three subscriptions each, of the numbers 1, 3, 5 and so on.
    async fn with_pages(many: u32) -> (FakeTable, Table) {
        let fake = FakeTable::default();
        let table = Table::new(fake.client(), "audiences".to_owned());
        for page in 0..many {
            let page = PageKey { run: run().key, shard: 3, first: 3 * page };
            let members: Vec<_> = (0..3).map(|place| id(2 * (page.first as usize + place) + 1)).collect();
            assert_eq!(record(&table, &run(), &page, &members, &given()).await, Ok(members));
        }
        (fake, table)
    }

    #[tokio::test]
    async fn a_recipient_is_found_by_its_position_until_its_run_is_forgotten() {
        let (fake, table) = with_pages(4).await;
        let page = PageKey { run: run().key, shard: 3, first: 3 };
        for number in 0..12 {
            let found = find(&table, &page_position(number), opened_at()).await.expect("the table answers");
            let found = found.expect("it is on a page");
            let expected = (id(2 * number as usize + 1), number as usize % 3, State::Queued);
            assert_eq!((found.subscription.clone(), found.place, found.state()), expected);
            assert_eq!((found.opened_at, found.updated_at, found.given), (opened_at(), opened_at(), given()));
        }
        let number = |number: &str| json!({"N": number});
        let text = |text: &str| json!({"S": text});
        let (none, sent) = (Places::default().to_text(), [1].into_iter().collect::<Places>().to_text());
        fake.write(
            &pk(&page),
            "sheet#0000000003",
            &json!({
                "step": number("1"), "sent": text(&sent), "started": text(&none), "apart": text(&none),
                "settled": text(&none), "written_at": number("1800000001000"),
            }),
        );
        let found = find(&table, &page.position(1), opened_at()).await.expect("the table answers");
        let found = found.expect("it is on a page");
        assert_eq!((found.state(), found.updated_at), (State::Sent, Timestamp::from_secs(1_800_000_001)));
        let of = async |position: &Position, now| find(&table, position, now).await.expect("it answers");
        assert_eq!(of(&page_position(12), opened_at()).await, None, "the last page has three");
        assert_eq!(of(&Position { shard: 4, ..page_position(0) }, opened_at()).await, None);
        assert_eq!(of(&page_position(0), run().kept_until).await, None, "its rows are deleted late");
    }

    fn page_position(number: u32) -> Position {
        Position { run: run().key, shard: 3, number }
    }

    #[tokio::test]
    async fn a_subscription_s_position_is_found_by_halving() {
        let part = PageKey { run: run().key, shard: 3, first: 0 };
        for pages in [0, 1, 2, 7, 64] {
            let (fake, table) = with_pages(pages).await;
            let recorded = fake.calls().len();
            let last = 3 * pages;
            for number in 0..last {
                let found = position_of(&table, &part, &id(2 * number as usize + 1)).await;
                assert_eq!(found, Ok(Some(page_position(number))), "{pages}");
            }
            for absent in 0..=last {
                let found = position_of(&table, &part, &id(2 * absent as usize)).await;
                assert_eq!(found, Ok(None), "{absent} of {pages}");
            }
            let reads = fake.calls().len() - recorded;
            assert!(reads <= (2 * last as usize + 1) * 8, "{reads} reads for {pages} pages");
        }
    }

    #[test]
    fn a_sheet_is_read_as_it_was_written_and_another_form_is_unreadable() {
        assert_eq!(sheet(&Item::new()), Some(Sheet::default()), "it was only claimed");
        let places = |first: usize, last: usize| (first..last).collect::<Places>();
        let written = Sheet {
            step: 7,
            started: places(50, 60),
            sent: places(0, 49),
            apart: places(49, 50),
            settled: places(0, 50),
            sent_at: Some(opened_at()),
        };
        let mut stored = item([
            ("step", n(7)),
            ("started", s(written.started.to_text())),
            ("sent", s(written.sent.to_text())),
            ("apart", s(written.apart.to_text())),
            ("settled", s(written.settled.to_text())),
            ("sent_at", ms(opened_at())),
        ]);
        assert_eq!(sheet(&stored), Some(written));
        stored.insert("sent".to_owned(), s("all"));
        assert_eq!(sheet(&stored), None);
    }

    #[test]
    fn members_are_one_text() {
        let members = ["s1", "s-2_x"].map(|id| SubscriptionId::parse(id).expect("an id"));
        assert_eq!(members_of(&item([("ids", s("s1 s-2_x"))])), Some(members.to_vec()));
        assert_eq!(members_of(&item([("ids", s("s1  s2"))])), None);
    }
}
