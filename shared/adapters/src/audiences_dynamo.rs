//! The `audiences` table: which subscriptions have a tag, and the messages to them that are under way.
//!
//! | pk | sk | what | expires |
//! |---|---|---|---|
//! | `<tenant>#<tag>#<part>`; of a tenant `run`: `run##<tag>#<part>` | subscription's id | the subscription has the tag | never |
//! | `run#<tenant>#<run>` | `run` | a message to an audience: its id, lane and body, when it was opened, when it was cancelled | when its last recipient's delivery is over |
//! | `run#<tenant>#<run>` | `part#<part>` | the progress of a part of its audience, and which call moved it last | with it |
//! | `run#<tenant>#<run>` | `page#<part>` | of an audience with a rate: after whom the part's last page begins, and how far it goes | with it |
//! | `run#<tenant>#<message's id>` | `current` | which run of the message was opened last, and when | with that run |
//!
//! Where it is sent by the page, its pages are in partitions of their own (`pages_dynamo`).
//!
//! DynamoDB deletes expired rows late and one by one: a row past its expiry counts as absent.
//!
//! The row of a tag is written and removed in the same transaction as the subscription's tags, so there is never a row without its
//! subscription or a tag without its row. Its part follows from the subscription's id, so that an audience of a million has
//! sixteen partitions to write to and to read.

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem};
use futures_util::future::join_all;
use redial_core::audience::{Bounds, Progress, RecipientRef, Run, RunKey, SHARDS, shard_of};
use redial_core::body::Body;
use redial_core::identity::{DeliveryId, DeliveryKey, RunId, SubscriptionId, SubscriptionKey, Tenant};
use redial_core::lane::Lane;
use redial_core::ledger::Given;
use redial_core::page::{PageKey, PageMessage, Position, Sheet};
use redial_core::tag::{Tag, Tags};
use redial_core::time::Timestamp;
use redial_engine::ports::{Audiences, Clock as _, OnPage, PageClaim, PageLease, Pages, PortError};

use crate::aws_error;
use crate::pages_dynamo;
use crate::retries::Patience;
use crate::system::System;
use crate::table::attributes::{Item, Read, b, expiry, item, key, ms, n, or_null, s};
use crate::table::{Change, Table, Update, all, on_a_table, request_token};

/// The `audiences` table: partition key `pk` and sort key `sk` (strings), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoAudiences {
    table: Table,
}

on_a_table!(DynamoAudiences);

/// The progress of a message to an audience.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    pub run: Run,
    /// In order; a part that no worker has reached yet is at its beginning.
    pub parts: Vec<Progress>,
}

impl Standing {
    /// How many recipients it was queued for.
    pub fn recipients(&self) -> u64 {
        self.parts.iter().map(|part| part.recipients).sum()
    }

    /// How many parts are done.
    pub fn done(&self) -> usize {
        self.parts.iter().filter(|part| part.done).count()
    }
}

impl DynamoAudiences {
    pub(crate) fn on(table: Table) -> Self {
        Self { table }
    }

    /// The progress of this message as it was opened last; `None` if it is unknown or expired. Two reads of single items and one query.
    pub async fn standing(&self, key: &DeliveryKey) -> Result<Option<Standing>, PortError> {
        let Some(run) = self.current(key, System.now()).await? else { return Ok(None) };
        let values = [(":pk", s(format!("run#{}", run.key))), (":part", s("part#"))];
        let query = self.table.query("pk = :pk AND begins_with(sk, :part)", values);
        let mut parts = vec![Progress::default(); usize::from(SHARDS)];
        for item in all(query).await? {
            let number = item.text("sk").and_then(|sk| sk.strip_prefix("part#")?.parse::<usize>().ok());
            if let Some(part) = number.and_then(|number| parts.get_mut(number)) {
                *part = progress(&item);
            }
        }
        Ok(Some(Standing { run, parts }))
    }

    /// The delivery to a subscription of this message as it was opened last, and where it is on a page, if it is on one; `None` if the
    /// message is unknown or expired.
    pub async fn recipient(
        &self,
        key: &DeliveryKey,
        subscription: &SubscriptionId,
    ) -> Result<Option<(DeliveryKey, Option<OnPage>)>, PortError> {
        let now = System.now();
        let Some(run) = self.current(key, now).await? else { return Ok(None) };
        let delivery = |id| DeliveryKey { tenant: key.tenant.clone(), id };
        let part = PageKey { run: run.key.clone(), shard: shard_of(subscription), first: 0 };
        let Some(position) = pages_dynamo::position_of(&self.table, &part, subscription).await? else {
            return Ok(Some((delivery(RecipientRef::new(&run.key, subscription.clone()).id), None)));
        };
        let found = self.on_page(&position, now).await?;
        Ok(Some((delivery(position.delivery()), found)))
    }

    /// Pages of a part of a run that is sent by the page, from this number on: how many members each has, and what became of them; and the
    /// number to continue from, until there are no more.
    pub async fn pages(
        &self,
        run: &RunKey,
        shard: u8,
        from: u32,
    ) -> Result<(Vec<(PageKey, usize, Sheet)>, Option<u32>), PortError> {
        pages_dynamo::read_pages(&self.table, run, shard, from).await
    }

    /// Cancels a run: no further recipient gets it, not even one that is waiting for it. `false` if the run is unknown or expired.
    pub async fn cancel(&self, key: &RunKey, now: Timestamp) -> Result<bool, PortError> {
        let expression = "SET cancelled_at = if_not_exists(cancelled_at, :now)";
        self.table.update_if(run_key(key), expression, "attribute_exists(pk)", [(":now", ms(now))]).await
    }

    /// How many subscriptions have a tag: a read unit for every 8 KiB of their ids.
    pub async fn count(&self, tenant: &Tenant, tag: &Tag) -> Result<u64, PortError> {
        let mut count = 0;
        for shard in 0..SHARDS {
            let query = self.table.query("pk = :pk", [(":pk", s(partition(tenant, tag, shard)))]);
            let query = query.projection_expression("sk").set_consistent_read(None);
            count += all(query).await?.len() as u64;
        }
        Ok(count)
    }

    async fn open_one(&self, run: Run) -> Result<(), PortError> {
        let mut row = run_key(&run.key);
        row.extend(item([
            ("tenant", s(run.key.tenant.as_str())),
            ("id", s(run.key.id.as_str())),
            ("message", s(run.message.as_str())),
            ("lane", s(run.lane.label())),
            ("body", b(run.body.expose())),
            ("opened_at", ms(run.opened_at)),
            ("expires_at", expiry(run.kept_until)),
        ]));
        if run.by_the_page {
            row.insert("by_the_page".to_owned(), AttributeValue::Bool(true));
        }
        self.table.put_if_new(row).await?;
        self.note_current(&run).await
    }

    /// Records that a message's id leads to this run, unless it leads to one that was opened later.
    async fn note_current(&self, run: &Run) -> Result<(), PortError> {
        let message = DeliveryKey { tenant: run.key.tenant.clone(), id: run.message.clone() };
        let values =
            [(":run", s(run.key.id.as_str())), (":at", ms(run.opened_at)), (":end", expiry(run.kept_until))];
        let expression = "SET #run = :run, opened_at = :at, expires_at = :end";
        let condition = "attribute_not_exists(opened_at) OR opened_at <= :at";
        self.table.update_if(current_key(&message), expression, condition, values).await.map(|_| ())
    }

    /// The run that this message's id leads to.
    async fn current(&self, message: &DeliveryKey, now: Timestamp) -> Result<Option<Run>, PortError> {
        let found = self.table.get_one(current_key(message)).await?;
        let Some(id) = found.and_then(|item| RunId::parse(item.text("run")?)) else { return Ok(None) };
        let key = RunKey { tenant: message.tenant.clone(), id };
        self.load(vec![key], now).await.pop().expect("every key is answered")
    }
}

impl Audiences for DynamoAudiences {
    async fn open(&self, runs: Vec<Run>) -> Vec<Result<(), PortError>> {
        join_all(runs.into_iter().map(|run| self.open_one(run))).await
    }

    async fn load(&self, keys: Vec<RunKey>, now: Timestamp) -> Vec<Result<Option<Run>, PortError>> {
        let found = self.table.get_each(keys.iter().map(run_key).collect(), Patience::brief()).await;
        found.into_iter().map(|item| item?.map_or(Ok(None), |item| kept(&item, now))).collect()
    }

    async fn members(
        &self,
        tenant: &Tenant,
        tag: &Tag,
        shard: u8,
        after: Option<&SubscriptionId>,
        most: u16,
    ) -> Result<Vec<SubscriptionId>, PortError> {
        // Consistent: a subscription that got the tag before the message was sent gets the message, and the last page is known by
        // being short.
        let pk = (":pk", s(partition(tenant, tag, shard)));
        let query = match after {
            None => self.table.query("pk = :pk", [pk]),
            Some(after) => self.table.query("pk = :pk AND sk > :after", [pk, (":after", s(after.as_str()))]),
        };
        let mut pages = query.projection_expression("sk").limit(i32::from(most)).into_paginator().send();
        let mut members = Vec::with_capacity(usize::from(most));
        while members.len() < usize::from(most)
            && let Some(page) = pages.next().await
        {
            let page = page.map_err(|error| aws_error::of_call("Query", &error))?;
            members.extend(page.items().iter().filter_map(|item| SubscriptionId::parse(item.text("sk")?)));
        }
        members.truncate(usize::from(most));
        Ok(members)
    }

    async fn progress(&self, run: &RunKey, shard: u8) -> Result<Progress, PortError> {
        Ok(self.table.get(part_key(run, shard)).await?.as_ref().map(progress).unwrap_or_default())
    }

    async fn bound(
        &self,
        run: &Run,
        shard: u8,
        after: Option<&SubscriptionId>,
        page: &Bounds,
    ) -> Result<Option<Bounds>, PortError> {
        // Before the first subscription is the empty text, which is less than every id.
        let after = after.map_or("", SubscriptionId::as_str);
        let values = [
            (":after", s(after)),
            (":through", s(page.through.as_str())),
            (":recipients", n(page.recipients)),
            (":end", expiry(run.kept_until)),
        ];
        let expression =
            "SET #after = :after, #through = :through, recipients = :recipients, expires_at = :end";
        let update = self
            .table
            .update(page_key(&run.key, shard), expression, values)
            .condition_expression("attribute_not_exists(pk) OR #after < :after")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        Ok(match self.table.send(update).await? {
            Update::Done(_) => Some(page.clone()),
            // A call that was carried out without an answer and made again finds what it wrote.
            Update::Refused(item) => bounds(&item).filter(|_| item.text("after") == Some(after)),
        })
    }

    async fn advance(&self, run: &Run, shard: u8, from: &Progress, to: &Progress) -> Result<bool, PortError> {
        // A call that was carried out without an answer is made again, and then the part is no longer where it was: by this token the
        // call recognises its own move.
        let token = request_token();
        let values = [
            (":after", or_null(to.after.as_ref().map(|id| s(id.as_str())))),
            (":recipients", n(to.recipients)),
            (":done", AttributeValue::Bool(to.done)),
            (":end", expiry(run.kept_until)),
            (":rests", or_null(to.rests_until.map(ms))),
            (":token", s(token.as_str())),
        ];
        let expression = "SET #after = :after, recipients = :recipients, done = :done, expires_at = :end, \
             rests_until = :rests, moved_by = :token";
        let update = self
            .table
            .update(part_key(&run.key, shard), expression, values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let update = match &from.after {
            None => update.condition_expression("attribute_not_exists(pk)"),
            Some(from) => update
                .condition_expression("#after = :from AND done = :not_done")
                .expression_attribute_values(":from", s(from.as_str()))
                .expression_attribute_values(":not_done", AttributeValue::Bool(false)),
        };
        Ok(match self.table.send(update).await? {
            Update::Done(_) => true,
            Update::Refused(item) => item.text("moved_by") == Some(&token),
        })
    }

    async fn record_page(
        &self,
        run: &Run,
        page: &PageKey,
        members: &[SubscriptionId],
        given: &Given,
    ) -> Result<Vec<SubscriptionId>, PortError> {
        pages_dynamo::record(&self.table, run, page, members, given).await
    }

    async fn claim_page(
        &self,
        page: &PageMessage,
        lease: &PageLease,
        now: Timestamp,
    ) -> Result<PageClaim, PortError> {
        pages_dynamo::claim(&self.table, &page.key, lease, now).await
    }

    async fn write_sheet(
        &self,
        page: &PageMessage,
        lease: &PageLease,
        sheet: &Sheet,
    ) -> Result<bool, PortError> {
        pages_dynamo::write(&self.table, &page.key, lease, sheet).await
    }
}

impl Pages for DynamoAudiences {
    async fn on_page(&self, position: &Position, now: Timestamp) -> Result<Option<OnPage>, PortError> {
        pages_dynamo::find(&self.table, position, now).await
    }
}

fn run_key(run: &RunKey) -> Item {
    key(format!("run#{run}"), "run")
}

fn part_key(run: &RunKey, shard: u8) -> Item {
    key(format!("run#{run}"), format!("part#{shard:02}"))
}

fn page_key(run: &RunKey, shard: u8) -> Item {
    key(format!("run#{run}"), format!("page#{shard:02}"))
}

fn current_key(message: &DeliveryKey) -> Item {
    key(format!("run#{message}"), "current")
}

/// A run, unless it has expired and DynamoDB has not deleted it yet.
fn kept(item: &Item, now: Timestamp) -> Result<Option<Run>, PortError> {
    if item.expires_at().is_some_and(|at| at <= now) {
        return Ok(None);
    }
    read(item).map(Some).ok_or_else(PortError::unreadable_run)
}

/// Reads an item; `None` if it is not one that this version wrote.
fn read(item: &Item) -> Option<Run> {
    Some(Run {
        key: RunKey { tenant: Tenant::parse(item.text("tenant")?)?, id: RunId::parse(item.text("id")?)? },
        message: DeliveryId::parse(item.text("message")?)?,
        lane: Lane::from_label(item.text("lane")?)?,
        body: Body::new(String::from_utf8(item.bytes("body")?.to_vec()).ok()?),
        opened_at: item.time("opened_at")?,
        kept_until: item.expires_at()?,
        cancelled_at: item.time("cancelled_at"),
        by_the_page: item.truth("by_the_page"),
    })
}

fn progress(item: &Item) -> Progress {
    Progress {
        after: item.text("after").and_then(SubscriptionId::parse),
        recipients: item.number("recipients").unwrap_or_default(),
        done: item.truth("done"),
        rests_until: item.time("rests_until"),
    }
}

fn bounds(item: &Item) -> Option<Bounds> {
    Some(Bounds {
        through: SubscriptionId::parse(item.text("through")?)?,
        recipients: item.number("recipients")?,
    })
}

/// Where those with a tag are listed. Runs have the prefix `run#`: a tenant of that name keeps out of them.
fn partition(tenant: &Tenant, tag: &Tag, shard: u8) -> String {
    let apart = if tenant.as_str() == "run" { "#" } else { "" };
    format!("{tenant}#{apart}{tag}#{shard:02}")
}

/// The writes that turn one set of tags into another: rows to remove, and rows to add.
pub(crate) fn changes(
    table: &Table,
    of: &SubscriptionKey,
    before: &Tags,
    after: &Tags,
) -> Vec<TransactWriteItem> {
    let row = |tag| key(partition(&of.tenant, tag, shard_of(&of.id)), of.id.as_str());
    let leaving = before.iter().filter(|tag| !after.contains(tag)).map(|tag| Change::Delete(row(tag)));
    let joining = after.iter().filter(|tag| !before.contains(tag)).map(|tag| Change::Put(row(tag)));
    leaving.chain(joining).map(|change| table.write(change, None, Item::new())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_table::FakeTable;
    use crate::fixtures::subscription;

    #[test]
    fn an_item_of_another_form_is_unreadable_until_it_expires() {
        let (opened_at, kept_until) =
            (Timestamp::from_secs(1_800_000_000), Timestamp::from_secs(1_801_000_000));
        let unreadable = Err(PortError::unreadable_run());
        let mut item = item([("body", b([0xff]))]);
        // It is not absent: messages that refer to it wait for a worker that can read it.
        assert_eq!(kept(&Item::new(), opened_at), unreadable);
        assert_eq!(kept(&item, opened_at), unreadable);
        item.insert("expires_at".to_owned(), expiry(kept_until));
        assert_eq!(kept(&item, opened_at), unreadable);
        assert_eq!(kept(&item, kept_until), Ok(None));
    }

    #[test]
    fn no_tenant_and_tag_are_where_a_run_is() {
        let tag = Tag::parse("acme").expect("a tag");
        let own = |tenant: &str| partition(&Tenant::parse(tenant).expect("a tenant"), &tag, 3);
        assert_eq!((own("shop"), own("run")), ("shop#acme#03".to_owned(), "run##acme#03".to_owned()));
        let message = DeliveryKey {
            tenant: Tenant::parse("acme").expect("a tenant"),
            id: DeliveryId::parse("03").expect("an id"),
        };
        assert_eq!(current_key(&message).get("pk"), Some(&s("run#acme#03")));
    }

    #[test]
    fn a_part_without_a_row_is_at_its_beginning() {
        assert_eq!(progress(&Item::new()), Progress::default());
    }

    #[test]
    fn only_changed_tags_are_written() {
        let table = Table::new(FakeTable::default().client(), "audiences".to_owned());
        let key = subscription("s1");
        let tags = |texts: [&str; 2]| {
            Tags::new(texts.map(|text| Tag::parse(text).expect("a tag")).to_vec()).expect("two")
        };
        let of = |item: &Item| [item.text("pk"), item.text("sk")].map(|text| text.expect("a key").to_owned());
        let written = changes(&table, &key, &tags(["news", "old"]), &tags(["news", "new"]));
        let [leaving, joining] = written.as_slice() else { panic!("{written:?}") };
        let shard = shard_of(&key.id);
        let row = |tag| [format!("acme#{tag}#{shard:02}"), "s1".to_owned()];
        assert_eq!(leaving.delete().map(|delete| of(delete.key())), Some(row("old")));
        assert_eq!(joining.put().map(|put| of(put.item())), Some(row("new")));
        assert!(changes(&table, &key, &tags(["a", "b"]), &tags(["a", "b"])).is_empty());
    }
}
