//! Waits until nothing moves any more.
//!
//! A message's end in the ledger is not yet the end of everything: its dead letter may still be on its way, its duplicate
//! still in a queue. So the run is over when every delivery has ended *and* all queues and the parking are empty, twice in a
//! row, since queues are counted one after the other and a message may pass from one that was not yet counted to one that was.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName::{
    ApproximateNumberOfMessages, ApproximateNumberOfMessagesDelayed, ApproximateNumberOfMessagesNotVisible,
};
use redial_adapters::system::System;
use redial_core::{
    ledger::{
        Cancellation, State,
        listing::{Filter, Listing, MOST},
    },
    time::Timestamp,
};
use redial_engine::ports::{Clock as _, Deliveries as _, Listed};

use super::{
    harness::Harness,
    mix::{Delivery, tenant},
    producer::Producer,
    scenarios::{Asked, Manner},
    view::{Standing, View},
};
use crate::local::call;
use redial_console::failure::Failure;

const INTERVAL: Duration = Duration::from_millis(250);

/// Looks in a row that have to find everything empty.
const LOOKS: u32 = 2;

/// What is retrying came to it within this time.
const A_WHILE: Duration = Duration::from_secs(600);

/// Entries that are read at once.
const MOST_KEYS: usize = 100;

/// The place of what is on no queue yet.
const NOT_SENT: &str = "not sent yet";

type Item = HashMap<String, AttributeValue>;

pub(super) struct Watch<'a> {
    harness: &'a Harness,
    view: View,
    states: HashMap<String, State>,
    /// Ids of those in parking at the moment.
    parked_now: HashSet<String>,
    /// Ids of those that were cancelled on request.
    cancelled: HashSet<String>,
    /// Ids of those that were listed as waiting for a retry.
    found: HashSet<String>,
    /// The buckets that ids were ever seen in.
    parked: BTreeMap<String, String>,
    parking_read: Option<Timestamp>,
    /// Ids of unreadable bodies that have their letter.
    described: HashSet<String>,
    not_empty: Vec<&'static str>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(harness: &'a Harness, view: View) -> Self {
        Self {
            harness,
            view,
            states: HashMap::new(),
            parked_now: HashSet::new(),
            cancelled: HashSet::new(),
            found: HashSet::new(),
            parked: BTreeMap::new(),
            parking_read: None,
            described: HashSet::new(),
            not_empty: Vec::new(),
        }
    }

    /// Returns when nothing moves any more. What is to be sent twice is sent again as soon as it was sent once.
    pub(super) async fn until_still(
        &mut self,
        deliveries: &mut [Delivery],
        producer: &Producer,
    ) -> Result<(), Failure> {
        let mut still = 0;
        while still < LOOKS {
            self.look(deliveries).await?;
            let sent = |it: &&mut Delivery| {
                it.scenario.manner == Manner::Twice
                    && !it.is_repeated
                    && self.states.get(&it.id) == Some(&State::Sent)
            };
            producer.repeat(deliveries.iter_mut().filter(sent)).await?;
            for delivery in deliveries.iter_mut() {
                delivery.is_cancelled = self.cancelled.contains(&delivery.id);
                delivery.is_found =
                    delivery.scenario.asked == Asked::ByState && self.found.contains(&delivery.id);
            }
            self.view.show(&self.standings(deliveries));
            if deliveries.iter().all(|it| self.has_ended(it)) {
                self.not_empty = self.occupied().await?;
                still = if self.not_empty.is_empty() { still + 1 } else { 0 };
            }
            tokio::time::sleep(INTERVAL).await;
        }
        Ok(())
    }

    pub(super) fn close(&mut self) {
        self.view.close();
    }

    pub(super) fn parked(&self) -> &BTreeMap<String, String> {
        &self.parked
    }

    /// The deliveries that have not ended, and where they stand.
    pub(super) fn missing<'b>(
        &self,
        deliveries: &'b [Delivery],
    ) -> impl Iterator<Item = (&'b Delivery, &'static str)> {
        deliveries.iter().filter(|it| !self.has_ended(it)).map(|it| (it, self.place(it)))
    }

    /// The queues and tables that should be empty at the end, and were not at the last look.
    pub(super) fn not_empty(&self) -> &[&'static str] {
        &self.not_empty
    }

    async fn look(&mut self, deliveries: &[Delivery]) -> Result<(), Failure> {
        self.look_at_parking(deliveries).await?;
        let entries = self.scan(&self.harness.description().tables.deliveries, &["id", "state"]).await?;
        for entry in &entries {
            if let Some((id, state)) = text(entry, "id").zip(text(entry, "state").and_then(State::from_label))
            {
                let known = self.states.get(id).is_some_and(|known| known.is_terminal());
                if !known || state != State::Sending {
                    self.states.insert(id.to_owned(), state);
                }
            }
        }
        // Of those that stand at `sending`, the ledger knows whether they were recorded together with others.
        let is_open = |it: &&Delivery| self.states.get(&it.id) == Some(&State::Sending);
        let open: Vec<&Delivery> = deliveries.iter().filter(is_open).collect();
        for some in open.chunks(MOST_KEYS) {
            let keys: Vec<_> = some.iter().map(|it| it.key()).collect();
            let items = self.harness.deliveries.items(&keys).await;
            for (delivery, item) in some.iter().zip(items) {
                let state = item?.and_then(|item| State::from_label(text(&item, "state")?));
                self.states.extend(state.map(|state| (delivery.id.clone(), state)));
            }
            self.look_at_parking(deliveries).await?;
        }
        for delivery in deliveries.iter().filter(|it| it.scenario.manner == Manner::CutOff) {
            if !self.described.contains(&delivery.id)
                && super::evidence::description(self.harness, delivery).await?.is_some()
            {
                self.described.insert(delivery.id.clone());
            }
            self.look_at_parking(deliveries).await?;
        }
        Ok(())
    }

    /// Cancels what is to be cancelled while it waits, as soon as it is parked.
    async fn cancel(&mut self, deliveries: &[Delivery]) -> Result<(), Failure> {
        let waits = |it: &&Delivery| {
            it.scenario.asked == Asked::ToCancel
                && self.parked_now.contains(&it.id)
                && !self.cancelled.contains(&it.id)
        };
        for delivery in deliveries.iter().filter(waits).collect::<Vec<_>>() {
            let answer = self.harness.deliveries.cancel(&delivery.key(), System.now()).await?;
            if matches!(answer, Cancellation::Cancelled(_)) {
                self.cancelled.insert(delivery.id.clone());
            }
        }
        Ok(())
    }

    /// Asks which deliveries wait for a retry, as soon as one that is to be found by its state is parked.
    async fn find_by_state(&mut self, deliveries: &[Delivery]) -> Result<(), Failure> {
        let is_wanted =
            |it: &Delivery| it.scenario.asked == Asked::ByState && self.parked_now.contains(&it.id);
        if !deliveries.iter().any(|it| is_wanted(it) && !self.found.contains(&it.id)) {
            return Ok(());
        }
        let (mut after, since) = (None, System.now().minus(A_WHILE));
        loop {
            let (tenant, filter) = (tenant(), Filter::Retrying);
            let listing = Listing { tenant, filter, since, tags: Vec::new(), after, limit: MOST };
            let Listed { records, next } = self.harness.deliveries.list(&listing).await?;
            self.found.extend(records.iter().map(|record| record.entry.key.id.to_string()));
            after = next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Unless it was read within the interval. A wait of five seconds is seen only while it lasts, and LocalStack on a busy machine takes
    /// a second to answer.
    async fn look_at_parking(&mut self, deliveries: &[Delivery]) -> Result<(), Failure> {
        if self.parking_read.is_some_and(|read| System.now().since(read) < INTERVAL) {
            return Ok(());
        }
        let parked = self.scan(&self.harness.description().tables.parked, &["pk", "sk"]).await?;
        self.parking_read = Some(System.now());
        self.parked_now.clear();
        for item in &parked {
            let bucket = text(item, "pk").and_then(|shard| shard.split_once('.')).map(|(bucket, _)| bucket);
            let id = text(item, "sk").and_then(|sort| sort.split('#').nth(1));
            if let Some((id, bucket)) = id.zip(bucket) {
                self.parked_now.insert(id.to_owned());
                self.parked.insert(id.to_owned(), bucket.to_owned());
            }
        }
        self.cancel(deliveries).await?;
        self.find_by_state(deliveries).await
    }

    fn has_ended(&self, delivery: &Delivery) -> bool {
        match delivery.scenario.manner {
            Manner::Once => self.has_final_state(delivery),
            Manner::Twice => self.has_final_state(delivery) && delivery.is_repeated,
            Manner::CutOff => self.described.contains(&delivery.id),
        }
    }

    fn has_final_state(&self, delivery: &Delivery) -> bool {
        self.states.get(&delivery.id).is_some_and(|state| state.is_terminal())
    }

    /// Where each message is: the second one of a delivery is with the first, once it was sent.
    fn standings(&self, deliveries: &[Delivery]) -> Vec<Standing> {
        let standing = |delivery: &Delivery, place| Standing {
            scenario: delivery.scenario.slug,
            place,
            has_ended: self.has_ended(delivery),
        };
        let of_delivery = |delivery| {
            let first = standing(delivery, self.place(delivery));
            let second = match delivery.scenario.manner {
                Manner::Once | Manner::CutOff => None,
                Manner::Twice if delivery.is_repeated => Some(first.clone()),
                Manner::Twice => Some(standing(delivery, NOT_SENT)),
            };
            [Some(first), second]
        };
        deliveries.iter().flat_map(of_delivery).flatten().collect()
    }

    fn place(&self, delivery: &Delivery) -> &'static str {
        match self.states.get(&delivery.id) {
            _ if !delivery.is_sent() => NOT_SENT,
            _ if self.described.contains(&delivery.id) => State::Failed.label(),
            _ if self.parked_now.contains(&delivery.id) => "parked",
            Some(state) => state.label(),
            None => State::Queued.label(),
        }
    }

    /// Everything that has something in it. The queues come in the order in which messages pass them.
    async fn occupied(&self) -> Result<Vec<&'static str>, Failure> {
        let queues = &self.harness.description().queues;
        let parked = self.scan(&self.harness.description().tables.parked, &["pk"]).await?;
        let mut occupied = Vec::new();
        if !parked.is_empty() {
            occupied.push("the table of parked messages");
        }
        for (name, url) in [
            ("the ingest queue", &queues.ingest),
            ("the bulk queue", &queues.bulk),
            ("the retry queue", &queues.retry),
            ("the bulk retry queue", &queues.retry_bulk),
            ("the dead-letter queue", &queues.dead_letter),
            ("the quarantine", &queues.quarantine),
        ] {
            if self.depth(url).await? > 0 {
                occupied.push(name);
            }
        }
        Ok(occupied)
    }

    async fn depth(&self, url: &str) -> Result<u64, Failure> {
        let asked = self
            .harness
            .sqs
            .get_queue_attributes()
            .queue_url(url)
            .attribute_names(ApproximateNumberOfMessages)
            .attribute_names(ApproximateNumberOfMessagesDelayed)
            .attribute_names(ApproximateNumberOfMessagesNotVisible)
            .send()
            .await
            .map_err(call("GetQueueAttributes"))?;
        let counts = asked.attributes.unwrap_or_default();
        Ok(counts.values().filter_map(|count| count.parse::<u64>().ok()).sum())
    }

    /// These attributes of all items of a table.
    async fn scan(&self, table: &str, attributes: &[&str]) -> Result<Vec<Item>, Failure> {
        let names: Vec<String> = attributes.iter().map(|name| format!("#{name}")).collect();
        let mut scan = self
            .harness
            .dynamodb
            .scan()
            .table_name(table)
            .consistent_read(true)
            .projection_expression(names.join(", "));
        for (name, attribute) in names.iter().zip(attributes) {
            scan = scan.expression_attribute_names(name, *attribute);
        }
        let items: Result<Vec<Item>, _> = scan.into_paginator().items().send().collect().await;
        Ok(items.map_err(call("Scan"))?)
    }
}

fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}
