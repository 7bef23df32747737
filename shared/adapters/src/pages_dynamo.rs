//! Pages of audiences on the `audiences` table ([`redial_core::page`]).
//!
//! | pk | sk | what | expires |
//! |---|---|---|---|
//! | `run#<tenant>#<run>#<part>` | `members#<after>` | the members of the page that begins after that subscription, as one text | with the run |
//! | the same | `sheet#<after>` | what became of their places: who holds it until when, and at which step it is | with the run |
//!
//! A part has a partition of its own: a page is some ten writes, and a partition takes a thousand a second.

use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure};
use redial_core::audience::Run;
use redial_core::identity::SubscriptionId;
use redial_core::page::{PageKey, Places, Sheet};
use redial_core::time::Timestamp;
use redial_engine::ports::{PageClaim, PageLease, PortError};

use crate::table::attributes::{Item, Read, expiry, key, ms, n, s};
use crate::table::{Table, Update};

/// Records the members of a page, unless they are; answers those that are.
pub(crate) async fn record(
    table: &Table,
    run: &Run,
    page: &PageKey,
    members: &[SubscriptionId],
) -> Result<Vec<SubscriptionId>, PortError> {
    let ids = members.iter().map(SubscriptionId::as_str).collect::<Vec<_>>().join(" ");
    let values = [(":ids", s(ids)), (":end", expiry(run.kept_until))];
    let update = table
        .update(members_key(page), "SET ids = :ids, expires_at = :end", values)
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
    ];
    let expression = "SET held_until = :until, step = :step, started = :started, sent = :sent, apart = :apart, \
         settled = :settled";
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

/// The page of a part that a subscription is on, if it is on one: its place, and what became of it.
pub(crate) async fn find(
    table: &Table,
    page: &PageKey,
    subscription: &SubscriptionId,
) -> Result<Option<(usize, Sheet)>, PortError> {
    let values =
        [(":pk", s(pk(page))), (":first", s("members#")), (":at", s(format!("members#{subscription}")))];
    let query = table.query("pk = :pk AND sk BETWEEN :first AND :at", values);
    // The last page that begins at or before it; the one that begins after it itself does not have it.
    for item in crate::table::page(query.scan_index_forward(false).limit(2)).await?.items() {
        let members = members_of(item).ok_or_else(|| unreadable("find"))?;
        let Some(place) = members.iter().position(|id| id == subscription) else { continue };
        let after = item.text("sk").and_then(|sk| SubscriptionId::parse(sk.strip_prefix("members#")?));
        let stored = table.get(sheet_key(&PageKey { after, ..page.clone() })).await?;
        let read = |item: &Item| sheet(item).ok_or_else(|| unreadable("find"));
        return Ok(Some((place, stored.as_ref().map(read).transpose()?.unwrap_or_default())));
    }
    Ok(None)
}

fn unreadable(operation: &'static str) -> PortError {
    PortError { operation, code: "Unreadable".to_owned(), throttled: false }
}

fn pk(page: &PageKey) -> String {
    format!("run#{}#{:02}", page.run, page.shard)
}

fn after(page: &PageKey) -> &str {
    page.after.as_ref().map_or("", SubscriptionId::as_str)
}

fn members_key(page: &PageKey) -> Item {
    key(pk(page), format!("members#{}", after(page)))
}

fn sheet_key(page: &PageKey) -> Item {
    key(pk(page), format!("sheet#{}", after(page)))
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::attributes::item;

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
        };
        let mut stored = item([
            ("step", n(7)),
            ("started", s(written.started.to_text())),
            ("sent", s(written.sent.to_text())),
            ("apart", s(written.apart.to_text())),
            ("settled", s(written.settled.to_text())),
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
