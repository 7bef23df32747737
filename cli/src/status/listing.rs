//! `redial status --state S --tenant T`: a tenant's deliveries in a state, the latest first.

use redial_adapters::system::System;
use redial_core::{
    identity::{SubscriptionId, Tenant},
    ledger::listing::{Filter, Listing, MOST},
    tag::MessageTag,
    time::{Timestamp, Ttl},
};
use redial_engine::ports::{Clock as _, Deliveries as _, DeliveryRecord, Listed};
use serde_json::{Value, json};

use super::delivery;
use crate::{
    aws_error::AwsError,
    duration::relative,
    failure::Failure,
    line::Line,
    stack::Target,
    table::{Column, Narrow, Table},
    terminal::{print_lines, say, width},
};

/// Of an id, this many characters stay.
const ID_WIDTH: usize = 24;

#[derive(Debug)]
pub(crate) struct ByState {
    pub(crate) filter: Filter,
    pub(crate) tenant: Tenant,
    pub(crate) since: Timestamp,
    /// All of which each has.
    pub(crate) tags: Vec<MessageTag>,
    pub(crate) limit: usize,
}

/// What was found, the latest first, and whether there is more.
#[derive(Debug)]
pub(crate) struct InState {
    records: Vec<DeliveryRecord>,
    pub(crate) has_more: bool,
    waits: delivery::Waits,
    at: Timestamp,
}

impl ByState {
    pub(crate) async fn read(&self, target: &Target) -> Result<InState, Failure> {
        let Self { filter, tenant, since, tags, limit } = self;
        let deliveries = target.deliveries();
        let (mut found, mut after) = (Vec::new(), None);
        let has_more = loop {
            // Of a page, few may have the tags.
            let page = if tags.is_empty() { (limit - found.len()).min(MOST) } else { MOST };
            let (tenant, tags) = (tenant.clone(), tags.clone());
            let listing = Listing { tenant, filter: *filter, since: *since, tags, after, limit: page };
            let listed = deliveries.list(&listing).await;
            let failed = |error| AwsError::of_port(&error).failure("the deliveries cannot be listed");
            let Listed { records, next } = listed.map_err(failed)?;
            found.extend(records);
            if found.len() > *limit {
                found.truncate(*limit);
                break true;
            }
            match next {
                None => break false,
                Some(_) if found.len() >= *limit => break true,
                Some(position) => after = Some(position),
            }
        };
        let waits = delivery::waits(target).await;
        Ok(InState { records: found, has_more, waits, at: System.now() })
    }

    pub(super) async fn run(self, target: &Target, json: bool) -> Result<(), Failure> {
        let found = self.read(target).await?;
        let Self { filter, tenant, since, tags, limit } = self;
        if json {
            print_lines(found.to_json().iter().map(Value::to_string))?;
        } else {
            print_lines(lines(&found.records, found.at, |record| found.place(record)))?;
            if found.records.is_empty() {
                let tags =
                    tags.iter().map(|tag| format!(" with the tag {tag}")).collect::<Vec<_>>().join(" and");
                let since = since.to_rfc3339_seconds();
                say(&format!("no delivery of {tenant}{tags} is {filter} since {since}"));
            }
        }
        if found.has_more {
            say(&format!("there are more: --limit shows more than {limit}"));
        }
        Ok(())
    }
}

impl InState {
    fn place(&self, record: &DeliveryRecord) -> String {
        delivery::where_is(record, &self.waits, self.at)
    }

    /// A document for each.
    pub(crate) fn to_json(&self) -> Vec<Value> {
        self.records.iter().map(|record| to_json(record, &self.place(record))).collect()
    }
}

fn lines(found: &[DeliveryRecord], now: Timestamp, place: impl Fn(&DeliveryRecord) -> String) -> Vec<Line> {
    if found.is_empty() {
        return Vec::new();
    }
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let row = |record: &DeliveryRecord| {
        let entry = &record.entry;
        [
            entry.key.id.to_string(),
            entry.state.to_string(),
            relative(entry.updated_at, now),
            or_none(entry.status.map(|status| status.to_string())),
            or_none(entry.reason.map(|reason| reason.to_string())),
            place(record),
        ]
    };
    let headings = ["ID", "STATE", "SINCE", "STATUS", "REASON", "WHERE"];
    let column = |heading| match heading {
        "STATUS" => Column::text(heading).narrowed(1, Narrow::LeaveOut),
        "STATE" => Column::text(heading).narrowed(2, Narrow::LeaveOut),
        "ID" => Column::text(heading).narrowed(3, Narrow::CutEnd).at_least(ID_WIDTH),
        "WHERE" => Column::text(heading).narrowed(4, Narrow::CutEnd),
        _ => Column::text(heading),
    };
    Table::new(headings.map(column)).within(width()).with(found.iter().map(row)).lines()
}

/// Every field is always present.
fn to_json(record: &DeliveryRecord, place: &str) -> Value {
    let entry = &record.entry;
    json!({
        "tenant": entry.key.tenant.as_str(),
        "id": entry.key.id.as_str(),
        "state": entry.state.label(),
        "where": place,
        "since": entry.updated_at.to_rfc3339(),
        "attempt": entry.turn.attempt.0,
        "lineage": entry.turn.lineage.0,
        "status": entry.status,
        "reason": entry.reason.map(|reason| reason.label()),
        "not_before": entry.not_before.map(Timestamp::to_rfc3339),
        "in_doubt": entry.in_doubt,
        "tags": entry.given.tags,
        "ttl_seconds": entry.given.ttl.map(Ttl::as_secs),
        "dispatched_at": entry.dispatched_at.map(Timestamp::to_rfc3339),
        "subscription": entry.subscription.as_ref().map(SubscriptionId::as_str),
    })
}
